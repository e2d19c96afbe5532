// The file of a record in a store that has one file for each:
// HH/MODEL-SEQUENCE/BLOCK-GENERATION.kv, all in hexadecimal, where HH spreads sequences over 256
// folders. A sequence's records lie in one folder, so that few folders have to be synced.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "offload/record_id.h"

namespace kvbed {

// Below the store's folder of records.
std::string RecordFolder(const RecordKey& key);
std::string RecordPath(const RecordId& id);

// The record whose path is `spread`/`sequence`/`file`; nullopt for any other name.
std::optional<RecordId> RecordAtPath(std::string_view spread, std::string_view sequence,
                                     std::string_view file);

}  // namespace kvbed
