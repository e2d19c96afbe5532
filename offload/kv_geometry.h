// The geometry of a block's payload: how many bytes, and where an element lies.
// It doesn't know which model it comes from, nor what a store does with a record.
#pragma once

#include <cstdint>
#include <string_view>

#include "offload/aligned_buffer.h"
#include "offload/status.h"

namespace kvbed {

// What K and V are stored as. Models compute in the first two; the one-byte ones are for KV that no
// model of kvbed's makes. Their scales, where a format has some, are not counted.
enum class DType : uint32_t { kBf16 = 1, kFp32 = 2, kFp8 = 3, kInt8 = 4 };
enum class KvPart : uint32_t { kK = 0, kV = 1 };

std::string_view DTypeName(DType dtype);                // "bf16", "fp32", "fp8", "int8"
Result<DType> ParseDType(std::string_view name);        // one that models compute in
Result<DType> ParseStoredDType(std::string_view name);  // any
// 0 for what is none.
constexpr uint64_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return 2;
    case DType::kFp32: return 4;
    case DType::kFp8:
    case DType::kInt8: return 1;
  }
  return 0;
}

// One element of a block's payload.
struct KvCoordinate {
  uint32_t layer = 0;
  KvPart part = KvPart::kK;
  uint32_t kv_head = 0;
  uint32_t token = 0;  // row in the block
  uint32_t dim = 0;
  bool operator==(const KvCoordinate&) const = default;
};

// Payload layout 1: [layer][K|V][kv_head][token][head_dim], so that a head's K is contiguous for
// attention and a layer is one slice.
inline constexpr uint32_t kPayloadLayout = 1;

struct KvGeometry {
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  DType dtype = DType::kBf16;
  uint32_t block_tokens = 16;

  // Invalid argument when a count is 0 or a record would exceed 1 GiB.
  Status Validate() const;

  uint64_t element_bytes() const { return DTypeBytes(dtype); }
  // One head's rows of one part: [token][head_dim].
  uint64_t head_bytes() const { return uint64_t{block_tokens} * head_dim * element_bytes(); }
  // K or V of one layer: [kv_head][token][head_dim].
  uint64_t part_bytes() const { return head_bytes() * kv_heads; }
  uint64_t payload_bytes() const { return part_bytes() * 2 * layers; }
  // Header page + payload padded to 4 KiB: what the pool, every store and direct I/O hold.
  uint64_t record_bytes() const { return kPageBytes + RoundUp(payload_bytes(), kPageBytes); }
  // K and V of one token over all layers, without padding.
  uint64_t kv_bytes_per_token() const {
    return uint64_t{2} * layers * kv_heads * head_dim * element_bytes();
  }
  uint64_t BlocksFor(uint64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }

  // Byte offsets within the payload.
  uint64_t PartOffset(uint32_t layer, KvPart part) const {
    return (uint64_t{layer} * 2 + static_cast<uint32_t>(part)) * part_bytes();
  }
  uint64_t HeadOffset(uint32_t layer, KvPart part, uint32_t kv_head) const {
    return PartOffset(layer, part) + kv_head * head_bytes();
  }
  uint64_t ElementOffset(const KvCoordinate& at) const {
    return HeadOffset(at.layer, at.part, at.kv_head) +
           (uint64_t{at.token} * head_dim + at.dim) * element_bytes();
  }
  // The element that holds payload byte `offset`, which must be below payload_bytes().
  KvCoordinate CoordinateAt(uint64_t offset) const;

  bool operator==(const KvGeometry&) const = default;
};

}  // namespace kvbed
