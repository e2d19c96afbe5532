// What the tests of the native kernels' promise share: a cache made in some way, and its bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/kernels/native/native_model.h"
#include "tests/engine/engine_harness.h"

namespace kvbed {

// How tokens come into the cache.
struct Way {
  uint32_t threads = 1;
  uint32_t block_tokens = 16;
  uint64_t prefill_chunk = 512;
  uint64_t decoded = 0;  // tokens at the end that come one by one
};

// All K and V, and the logits of the last position.
struct Bits {
  std::vector<float> kv;
  std::vector<float> logits;
};

inline Bits RunOn(NativeModel& model, const ModelConfig& config, DType dtype, const Way& way,
                  std::span<const TokenId> tokens) {
  const KvGeometry geometry = GeometryOf(config, dtype, way.block_tokens);
  auto pool = BlockPool::Create(geometry, static_cast<uint32_t>(geometry.BlocksFor(tokens.size())));
  EXPECT_OK(pool);
  Sequence sequence(**pool, {.model_fingerprint = {}, .rope_identity = 0, .sequence_id = 1});
  EXPECT_OK(sequence.Reserve(tokens.size()));
  Bits bits;
  const LogitsSink keep = [&](uint64_t, std::span<const float> row) {
    bits.logits.assign(row.begin(), row.end());
  };
  for (uint64_t done = 0; done < tokens.size();) {
    const uint64_t prefilled = tokens.size() - way.decoded;
    const uint64_t count =
        done < prefilled ? std::min<uint64_t>(way.prefill_chunk, prefilled - done) : 1;
    EXPECT_OK(model.Forward({.tokens = tokens.subspan(done, count),
                             .sequence = sequence,
                             .first_logits = count - 1,
                             .on_logits = keep}));
    sequence.Advance(count);
    done += count;
  }
  bits.kv = AllKv(sequence);
  return bits;
}

inline NativeModel OpenNative(const ModelFiles& model, DType dtype, uint32_t threads,
                              const std::string& isa) {
  auto opened = NativeModel::Open(model, dtype, threads, isa);
  EXPECT_OK(opened);
  return std::move(opened).value();
}

inline uint64_t Differing(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  uint64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return count;
}

inline void ExpectTheSameBits(const ModelFiles& model, DType dtype, uint64_t tokens,
                              const std::vector<Way>& ways, bool every_isa = true) {
  const std::vector<TokenId> ids = SeededIds(20260301, tokens, model.config.vocab);
  std::vector<KernelTable> tables = KernelTables(dtype);
  if (!every_isa) tables.resize(1);
  for (const KernelTable& table : tables) {
    NativeModel reference = OpenNative(model, dtype, 1, table.name);
    const Bits one_pass = RunOn(reference, model.config, dtype, {.prefill_chunk = tokens}, ids);
    for (const Way& way : ways) {
      NativeModel other = OpenNative(model, dtype, way.threads, table.name);
      const Bits bits = RunOn(other, model.config, dtype, way, ids);
      const std::string what = table.name + ", threads " + std::to_string(way.threads) +
                               ", block " + std::to_string(way.block_tokens) + ", chunk " +
                               std::to_string(way.prefill_chunk) + ", decoded " +
                               std::to_string(way.decoded);
      EXPECT_EQ(Differing(bits.kv, one_pass.kv), 0) << what;
      EXPECT_EQ(Differing(bits.logits, one_pass.logits), 0) << what;
    }
  }
}

}  // namespace kvbed
