#include "backends/store_errors.h"

#include <fmt/format.h>

namespace kvbed {

Status OpenedForReading(std::string_view store) {
  return Status::InvalidArgument(fmt::format("{} was opened for reading", store));
}

Status RecordIsShort(std::string_view where, uint64_t done_bytes, uint64_t record_bytes) {
  return Status::Corruption(fmt::format("{}: {} of {} bytes", where, done_bytes, record_bytes));
}

Status NoFileHasSlot(const Manifest& manifest, uint64_t slot) {
  return Status::Corruption(
      fmt::format("snapshot {} names slot {}, which no file can have", manifest.name, slot));
}

Status SlotHoldsNewerRecord(const Manifest& manifest, uint64_t slot, std::string_view file) {
  return Status::Corruption(
      fmt::format("snapshot {} names slot {} of {}, which holds a newer snapshot's record",
                  manifest.name, slot, file));
}

Status SlotIsNamedTwice(const Manifest& manifest, uint64_t slot) {
  return Status::Corruption(fmt::format("snapshot {} names slot {} twice", manifest.name, slot));
}

Status PlacesDiffer(const RecordId& id, uint64_t keepers_slot, uint64_t manifests_slot) {
  return Status::Corruption(
      fmt::format("the index has the record of {} in slot {}, its manifest in slot {}",
                  id.ToString(), keepers_slot, manifests_slot));
}

}  // namespace kvbed
