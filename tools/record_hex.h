// A record as people look at it: its header's fields, and its payload in hexadecimal.
#pragma once

#include <string>

#include "offload/bytes.h"
#include "offload/record.h"

namespace kvbed {

// The fields of the header page as they are, right or wrong, by their names in FORMAT.md.
std::string HeaderHex(Bytes record, const KvGeometry& geometry);

// A layer of the payload, a line for each row of a head: where it begins in the record, layer, K or
// V, KV head, position, and the elements' bytes in memory order. Rows without a token are left out.
// `record` must be the geometry's record_bytes long.
std::string LayerHex(Bytes record, const RecordHeader& header, uint32_t layer);

}  // namespace kvbed
