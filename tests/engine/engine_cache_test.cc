// Properties of the cache: the pool's records are all of it, and how tokens came into it shows
// within rounding only.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/engine/engine_harness.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

constexpr double kKvTolerance = 2e-4;  // fp32, other shapes of the same products
constexpr double kLogitsTolerance = 5e-4;

// Small enough that a hundred runs take a second; 6 query heads share 2 KV heads.
constexpr char kSmallToy[] =
    "toy:8m?vocab=300&hidden=96&layers=3&heads=6&kv_heads=2&mlp=160&seed=7";

const ModelFiles& SmallToy() {
  static const ModelFiles model = OpenTestModel(kSmallToy);
  return model;
}

std::vector<TokenId> Ids(size_t count) {
  return SeededIds(20240611, count, SmallToy().config.vocab);
}

// Puts the records of `from`, bit for bit, into the next sequence of `to`, as a restore does.
void CopyRecords(Sequence& from, Sequence& to) {
  for (uint64_t block = 0; block < from.blocks(); ++block) {
    auto record = to.pool().Allocate(BlockPool::Contents::kAsItIs);
    ASSERT_OK(record);
    const Bytes source = from.payload(block);
    std::memcpy(to.pool().payload(*record).data(), source.data(), source.size());
    StoredBlock stored;
    stored.tokens_used = from.TokensInBlock(block);
    to.AdoptBlock(*record, stored);
  }
}

class Cache : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, Cache, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

// ---- Chunks and blocks --------------------------------------------------------------------------

TEST_P(Cache, AgreesWithOnePassWhateverTheChunk) {
  const std::vector<TokenId> ids = Ids(150);
  Engine reference = Open(SmallToy(), {.dtype = DType::kFp32});
  Session one_pass(reference, 16, ids.size());
  const std::vector<float> logits = one_pass.Recompute(ids, ids.size() - 1);
  const std::vector<float> kv = AllKv(one_pass.sequence());
  for (uint32_t chunk : {1u, 7u, 64u, 150u}) {
    SCOPED_TRACE(chunk);
    Engine engine = Open(SmallToy(), {.dtype = DType::kFp32, .prefill_chunk = chunk});
    Session session(engine, 16, ids.size());
    session.Prefill(ids);
    EXPECT_LE(MaxDifference(AllKv(session.sequence()), kv), kKvTolerance);
    EXPECT_LE(MaxDifference(session.logits(), logits), kLogitsTolerance);
  }
  // Another token at the start moves far more than the tolerance.
  std::vector<TokenId> other = ids;
  other[0] = (other[0] + 1) % static_cast<TokenId>(SmallToy().config.vocab);
  Session changed(reference, 16, ids.size());
  EXPECT_GT(MaxDifference(changed.Prefill(other).logits(), logits), 10 * kLogitsTolerance);
}

// ---- Batches ------------------------------------------------------------------------------------

TEST_P(Cache, HasTheSameBitsInABatchAsAlone) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kBf16});
  const uint32_t vocab = engine.config().vocab;
  std::vector<std::unique_ptr<Session>> alone, together;
  std::vector<std::vector<float>> logits(3, std::vector<float>(vocab));
  for (uint64_t i = 0; i < logits.size(); ++i) {
    const std::vector<TokenId> ids = Ids(20 + 30 * i);
    for (auto* sessions : {&alone, &together}) {
      sessions->push_back(std::make_unique<Session>(engine, 16, 100));
      sessions->back()->Prefill(ids);
    }
  }
  const EngineCounters before = engine.counters();
  for (TokenId token : {5, 17, 5}) {
    std::vector<Engine::BatchRow> rows;
    for (size_t i = 0; i < logits.size(); ++i) {
      rows.push_back({&together[i]->sequence(), token + static_cast<TokenId>(i), logits[i]});
    }
    ASSERT_OK(engine.DecodeBatch(rows));
    for (size_t i = 0; i < logits.size(); ++i) {
      std::vector<float> own(vocab);
      ASSERT_OK(engine.Decode(alone[i]->sequence(), rows[i].token, own));
      EXPECT_EQ(own, logits[i]) << i;
      EXPECT_EQ(AllKv(alone[i]->sequence()), AllKv(together[i]->sequence())) << i;
    }
  }
  EXPECT_EQ(engine.counters().decode_calls - before.decode_calls, 3u + 9u);
}

TEST_P(Cache, ABatchIsRefusedWhole) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kFp32});
  Session a(engine, 16, 40), b(engine, 16, 40);
  a.Prefill(Ids(10));
  b.Prefill(Ids(10));
  std::vector<float> logits(engine.config().vocab);
  Sequence* const one = &a.sequence();
  const auto decode = [&](std::vector<Engine::BatchRow> rows) { return engine.DecodeBatch(rows); };
  EXPECT_TRUE(FailsWith(decode({}), StatusCode::kInvalidArgument, "no sequence"));
  EXPECT_TRUE(FailsWith(decode({{one, 1, logits}, {one, 2, logits}}), StatusCode::kInvalidArgument,
                        "twice"));
  EXPECT_TRUE(FailsWith(decode({{one, 1, logits}, {&b.sequence(), 100000, logits}}),
                        StatusCode::kInvalidArgument, "vocabulary"));
  EXPECT_EQ(a.sequence().cached_tokens(), 10u);
  EXPECT_EQ(b.sequence().cached_tokens(), 10u);
}

TEST_P(Cache, HasTheSameBitsInBlocksOfAnySize) {
  const std::vector<TokenId> ids = Ids(70);
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    Engine engine = Open(SmallToy(), {.dtype = dtype, .prefill_chunk = 32});
    std::vector<float> first_kv, first_logits;
    std::vector<TokenId> first_tokens;
    for (uint32_t block_tokens : {16u, 1u, 4u, 5u, 7u, 32u, 64u, 256u}) {
      SCOPED_TRACE(block_tokens);
      Session session(engine, block_tokens, 90);
      const std::vector<TokenId> tokens = session.Prefill(ids).Generate(20);
      const std::vector<float> kv = AllKv(session.sequence());
      if (first_kv.empty()) {
        first_kv = kv;
        first_logits = session.logits();
        first_tokens = tokens;
      }
      EXPECT_TRUE(SameBits(kv, first_kv));
      EXPECT_TRUE(SameBits(session.logits(), first_logits));
      EXPECT_EQ(tokens, first_tokens);
    }
  }
}

TEST_P(Cache, HasTheSameBitsInTwoEqualRuns) {
  const std::vector<TokenId> ids = Ids(70);
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    std::vector<std::vector<float>> kv, logits;
    for (int run = 0; run < 2; ++run) {
      Engine engine = Open(SmallToy(), {.dtype = dtype, .threads = 2});
      Session session(engine, 16, 90);
      session.Prefill(ids).Generate(20);
      kv.push_back(AllKv(session.sequence()));
      logits.push_back(session.logits());
    }
    EXPECT_TRUE(SameBits(kv[0], kv[1]));
    EXPECT_TRUE(SameBits(logits[0], logits[1]));
  }
}

TEST_P(Cache, UnusedRowsOfABlockStayZero) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kBf16});
  Session session(engine, 16, 21);
  session.Prefill(Ids(20)).Decode(1);
  const KvGeometry& geometry = session.pool().geometry();
  const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
  const MutableBytes payload = session.sequence().payload(1);
  for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      for (uint32_t head = 0; head < geometry.kv_heads; ++head) {
        const Bytes rows =
            payload.subspan(geometry.HeadOffset(layer, part, head), geometry.head_bytes());
        EXPECT_FALSE(AllZero(rows.subspan(4 * row_bytes, row_bytes)));  // the last token's
        EXPECT_TRUE(AllZero(rows.subspan(5 * row_bytes)));
      }
    }
  }
}

// ---- Restoring ----------------------------------------------------------------------------------

TEST_P(Cache, RestoredByCopyDecodesOnBitForBit) {
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    for (uint32_t block_tokens : {1u, 7u, 16u, 256u}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " " + std::to_string(block_tokens));
      Engine engine = Open(SmallToy(), {.dtype = dtype});
      Session cached(engine, block_tokens, 64);
      cached.Prefill(Ids(30)).Decode(5);
      Session restored(engine, block_tokens, 64);
      restored.pool().PoisonAll();
      CopyRecords(cached.sequence(), restored.sequence());
      ASSERT_EQ(restored.sequence().cached_tokens(), 31u);
      for (TokenId token : {3, 299, 17, 4, 120}) {
        EXPECT_TRUE(SameBits(cached.Decode(token).logits(), restored.Decode(token).logits()));
      }
      EXPECT_TRUE(SameBits(AllKv(cached.sequence()), AllKv(restored.sequence())));
    }
  }
}

TEST_P(Cache, LivesInThePoolAFlippedBitChangesTheNextLogits) {
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    Engine engine = Open(SmallToy(), {.dtype = dtype});
    for (KvPart part : {KvPart::kK, KvPart::kV}) {
      Session session(engine, 16, 40);
      session.Prefill(Ids(20));
      Session untouched(engine, 16, 40);
      CopyRecords(session.sequence(), untouched.sequence());

      // The exponent's lowest bit, of a value that attention reads: token 3, last layer.
      const KvGeometry& geometry = session.pool().geometry();
      KvCoordinate at;
      at.layer = geometry.layers - 1;
      at.part = part;
      at.kv_head = 1;
      at.token = 3;
      at.dim = 2;
      const uint64_t upper_byte = geometry.ElementOffset(at) + geometry.element_bytes() - 1;
      session.sequence().payload(0)[upper_byte] ^= std::byte{0x01};
      EXPECT_FALSE(SameBits(session.Decode(9).logits(), untouched.Decode(9).logits()));
    }
    // A bit of a row that holds no token is read by no one.
    Session session(engine, 16, 40), untouched(engine, 16, 40);
    session.Prefill(Ids(20));
    CopyRecords(session.sequence(), untouched.sequence());
    KvCoordinate unused;
    unused.token = 12;
    session.sequence().payload(1)[session.pool().geometry().ElementOffset(unused)] ^=
        std::byte{0x40};
    EXPECT_TRUE(SameBits(session.Decode(9).logits(), untouched.Decode(9).logits()));
  }
}

TEST_P(Cache, RestoringOneSequenceLeavesAnotherUntouched) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kBf16});
  Session undisturbed(engine, 4, 40);
  undisturbed.Prefill(Ids(18)).Generate(8);

  Session a(engine, 4, 40);
  a.Prefill(SeededIds(5, 21, 300));
  const KvGeometry geometry = engine.Geometry(4);
  auto pool = BlockPool::Create(geometry, 40);
  ASSERT_OK(pool);
  Sequence b(**pool, TestIdentity(engine, 2));
  std::vector<float> logits(engine.config().vocab);
  ASSERT_OK(engine.Prefill(b, Ids(18), logits));
  TokenId token = Greedy(logits);
  for (int step = 0; step < 7; ++step) {
    if (step == 3) {
      Sequence restored(**pool, TestIdentity(engine, 1));
      CopyRecords(a.sequence(), restored);
      std::vector<float> other(engine.config().vocab);
      ASSERT_OK(engine.Decode(restored, 1, other));
    }
    ASSERT_OK(engine.Decode(b, token, logits));
    token = Greedy(logits);
  }
  EXPECT_TRUE(SameBits(logits, undisturbed.logits()));
  EXPECT_TRUE(SameBits(AllKv(b), AllKv(undisturbed.sequence())));
}

TEST_P(Cache, IsAttendedToWithABottomRightMask) {
  const std::vector<TokenId> ids = Ids(24);
  Engine engine = Open(SmallToy(), {.dtype = DType::kFp32});
  Session whole(engine, 16, 24);
  const std::vector<float> expected = whole.Recompute(ids, 23);
  const std::vector<float> kv = AllKv(whole.sequence());

  Session cached(engine, 16, 24);
  cached.Prefill(std::span(ids).first(20));
  Session four(engine, 16, 24);
  CopyRecords(cached.sequence(), four.sequence());
  four.Prefill(std::span(ids).subspan(20));
  EXPECT_LE(MaxDifference(four.logits(), expected), kLogitsTolerance);
  EXPECT_LE(MaxDifference(AllKv(four.sequence()), kv), kKvTolerance);

  Session one(engine, 16, 24);
  CopyRecords(cached.sequence(), one.sequence());
  for (size_t i = 20; i < 24; ++i) one.Prefill(std::span(ids).subspan(i, 1));
  EXPECT_LE(MaxDifference(one.logits(), expected), kLogitsTolerance);
  EXPECT_LE(MaxDifference(AllKv(one.sequence()), kv), kKvTolerance);
}

// ---- Positions ----------------------------------------------------------------------------------

// In the first layer K depends on the token alone until it is rotated, and position 0 doesn't
// rotate. So what a position does to K can be computed here, in double.
class Rope : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, Rope, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(Rope, RotatesByTheExactAngleAtLargePositionsInBf16Too) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const uint32_t last = 300;  // slow there, and no other code
#else
  const uint32_t last = 4095;
#endif
  const TokenId token = 123;
  const std::vector<float> frequencies = RopeInverseFrequencies(SmallToy().config);
  const uint32_t half = SmallToy().config.head_dim / 2;
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    Engine engine = Open(SmallToy(), {.dtype = dtype});
    Session session(engine, 16, last + 5);
    session.Prefill(std::vector<TokenId>(last, token)).Decode(token);  // position `last` is decoded
    const std::vector<float> k = KvOf(session.sequence(), 0).k;        // head 0: [token][head_dim]
    float largest = 0;
    for (uint32_t d = 0; d < 2 * half; ++d) largest = std::max(largest, std::abs(k[d]));
    // Each of K, cos and sin is within half a step of bf16, 2^-9, and the products and their sum
    // are rounded once more; a table of bf16 angles would be off by up to 8 radians at 4095.
    const double tolerance = largest * (dtype == DType::kBf16 ? 0x1p-6 : 1e-3);
    for (uint64_t position : {1u, 255u, 256u, 257u, 258u, 1023u, 1024u, last - 1, last}) {
      if (position > last) continue;
      SCOPED_TRACE(position);
      const float* const row = k.data() + position * 2 * half;
      for (uint32_t d = 0; d < half; ++d) {
        const double angle = static_cast<double>(position) * frequencies[d];
        EXPECT_NEAR(row[d], k[d] * std::cos(angle) - k[d + half] * std::sin(angle), tolerance);
        EXPECT_NEAR(row[d + half], k[d + half] * std::cos(angle) + k[d] * std::sin(angle),
                    tolerance);
      }
    }
  }
}

TEST_P(Rope, IdentityFollowsWhatRotatesK) {
  ModelFiles model = OpenTestModel(kSmallToy);
  const uint64_t identity = Open(model, {}).rope_identity();
  EXPECT_EQ(Open(model, {.dtype = DType::kFp32}).rope_identity(), identity);
  model.config.rope_theta *= 2;
  EXPECT_NE(Open(model, {}).rope_identity(), identity);
}

// ---- KV heads -----------------------------------------------------------------------------------

// A toy whose K and V projections are written out once for each query head: what grouped-query
// attention must equal.
class WrittenOutModel {
 public:
  // Query head h gets the rows of KV head `kv_head_of(h)`.
  WrittenOutModel(const ModelFiles& grouped,
                  uint32_t (*kv_head_of)(uint32_t h, uint32_t group, uint32_t kv_heads)) {
    const ModelConfig& config = grouped.config;
    TensorMap tensors;
    for (const auto& [name, tensor] : grouped.weights.tensors()) {
      std::vector<float>& values = storage_[name];
      values.resize(tensor.elements());
      tensor.ReadRows(0, tensor.rows(), values);
      WeightTensor copy;
      copy.name = name;
      copy.shape = tensor.shape;
      if (name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight")) {
        std::vector<float> repeated;
        const size_t head_elements = size_t{config.head_dim} * config.hidden;
        for (uint32_t h = 0; h < config.heads; ++h) {
          const auto head =
              values.begin() +
              static_cast<ptrdiff_t>(
                  kv_head_of(h, config.heads / config.kv_heads, config.kv_heads) * head_elements);
          repeated.insert(repeated.end(), head, head + static_cast<ptrdiff_t>(head_elements));
        }
        values = std::move(repeated);
        copy.shape[0] = config.query_rows();
      }
      copy.stored = std::as_bytes(std::span(values));
      tensors.emplace(name, std::move(copy));
    }
    files_.config = config;
    files_.config.kv_heads = config.heads;
    files_.weights = Weights({}, std::move(tensors));
  }

  const ModelFiles& files() const { return files_; }

 private:
  std::map<std::string, std::vector<float>> storage_;
  ModelFiles files_;
};

class KvHeads : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, KvHeads, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(KvHeads, AreSharedByNeighbouringQueryHeads) {
  const auto neighbours = [](uint32_t h, uint32_t group, uint32_t) { return h / group; };
  const auto modulo = [](uint32_t h, uint32_t, uint32_t kv_heads) { return h % kv_heads; };
  const std::vector<TokenId> ids = Ids(20);
  for (const auto& [heads, kv_heads] : {std::pair{8, 2}, {6, 1}, {4, 4}, {6, 3}}) {
    SCOPED_TRACE(std::to_string(heads) + "/" + std::to_string(kv_heads));
    const ModelFiles grouped = OpenTestModel(
        "toy:8m?vocab=300&layers=2&mlp=64&head_dim=16&hidden=96&heads=" + std::to_string(heads) +
        "&kv_heads=" + std::to_string(kv_heads));
    const auto logits_of = [&](const ModelFiles& model) {
      Engine engine = Open(model, {.dtype = DType::kFp32, .prefill_chunk = 8});
      Session session(engine, 16, 24);
      std::vector<float> logits = session.Prefill(ids).logits();
      const std::vector<float>& decoded = session.Decode(7).logits();
      logits.insert(logits.end(), decoded.begin(), decoded.end());
      return logits;
    };
    const std::vector<float> logits = logits_of(grouped);
    EXPECT_LE(MaxDifference(logits, logits_of(WrittenOutModel(grouped, neighbours).files())),
              kLogitsTolerance);
    if (kv_heads != 1 && kv_heads != heads) {  // else the two orders are the same
      EXPECT_GT(MaxDifference(logits, logits_of(WrittenOutModel(grouped, modulo).files())),
                10 * kLogitsTolerance);
    }
  }
}

// ---- Toys ---------------------------------------------------------------------------------------

class Toys : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, Toys, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(Toys, GenerateTheSameVariedTokensEachTime) {
  for (const char* spec : {"toy:8m", "toy:8m?kv_heads=1"}) {
    SCOPED_TRACE(spec);
    const ModelFiles model = OpenTestModel(spec);
    const std::vector<TokenId> prompt = SeededIds(3, 40, model.config.vocab);
    for (DType dtype : {DType::kBf16, DType::kFp32}) {
      Engine engine = Open(model, {.dtype = dtype});
      EXPECT_EQ(engine.Geometry(16).kv_heads, model.config.kv_heads);
      Session first(engine, 16, 64), second(engine, 16, 64);
      const std::vector<TokenId> tokens = first.Prefill(prompt).Generate(16);
      EXPECT_EQ(second.Prefill(prompt).Generate(16), tokens);
      EXPECT_GT(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 4u);
      for (float logit : first.logits()) ASSERT_TRUE(std::isfinite(logit));
    }
  }
}

// ---- Errors, counters, hooks --------------------------------------------------------------------

class EngineCalls : public OnEachKernelSet {};
INSTANTIATE_TEST_SUITE_P(Kernels, EngineCalls, ::testing::ValuesIn(KernelSets()),
                         [](const auto& set) { return set.param; });

TEST_P(EngineCalls, SaysThatThePoolIsTooSmallBeforeAnythingRan) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kBf16, .prefill_chunk = 8});
  Session session(engine, 16, 32);
  std::vector<float> logits(engine.config().vocab);
  EXPECT_TRUE(FailsWith(engine.Prefill(session.sequence(), Ids(33), logits),
                        StatusCode::kOutOfSpace, "--pool-bytes"));
  EXPECT_EQ(session.sequence().cached_tokens(), 0u);
  EXPECT_EQ(session.pool().free_records(), 2u);
  EXPECT_EQ(engine.counters().prefill_tokens, 0u);

  // What fits runs, and then there is no room for one more token.
  session.Prefill(Ids(32));
  EXPECT_TRUE(FailsWith(engine.Decode(session.sequence(), 1, logits), StatusCode::kOutOfSpace,
                        "--pool-bytes"));
  EXPECT_EQ(session.sequence().cached_tokens(), 32u);
  EXPECT_EQ(engine.counters().decode_calls, 0u);
}

TEST_P(EngineCalls, RefusesIdsOutsideTheVocabularyAndNamesThem) {
  Engine engine = Open(SmallToy(), {});
  Session session(engine, 16, 32);
  std::vector<float> logits(engine.config().vocab);
  for (TokenId bad : {-1, 300}) {
    const std::vector<TokenId> ids = {1, 2, bad};
    const std::string name = "token 2 has id " + std::to_string(bad);
    EXPECT_TRUE(FailsWith(engine.Prefill(session.sequence(), ids, logits),
                          StatusCode::kInvalidArgument, name));
    EXPECT_TRUE(FailsWith(engine.Decode(session.sequence(), bad, logits),
                          StatusCode::kInvalidArgument, std::to_string(bad)));
    EXPECT_TRUE(FailsWith(engine.Recompute(session.sequence(), ids, 0, {}),
                          StatusCode::kInvalidArgument, name));
  }
  EXPECT_TRUE(FailsWith(engine.Prefill(session.sequence(), {}, logits),
                        StatusCode::kInvalidArgument, "no token"));
  EXPECT_EQ(session.sequence().cached_tokens(), 0u);
  EXPECT_OK(engine.Prefill(session.sequence(), std::vector<TokenId>{0, 299}, logits));
}

TEST_P(EngineCalls, RefusesAPoolOfAnotherGeometryAndAFullSequenceToRecomputeInto) {
  Engine bf16 = Open(SmallToy(), {.dtype = DType::kBf16});
  Engine fp32 = Open(SmallToy(), {.dtype = DType::kFp32});
  Session session(bf16, 16, 32);
  std::vector<float> logits(fp32.config().vocab);
  EXPECT_TRUE(FailsWith(fp32.Prefill(session.sequence(), Ids(3), logits),
                        StatusCode::kInvalidArgument, "another model or dtype"));
  session.Prefill(Ids(3));
  EXPECT_TRUE(FailsWith(bf16.Recompute(session.sequence(), Ids(3), 0, {}),
                        StatusCode::kInvalidArgument, "empty"));
}

TEST_P(EngineCalls, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](const EngineOptions& options) {
    return Engine::Open(SmallToy(), options).status();
  };
  EXPECT_TRUE(FailsWith(refusal({.kernels = "cuda"}), StatusCode::kInvalidArgument,
                        "one of native and torch"));
  EXPECT_TRUE(FailsWith(refusal({.prefill_chunk = 0}), StatusCode::kInvalidArgument, "chunk"));
  EXPECT_TRUE(FailsWith(refusal({.threads = 5000}), StatusCode::kInvalidArgument, "threads"));
}

TEST_P(EngineCalls, CountsWhatItRan) {
  Engine engine = Open(SmallToy(), {.prefill_chunk = 8});
  Session session(engine, 16, 40);
  session.Prefill(Ids(20)).Decode(1).Decode(2);
  EXPECT_EQ(engine.counters().prefill_tokens, 20u);
  EXPECT_EQ(engine.counters().decode_calls, 2u);
  EXPECT_EQ(engine.counters().recompute_tokens, 0u);
  EXPECT_EQ(session.sequence().cached_tokens(), 22u);
  Session other(engine, 16, 40);
  other.Recompute(Ids(11), 11);
  EXPECT_EQ(engine.counters().recompute_tokens, 11u);
  EXPECT_EQ(engine.counters().prefill_tokens, 20u);
}

TEST_P(EngineCalls, ReportsProgressAndCanBeInterruptedBetweenChunks) {
  Engine engine = Open(SmallToy(), {.dtype = DType::kFp32, .prefill_chunk = 8});
  const std::vector<TokenId> ids = Ids(20);
  Session session(engine, 16, 20);
  std::vector<float> logits(engine.config().vocab);
  std::vector<uint64_t> seen;
  const Status status = engine.Prefill(session.sequence(), ids, logits, [&](uint64_t done) {
    seen.push_back(done);
    return done < 16;
  });
  EXPECT_TRUE(FailsWith(status, StatusCode::kIoError, "interrupted"));
  EXPECT_EQ(seen, (std::vector<uint64_t>{8, 16}));
  EXPECT_EQ(session.sequence().cached_tokens(), 16u);

  // The sequence is whole up to there and can go on.
  session.Prefill(std::span(ids).subspan(16));
  Session uninterrupted(engine, 16, 20);
  uninterrupted.Prefill(ids);
  EXPECT_TRUE(SameBits(session.logits(), uninterrupted.logits()));
}

TEST_P(EngineCalls, PerturbsOneLogitOfOneDecodeCallByOneStep) {
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    Engine plain = Open(SmallToy(), {.dtype = dtype});
    Engine perturbed = Open(SmallToy(), {.dtype = dtype, .perturb_decode_call = 2});
    Session a(plain, 16, 40), b(perturbed, 16, 40);
    EXPECT_TRUE(SameBits(a.Prefill(Ids(9)).logits(), b.Prefill(Ids(9)).logits()));
    EXPECT_TRUE(SameBits(a.Decode(1).logits(), b.Decode(1).logits()));
    a.Decode(2);
    b.Decode(2);
    int changed = 0;
    for (size_t i = 0; i < a.logits().size(); ++i) {
      if (a.logits()[i] == b.logits()[i]) continue;
      ++changed;
      EXPECT_GT(b.logits()[i], a.logits()[i]);
      EXPECT_NEAR(b.logits()[i], a.logits()[i],
                  std::abs(a.logits()[i]) * (dtype == DType::kBf16 ? 0x1p-7 : 0x1p-22));
    }
    EXPECT_EQ(changed, 1);
    EXPECT_TRUE(SameBits(a.Decode(3).logits(), b.Decode(3).logits()));
  }
}

TEST_P(EngineCalls, SaysWhatItComputesWith) {
  Engine bf16 = Open(SmallToy(), {.threads = 2, .prefill_chunk = 64});
  const NumericEnvironment environment = bf16.environment();
  EXPECT_EQ(environment.kernel_set, GetParam());
  EXPECT_TRUE(environment.library.starts_with(GetParam() == "torch" ? "torch 2." : "kvbed "))
      << environment.library;
  EXPECT_FALSE(environment.isa.empty());
  const std::set<std::string> forms{"bf16", "bf16 as fp32", "bf16 as fp32, attention too"};
  EXPECT_TRUE(forms.contains(environment.linear)) << environment.linear;
  EXPECT_EQ(environment.threads, 2u);
  EXPECT_EQ(environment.prefill_chunk, 64u);
  Engine fp32 = Open(SmallToy(), {.dtype = DType::kFp32});
  EXPECT_EQ(fp32.environment().linear, "fp32");
  ASSERT_OK_AND_ASSIGN(const Engine unasked, Engine::Open(SmallToy(), {}));
  EXPECT_GE(unasked.environment().threads, 1u);

  uint64_t elements = 0;
  for (const auto& [name, tensor] : SmallToy().weights.tensors()) elements += tensor.elements();
  // Packed tiles and pages are filled up with zeroes.
  EXPECT_GE(fp32.weight_bytes(), elements * 4);
  if (GetParam() == "torch") EXPECT_EQ(fp32.weight_bytes(), elements * 4);
  EXPECT_GE(bf16.weight_bytes(), elements * 2);
}

}  // namespace
}  // namespace kvbed
