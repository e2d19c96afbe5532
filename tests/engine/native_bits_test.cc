// The promise of the native kernels: cached and recomputed K, V and logits are the same bits,
// whatever the chunks, threads and blocks.
#include <gtest/gtest.h>

#include "engine/kernels/native/native_model.h"
#include "tests/engine/engine_harness.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

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

Bits RunOn(NativeModel& model, const ModelConfig& config, DType dtype, const Way& way,
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

NativeModel OpenNative(const ModelFiles& model, DType dtype, uint32_t threads,
                       const std::string& isa) {
  auto opened = NativeModel::Open(model, dtype, threads, isa);
  EXPECT_OK(opened);
  return std::move(opened).value();
}

uint64_t Differing(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  uint64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return count;
}

void ExpectTheSameBits(const ModelFiles& model, DType dtype, uint64_t tokens,
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

// 700 tokens are three chunks of attention.
const std::vector<Way> kWays = {{.threads = 2, .block_tokens = 5, .prefill_chunk = 1},
                                {.threads = 1, .block_tokens = 16, .prefill_chunk = 7},
                                {.threads = 2, .block_tokens = 64, .prefill_chunk = 33},
                                {.threads = 4, .block_tokens = 1, .prefill_chunk = 512},
                                {.threads = 2, .block_tokens = 16, .decoded = 40}};

class NativeBits : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!HasNativeKernels()) KVBED_SKIP_OR_FAIL("this CPU has none of the instruction sets");
  }
};
INSTANTIATE_TEST_SUITE_P(
    Models, NativeBits,
    ::testing::Values("toy:8m?vocab=300&hidden=96&layers=2&heads=6&kv_heads=2&mlp=160&seed=7",
                      "toy:8m?vocab=300&hidden=64&layers=2&heads=4&kv_heads=1&mlp=100&seed=8",
                      KVBED_GOLDEN_DIR "/model/gqa_8_2",
                      KVBED_GOLDEN_DIR "/model/mha_llama3_rope"));

TEST_P(NativeBits, RecomputedIsCachedInBf16) {
  ExpectTheSameBits(OpenTestModel(GetParam()), DType::kBf16, 700, kWays);
}
TEST_P(NativeBits, RecomputedIsCachedInFp32) {
  ExpectTheSameBits(OpenTestModel(GetParam()), DType::kFp32, 700, kWays);
}

// The check can fail: kernels that take another order when they have several rows are noticed.
TEST(NativeBitsControl, AnOrderThatDependsOnTheRowsIsNoticed) {
  if (!HasNativeKernels()) KVBED_SKIP_OR_FAIL("this CPU has none of the instruction sets");
  const ModelFiles model =
      OpenTestModel("toy:8m?vocab=300&hidden=96&layers=2&heads=6&kv_heads=2&mlp=160&seed=7");
  KernelTable table = KernelTables(DType::kFp32).front();
  table.multiply = [](const KernelTable&, const Product& product) {
    const KernelTable base = KernelTables(DType::kFp32).front();
    if (product.rows == 1 || product.into != Into::kElements) return base.multiply(base, product);
    // The second half of the columns before the first.
    const uint32_t half = product.columns / 2 / kRowPad * kRowPad;
    auto* const out = static_cast<float*>(product.out);
    for (uint32_t row = 0; row < product.rows; ++row) {
      for (uint32_t n = product.tile * kTileRows; n < (product.tile + product.tiles) * kTileRows;
           ++n) {
        float sum = 0;
        for (uint32_t k = 0; k < product.columns; ++k) {
          const uint32_t at = k < product.columns - half ? k + half : k - (product.columns - half);
          const auto* const b = static_cast<const float*>(product.b) +
                                uint64_t{n / kTileRows} * product.columns * kTileRows;
          sum = std::fma(static_cast<const float*>(product.a)[row * product.a_stride + at],
                         b[at * kTileRows + n % kTileRows], sum);
        }
        out[row * product.out_stride + n] = sum;
      }
    }
  };
  auto broken = NativeModel::OpenWith(model, 1, table);
  ASSERT_OK(broken);
  const std::vector<TokenId> ids = SeededIds(3, 40, model.config.vocab);
  const Bits one_pass = RunOn(*broken, model.config, DType::kFp32, {.prefill_chunk = 40}, ids);
  const Bits one_by_one = RunOn(*broken, model.config, DType::kFp32, {.prefill_chunk = 1}, ids);
  EXPECT_GT(Differing(one_pass.kv, one_by_one.kv), 0);
  // And by little: it is the same model.
  EXPECT_LE(MaxDifference(one_pass.kv, one_by_one.kv), 1e-3);
}

class NativeBitsSmolLM2 : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!HasNativeKernels()) KVBED_SKIP_OR_FAIL("this CPU has none of the instruction sets");
    if (std::string_view(KVBED_SMOLLM2_GGUF).empty()) {
      KVBED_SKIP_OR_FAIL("SmolLM2 is not installed; tools/setup fetches it");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(DTypes, NativeBitsSmolLM2, ::testing::Values(DType::kBf16, DType::kFp32),
                         [](const auto& dtype) { return std::string(DTypeName(dtype.param)); });

TEST_P(NativeBitsSmolLM2, RecomputedIsCached) {
  ExpectTheSameBits(OpenTestModel(KVBED_SMOLLM2_GGUF), GetParam(), 132,
                    {{.threads = 2, .block_tokens = 5, .prefill_chunk = 7},
                     {.threads = 2, .block_tokens = 64, .prefill_chunk = 64, .decoded = 10}},
                    /*every_isa=*/false);
}

class FullNativeBitsSmolLM2 : public NativeBitsSmolLM2 {};
INSTANTIATE_TEST_SUITE_P(DTypes, FullNativeBitsSmolLM2,
                         ::testing::Values(DType::kBf16, DType::kFp32),
                         [](const auto& dtype) { return std::string(DTypeName(dtype.param)); });

TEST_P(FullNativeBitsSmolLM2, RecomputedIsCachedAtEveryChunkAndContext) {
  const ModelFiles model = OpenTestModel(KVBED_SMOLLM2_GGUF);
  for (uint64_t tokens : {132u, 2100u}) {
    std::vector<Way> ways;
    uint32_t i = 0;
    for (uint64_t chunk : {1u, 7u, 16u, 33u, 64u, 512u}) {
      for (uint32_t threads : {1u, 2u, 4u}) {
        const uint32_t blocks[] = {1, 5, 16, 64};
        ways.push_back(
            {.threads = threads, .block_tokens = blocks[i++ % 4], .prefill_chunk = chunk});
      }
    }
    ExpectTheSameBits(model, GetParam(), tokens, ways);
  }
}

}  // namespace
}  // namespace kvbed
