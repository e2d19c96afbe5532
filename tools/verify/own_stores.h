// kvbed's own stores as the self-test opens them. It doesn't know what is tested with them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/store_spec.h"

namespace kvbed {

struct OwnStore {
  std::string_view name;  // in names of cases
  StoreKind kind = StoreKind::kSlab;
  std::optional<WalMode> wal = {};
  std::optional<RecordLayout> layout = {};
};

// Those that keep files, then memory.
std::span<const OwnStore> OwnStores();

StoreSpec SpecOf(const OwnStore& store, const std::string& folder);

// Direct I/O where it can be had: that a machine has none is no fault of a store.
StoreSettings SelfTestSettings();

}  // namespace kvbed
