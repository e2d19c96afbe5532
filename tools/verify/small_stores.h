// The stores in the tree that keep files, each in the ways in which it works differently, and
// small: with room for what the campaigns of crashes and races put into them. It opens none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/store_spec.h"
#include "offload/status.h"

namespace kvbed {

struct SmallStore {
  std::string name;  // in cases' names: "slab_psync"
  StoreKind kind = StoreKind::kSlab;
  std::string options{};          // of its spec: "ioengine=psync"
  uint64_t capacity_bytes = 0;    // that is room for kCampaignSlots records
  bool to_the_byte = true;        // and for none more
  uint64_t crash_operations = 0;  // that a few changes take

  // In `folder`, below which nothing else is.
  StoreSpec SpecIn(const std::string& folder, bool with_capacity) const;
};

std::vector<SmallStore> SmallFileStores();

// Ok, or why this build or this machine doesn't have a store.
Status IsStoreHere(const StoreSpec& spec);

}  // namespace kvbed
