// The records and the manifest in tests/golden/record, as the code that made them describes them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "offload/manifest.h"
#include "tests/offload/sample_records.h"

namespace kvbed {

struct GoldenRecord {
  std::string file;
  KvGeometry geometry;
  uint32_t tokens_used = 0;
  uint64_t seed = 0;
  std::string digest;  // as the manifest of its time had it

  friend void PrintTo(const GoldenRecord& golden, std::ostream* out) { *out << golden.file; }
};

inline std::vector<GoldenRecord> GoldenRecords() {
  const auto geometry = [](uint32_t layers, uint32_t kv_heads, uint32_t head_dim, DType dtype,
                           uint32_t block_tokens) {
    return KvGeometry{layers, kv_heads, head_dim, dtype, block_tokens};
  };
  constexpr DType kBf16 = DType::kBf16, kFp32 = DType::kFp32;
  return {
      {"bf16-16-full.record", geometry(2, 2, 8, kBf16, 16), 16, 101,
       "b7af6d5ff6d59af64735f781ab9afee0"},
      {"fp32-16-partly-filled.record", geometry(2, 1, 8, kFp32, 16), 11, 102,
       "13dddbc5daf97d6607126d65139e7b32"},
      {"bf16-5-padded.record", geometry(2, 2, 4, kBf16, 5), 3, 103,
       "5cad20e86a27f3af2001f950ab283a5b"},
      {"fp32-7-padded.record", geometry(3, 1, 6, kFp32, 7), 7, 104,
       "7124a5eec3f148ab2403cd0c9a32bb76"},
      {"bf16-2-grouped.record", geometry(301, 1, 2, kBf16, 2), 2, 105,
       "04ed9a32fa3629e083893e53fc6c2164"},
  };
}

// A sequence of 12 cached tokens in blocks of 5, the last with 2 rows, and a pending token.
inline Manifest SampleManifest() {
  Manifest m;
  m.name = "s1";
  m.created_ns = 1'700'000'000'123'456'789;
  m.store_uuid = Xxh3_128(AsBytes("a store"));
  m.model_name = "a-model.gguf";
  m.model = {Xxh3_128(AsBytes("weights")), Xxh3_128(AsBytes("config")),
             Xxh3_128(AsBytes("tokenizer"))};
  m.rope_identity = 0x99aabbccddeeff00;
  m.geometry = TinyGeometry();
  m.sequence_id = 0x1122334455667788;
  m.cached_tokens = 12;
  m.prompt_tokens = 9;
  for (int32_t id = 0; id < 13; ++id) m.token_ids.push_back(1000 + id * 7);
  m.sampler = {.temperature = 0.8, .top_p = 0.95, .top_k = 40, .seed = 7, .draws = 3};
  m.environment = {"torch", "AVX512", "torch 2.13.0", "bf16 as fp32", 2, 512};
  for (uint64_t i = 0; i < 3; ++i) {
    ManifestBlock block;
    block.id.key = {m.model.Fingerprint(), m.sequence_id, i};
    block.id.generation = 100 + i;
    block.place = 40 + i;
    block.digest = Xxh3_128(AsBytes(std::to_string(i)));
    block.tokens_used = i == 2 ? 2 : 5;
    m.blocks.push_back(block);
  }
  return m;
}

}  // namespace kvbed
