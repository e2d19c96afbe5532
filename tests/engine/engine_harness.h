// What the engine's tests share: an engine with a pool and a sequence of its own, seeded prompts,
// and KV and logits to compare. It doesn't know which model it runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/kernels/native/native_model.h"
#include "engine/kv_rows.h"
#include "engine/model/model_files.h"
#include "tests/support/status_matchers.h"

namespace kvbed {

// On one thread unless `options` says otherwise: tests run side by side, and threads that wait for
// each other on taken cores make seconds of milliseconds.
inline Engine OpenEngine(const ModelFiles& model, EngineOptions options) {
  if (options.threads == 0) options.threads = 1;
  Result<Engine> engine = Engine::Open(model, options);
  EXPECT_OK(engine);
  return std::move(engine).value();
}

// A test that runs on each of them.
class OnEachKernelSet : public ::testing::TestWithParam<std::string> {
 protected:
  Engine Open(const ModelFiles& model, EngineOptions options) const {
    options.kernels = GetParam();
    return OpenEngine(model, options);
  }
};

inline ModelFiles OpenTestModel(const std::string& spec) {
  Result<ModelFiles> model = OpenModel(spec);
  EXPECT_OK(model);
  return std::move(model).value();
}

// The lowest id of the largest logit.
inline TokenId Greedy(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

inline std::vector<TokenId> SeededIds(uint64_t seed, size_t count, uint32_t vocab) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocab);
  return ids;
}

inline SequenceIdentity TestIdentity(const Engine& engine, uint64_t sequence_id = 1) {
  return {
      .model_fingerprint = {}, .rope_identity = engine.rope_identity(), .sequence_id = sequence_id};
}

// A sequence with a pool that holds `tokens` of it.
class Session {
 public:
  Session(Engine& engine, uint32_t block_tokens, uint64_t tokens)
      : engine_(&engine), logits_(engine.config().vocab) {
    const KvGeometry geometry = engine.Geometry(block_tokens);
    auto pool = BlockPool::Create(geometry, static_cast<uint32_t>(geometry.BlocksFor(tokens)));
    EXPECT_OK(pool);
    pool_ = std::move(pool).value();
    sequence_ = std::make_unique<Sequence>(*pool_, TestIdentity(engine));
  }

  Session& Prefill(std::span<const TokenId> tokens) {
    EXPECT_OK(engine_->Prefill(*sequence_, tokens, logits_));
    return *this;
  }
  Session& Decode(TokenId token) {
    EXPECT_OK(engine_->Decode(*sequence_, token, logits_));
    return *this;
  }
  // Greedy tokens, the first from the logits that are there: `count` - 1 decode calls.
  std::vector<TokenId> Generate(size_t count) {
    std::vector<TokenId> ids = {Greedy(logits_)};
    while (ids.size() < count) ids.push_back(Greedy(Decode(ids.back()).logits()));
    return ids;
  }
  // The logits of each position from `first` on, [position][vocab].
  std::vector<float> Recompute(std::span<const TokenId> tokens, uint64_t first = 0) {
    std::vector<float> all;
    uint64_t expected_position = first;
    EXPECT_OK(engine_->Recompute(*sequence_, tokens, first,
                                 [&](uint64_t position, std::span<const float> row) {
                                   EXPECT_EQ(position, expected_position++);
                                   all.insert(all.end(), row.begin(), row.end());
                                 }));
    return all;
  }

  const std::vector<float>& logits() const { return logits_; }
  Sequence& sequence() { return *sequence_; }
  BlockPool& pool() { return *pool_; }

 private:
  Engine* engine_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Sequence> sequence_;
  std::vector<float> logits_;
};

// One layer's K or V as fp32, [kv_head][token][head_dim].
struct KvLayer {
  std::vector<float> k, v;
};

inline std::vector<float> Widen(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / DTypeBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFp32) {
      std::memcpy(&values[i], bytes.data() + i * 4, 4);
    } else {
      uint16_t bf16 = 0;
      std::memcpy(&bf16, bytes.data() + i * 2, 2);
      const uint32_t bits = uint32_t{bf16} << 16;
      std::memcpy(&values[i], &bits, 4);
    }
  }
  return values;
}

inline KvLayer KvOf(Sequence& sequence, uint32_t layer) {
  const KvGeometry& geometry = sequence.pool().geometry();
  std::vector<std::byte> k(sequence.cached_tokens() * geometry.kv_heads * geometry.head_dim *
                           geometry.element_bytes());
  std::vector<std::byte> v(k.size());
  ReadKvRows(sequence, layer, sequence.cached_tokens(), k, v, 1);
  return {Widen(k, geometry.dtype), Widen(v, geometry.dtype)};
}

// All layers' K, then V, one after another.
inline std::vector<float> AllKv(Sequence& sequence) {
  std::vector<float> all;
  for (uint32_t layer = 0; layer < sequence.pool().geometry().layers; ++layer) {
    const KvLayer kv = KvOf(sequence, layer);
    all.insert(all.end(), kv.k.begin(), kv.k.end());
    all.insert(all.end(), kv.v.begin(), kv.v.end());
  }
  return all;
}

// NaN differs from everything by infinity, so that it fails each tolerance.
inline double MaxDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace kvbed
