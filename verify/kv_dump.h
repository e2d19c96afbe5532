// K and V of one sequence borrowed from wherever an engine keeps or dumped them: any order of axes,
// contiguous or paged. It doesn't know file formats nor who wrote them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/kv_geometry.h"

namespace kvbed {

// What an element of a dump is. kByte is a byte of unknown meaning, e.g. fp8 stored as uint8.
enum class KvElement : uint8_t { kBf16, kFp16, kFp32, kFp8E4m3, kFp8E5m2, kInt8, kByte };

std::string_view KvElementName(KvElement element);  // "bf16", "fp16", ..., "fp8_e4m3", "u8"
uint64_t KvElementBytes(KvElement element);
// A record's fp8 doesn't say which: kByte.
KvElement KvElementOf(DType dtype);
// What elements of two dumps are compared as: nullopt when they are different types. A byte of
// unknown meaning may be any type of one byte.
bool ComparableElements(KvElement a, KvElement b);
KvElement ComparedAs(KvElement a, KvElement b);

struct KvDumpShape {
  uint64_t layers = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  KvElement element = KvElement::kBf16;
  uint64_t row_bytes() const { return head_dim * KvElementBytes(element); }
  bool operator==(const KvDumpShape&) const = default;
};

// Distances in bytes between neighbours on each axis. Dim d lies at
// (d / dims_together) * dim + (d % dims_together) * dim_inner.
struct KvStrides {
  uint64_t head = 0;
  uint64_t token = 0;
  uint64_t block = 0;  // paged only
  uint64_t dim = 0;
  uint64_t dim_inner = 0;
  uint64_t dims_together = 1;
};

// Tokens first_token up to end_token of a sequence. All is borrowed.
struct KvDump {
  KvDumpShape shape;
  uint64_t first_token = 0;
  uint64_t end_token = 0;
  KvStrides strides;
  std::vector<Bytes> parts;  // K, then V, of each layer, from head 0, token 0, dim 0 on
  // Paged: token first_token + i lies in block block_table[i / block_tokens], row i % block_tokens.
  uint64_t block_tokens = 0;  // 0: contiguous
  std::span<const uint64_t> block_table;

  // Rows of `token` and of as many tokens behind it as lie together, `rows` at most. The bytes are
  // in `scratch`, one row long, where the dims of a row are not neighbours.
  Bytes Rows(uint64_t layer, KvPart part, uint64_t head, uint64_t token, uint64_t rows,
             MutableBytes scratch) const;
  // Copies rows [first, last), one behind the other.
  void CopyRows(uint64_t layer, KvPart part, uint64_t head, uint64_t first, uint64_t last,
                MutableBytes out) const;
};

}  // namespace kvbed
