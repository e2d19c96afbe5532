// What stores answer in the same words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "offload/manifest.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

Status OpenedForReading(std::string_view store);
// Corruption: a record's file, or the slot of one, holds fewer bytes than the record.
Status RecordIsShort(std::string_view where, uint64_t done_bytes, uint64_t record_bytes);

// Corruption of a manifest that names slots.
Status NoFileHasSlot(const Manifest& manifest, uint64_t slot);
Status SlotHoldsNewerRecord(const Manifest& manifest, uint64_t slot, std::string_view file);
Status SlotIsNamedTwice(const Manifest& manifest, uint64_t slot);
// Corruption: what a keeper of places says isn't what the manifest does.
Status PlacesDiffer(const RecordId& id, uint64_t keepers_slot, uint64_t manifests_slot);

}  // namespace kvbed
