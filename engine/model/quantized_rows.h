// Stored numbers, plain or quantised in blocks, to fp32: the same bits as ggml's own dequantising.
// It doesn't know tensors, rows or files.
#pragma once

#include <span>

#include "engine/model/stored_type.h"
#include "offload/bytes.h"

namespace kvbed {

// Fills `out` from exactly StoredBytes(type, out.size()) bytes at any alignment. Not for
// kGenerated.
void Dequantize(StoredType type, Bytes stored, std::span<float> out);

}  // namespace kvbed
