// Dumps in files, as engines write them.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/safetensors_writer.h"
#include "tests/verify/sample_kv.h"

namespace kvbed {

inline void WriteDump(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

struct DumpTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::string bytes;
};

inline std::string SafetensorsFile(const std::vector<DumpTensor>& tensors,
                                   const std::string& dtype = "BF16") {
  std::vector<SafetensorsEntry> entries;
  for (const DumpTensor& one : tensors) {
    entries.push_back({one.name, dtype, one.shape, one.bytes.size()});
  }
  std::string file = SafetensorsHeader(entries, {{"format", "pt"}});
  for (const DumpTensor& one : tensors) file += one.bytes;
  return file;
}

// One part of one layer, or both parts, as a sequence of its own to be packed.
inline SampleKv LayerOf(SampleKv kv, uint64_t layer) {
  const uint64_t layer_bytes = kv.bytes.size() / kv.shape.layers;
  const auto first = kv.bytes.begin() + static_cast<ptrdiff_t>(layer * layer_bytes);
  kv.bytes = {first, first + static_cast<ptrdiff_t>(layer_bytes)};
  kv.shape.layers = 1;
  return kv;
}

// As transformers' DynamicCache: K and V of each layer, [1, H, T, D].
inline std::vector<DumpTensor> DynamicCacheTensors(const SampleKv& kv) {
  std::vector<DumpTensor> tensors;
  for (uint64_t layer = 0; layer < kv.shape.layers; ++layer) {
    const PackedKv both = PackKv(LayerOf(kv, layer), "2HTD");
    const size_t half = both.bytes.size() / 2;
    const std::vector<uint64_t> shape = {1, kv.shape.kv_heads, kv.tokens, kv.shape.head_dim};
    const std::string prefix = "layers." + std::to_string(layer);
    tensors.push_back({prefix + ".keys", shape, both.bytes.substr(0, half)});
    tensors.push_back({prefix + ".values", shape, both.bytes.substr(half)});
  }
  return tensors;
}

// As vLLM: a tensor a layer, [2, N, T, H, D].
inline std::vector<DumpTensor> PagedTensors(const SampleKv& kv, uint64_t block_tokens,
                                            const std::vector<uint64_t>& table, uint64_t blocks) {
  std::vector<DumpTensor> tensors;
  for (uint64_t layer = 0; layer < kv.shape.layers; ++layer) {
    PackedKv packed = PackKv(LayerOf(kv, layer), "2NTHD", block_tokens, table, blocks);
    tensors.push_back({"model.layers." + std::to_string(layer) + ".self_attn.attn", packed.shape,
                       std::move(packed.bytes)});
  }
  return tensors;
}

}  // namespace kvbed
