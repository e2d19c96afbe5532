// The promise of the native kernels on a real model.
#include <gtest/gtest.h>

#include "tests/engine/native_bits.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

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
                     {.threads = 2, .block_tokens = 64, .prefill_chunk = 64, .decoded = 10},
                     {.threads = 2, .block_tokens = 16, .decoded = 10, .batch = 6}},
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
    for (uint32_t blocks : {1u, 5u, 16u, 64u}) {
      ways.push_back({.threads = 2, .block_tokens = blocks, .decoded = 32, .batch = 6});
    }
    ExpectTheSameBits(model, GetParam(), tokens, ways);
  }
}

}  // namespace
}  // namespace kvbed
