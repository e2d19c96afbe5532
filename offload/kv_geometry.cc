#include "offload/kv_geometry.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvbed {
namespace {

constexpr uint32_t kCountMax = 1 << 20;

}  // namespace

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return "bf16";
    case DType::kFp32: return "fp32";
    case DType::kFp8: return "fp8";
    case DType::kInt8: return "int8";
  }
  return "unknown";
}

Result<DType> ParseDType(std::string_view name) {
  if (name == "bf16") return DType::kBf16;
  if (name == "fp32") return DType::kFp32;
  return Status::InvalidArgument(fmt::format("dtype '{}' is not one of bf16, fp32", name));
}

Result<DType> ParseStoredDType(std::string_view name) {
  for (DType dtype : {DType::kBf16, DType::kFp32, DType::kFp8, DType::kInt8}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return Status::InvalidArgument(
      fmt::format("dtype '{}' is not one of bf16, fp32, fp8, int8", name));
}

Status KvGeometry::Validate() const {
  constexpr uint64_t kRecordBytesMax = uint64_t{1} << 30;
  const auto check = [](std::string_view what, uint32_t value) -> Status {
    if (value >= 1 && value <= kCountMax) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("{} is {}, must be 1 to {}", what, value, kCountMax));
  };
  KVBED_RETURN_IF_ERROR(check("layers", layers));
  KVBED_RETURN_IF_ERROR(check("kv_heads", kv_heads));
  KVBED_RETURN_IF_ERROR(check("head_dim", head_dim));
  KVBED_RETURN_IF_ERROR(check("block_tokens", block_tokens));
  if (DTypeBytes(dtype) == 0) {
    return Status::InvalidArgument(
        fmt::format("dtype id {} is unknown", static_cast<uint32_t>(dtype)));
  }
  // Each count is at most 2^20, so the product is within 64 bits as long as it is checked as it
  // grows.
  uint64_t payload = 2 * element_bytes();
  for (uint32_t factor : {layers, kv_heads, head_dim, block_tokens}) {
    payload = std::min(payload * factor, kRecordBytesMax);
  }
  if (payload > kRecordBytesMax - kPageBytes) {
    return Status::InvalidArgument(
        fmt::format("a block of {} tokens x {} layers x {} KV heads x {} dims is above 1 GiB; "
                    "use a smaller --block-tokens",
                    block_tokens, layers, kv_heads, head_dim));
  }
  return Status::Ok();
}

KvCoordinate KvGeometry::CoordinateAt(uint64_t offset) const {
  KVBED_CHECK(offset < payload_bytes());
  KvCoordinate at;
  const uint64_t part_index = offset / part_bytes();
  offset %= part_bytes();
  at.layer = static_cast<uint32_t>(part_index / 2);
  at.part = static_cast<KvPart>(part_index % 2);
  at.kv_head = static_cast<uint32_t>(offset / head_bytes());
  offset = offset % head_bytes() / element_bytes();
  at.token = static_cast<uint32_t>(offset / head_dim);
  at.dim = static_cast<uint32_t>(offset % head_dim);
  return at;
}

}  // namespace kvbed
