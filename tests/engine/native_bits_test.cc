// The promise of the native kernels: cached and recomputed K, V and logits are the same bits,
// whatever the chunks, threads and blocks.
#include <gtest/gtest.h>

#include "tests/engine/native_bits.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

// 700 tokens are three chunks of attention.
const std::vector<Way> kWays = {{.threads = 2, .block_tokens = 5, .prefill_chunk = 1},
                                {.threads = 1, .block_tokens = 16, .prefill_chunk = 7},
                                {.threads = 2, .block_tokens = 64, .prefill_chunk = 33},
                                {.threads = 4, .block_tokens = 1, .prefill_chunk = 512},
                                {.threads = 2, .block_tokens = 16, .decoded = 40},
                                {.threads = 2, .block_tokens = 16, .decoded = 30, .batch = 6},
                                {.threads = 4, .block_tokens = 5, .decoded = 5, .batch = 40}};

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

}  // namespace
}  // namespace kvbed
