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
  uint32_t batch = 1;    // sequences that those are decoded with, others' among them
};

// All K and V, and the logits of the last position.
struct Bits {
  std::vector<float> kv;
  std::vector<float> logits;
};

// Other sequences to decode with, of lengths from 1 to 300 and other tokens.
class Neighbours {
 public:
  Neighbours(NativeModel& model, const ModelConfig& config, DType dtype, const Way& way)
      : config_(config) {
    const KvGeometry geometry = GeometryOf(config, dtype, way.block_tokens);
    const uint64_t tokens_max = 300 + way.decoded;
    auto pool = BlockPool::Create(
        geometry, static_cast<uint32_t>(geometry.BlocksFor(tokens_max) * (way.batch - 1) + 1));
    EXPECT_OK(pool);
    pool_ = std::move(*pool);
    const LogitsSink drop = [](uint64_t, std::span<const float>) {};
    for (uint32_t i = 0; i + 1 < way.batch; ++i) {
      sequences_.push_back(std::make_unique<Sequence>(
          *pool_,
          SequenceIdentity{.model_fingerprint = {}, .rope_identity = 0, .sequence_id = 2 + i}));
      Sequence& sequence = *sequences_.back();
      const auto ids = SeededIds(77 + i, 1 + i * 299 / way.batch, config.vocab);
      EXPECT_OK(sequence.Reserve(ids.size() + way.decoded));
      EXPECT_OK(model.Forward(
          {.tokens = ids, .sequence = sequence, .first_logits = ids.size(), .on_logits = drop}));
      sequence.Advance(ids.size());
    }
  }

  // One token of each and, at `place` among them, `row`.
  Status Decode(NativeModel& model, const DecodeRow& row, uint64_t step,
                std::vector<float>& logits) {
    std::vector<DecodeRow> rows;
    for (const auto& sequence : sequences_) {
      rows.push_back(
          {static_cast<TokenId>((step * 31 + rows.size()) % config_.vocab), sequence.get()});
    }
    const uint64_t place = step % (rows.size() + 1);
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(place), row);
    const LogitsSink keep = [&](uint64_t index, std::span<const float> one) {
      if (index == place) logits.assign(one.begin(), one.end());
    };
    const Status status = model.DecodeBatch({.rows = rows, .on_logits = keep});
    for (const DecodeRow& one : rows) one.sequence->Advance(1);
    return status;
  }

 private:
  const ModelConfig& config_;
  std::unique_ptr<BlockPool> pool_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
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
  Neighbours neighbours(model, config, dtype, way);
  const uint64_t prefilled = tokens.size() - way.decoded;
  for (uint64_t done = 0; done < tokens.size();) {
    if (done >= prefilled && way.batch > 1) {
      EXPECT_OK(neighbours.Decode(model, {tokens[done], &sequence}, done, bits.logits));
      ++done;
      continue;
    }
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
                               std::to_string(way.decoded) + ", batch " + std::to_string(way.batch);
      EXPECT_EQ(Differing(bits.kv, one_pass.kv), 0) << what;
      EXPECT_EQ(Differing(bits.logits, one_pass.logits), 0) << what;
    }
  }
}

}  // namespace kvbed
