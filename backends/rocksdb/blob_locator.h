// Where a record's bytes lie in RocksDB's blob files, for damage done on purpose and for people:
// RocksDB itself doesn't say. Reads the header of each blob, and no value.
#pragma once

#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/block_store.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

// Looks through `files`, oldest first; the newest blob of the id counts. Not found when there is
// none, corruption for a file that isn't made of blobs.
Result<RecordLocation> LocateBlob(Io& io, const std::vector<std::string>& files,
                                  const RecordId& id);

}  // namespace kvbed
