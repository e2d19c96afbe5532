// kvbed's own stores as the self-test opens them. It doesn't know what is tested with them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/fault_device.h"
#include "backends/store_folder.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"
#include "offload/status.h"

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

// One of them over a device that breaks, or only counts.
Result<std::unique_ptr<BlockStore>> OpenOver(FaultDevice& device, const StoreSpec& spec,
                                             StoreAccess access);

// Of devices for stores that are damaged and thrown away: what is durable is the model's alone.
constexpr FaultDevice::Options kModelled = {.power_cuts = false, .syncs = false};

}  // namespace kvbed
