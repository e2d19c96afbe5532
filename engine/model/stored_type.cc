#include "engine/model/stored_type.h"

#include <array>

#include "offload/check.h"

namespace kvbed {
namespace {

// Block layouts: ggml-common.h of llama.cpp, structs block_q4_0 to block_q6_K.
constexpr std::array<StoredTypeInfo, 12> kInfos = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"generated", 1, 0},
}};

}  // namespace

const StoredTypeInfo& InfoOf(StoredType type) {
  const auto index = static_cast<size_t>(type);
  KVBED_CHECK(index < kInfos.size());
  return kInfos[index];
}

std::optional<uint64_t> StoredBytes(StoredType type, uint64_t elements) {
  const StoredTypeInfo& info = InfoOf(type);
  if (elements % info.block_elements != 0) return std::nullopt;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, uint64_t{info.block_bytes}, &bytes))
    return std::nullopt;
  if (bytes > uint64_t{1} << 63) return std::nullopt;
  return bytes;
}

}  // namespace kvbed
