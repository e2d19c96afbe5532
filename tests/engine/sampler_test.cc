#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler Make(const SamplerState& state) {
  Result<Sampler> sampler = Sampler::Create(state);
  EXPECT_OK(sampler);
  return *sampler;
}

// How often each id is picked in `draws` picks.
std::map<TokenId, int> Histogram(const SamplerState& state, const std::vector<float>& logits,
                                 int draws) {
  Sampler sampler = Make(state);
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.Pick(logits)];
  return counts;
}

TEST(Sampler, GreedyTakesTheLargestLogitAndTheLowestIdOfATie) {
  Sampler sampler = Make({});
  EXPECT_EQ(sampler.Pick(std::vector<float>{-3, 2, 7, 1}), 2);
  EXPECT_EQ(sampler.Pick(std::vector<float>{1, 7, 7, 7}), 1);
  EXPECT_EQ(sampler.Pick(std::vector<float>{-0.0f, 0.0f}), 0);
}

TEST(Sampler, GreedyUsesNoRandomNumberAndSamplingOneACall) {
  Sampler greedy = Make({});
  greedy.Pick(std::vector<float>{1, 2});
  EXPECT_EQ(greedy.state().draws, 0u);

  Sampler sampling = Make({.temperature = 1, .seed = 3});
  for (int i = 0; i < 5; ++i) sampling.Pick(std::vector<float>{1, 2});
  EXPECT_EQ(sampling.state().draws, 5u);
}

TEST(Sampler, PicksWithTheProbabilitiesOfSoftmax) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(7.0f)};
  const int draws = 20000;
  auto counts = Histogram({.temperature = 1, .seed = 11}, logits, draws);
  // Four standard deviations of a count are below 0.015 of the draws.
  EXPECT_NEAR(counts[0] / double{draws}, 0.1, 0.015);
  EXPECT_NEAR(counts[1] / double{draws}, 0.2, 0.015);
  EXPECT_NEAR(counts[2] / double{draws}, 0.7, 0.015);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = {0, 1};
  const int draws = 20000;
  // softmax(logits / T)[1] = 1 / (1 + exp(-1 / T))
  EXPECT_NEAR(Histogram({.temperature = 0.5, .seed = 1}, logits, draws)[1] / double{draws}, 0.881,
              0.015);
  EXPECT_NEAR(Histogram({.temperature = 4, .seed = 1}, logits, draws)[1] / double{draws}, 0.562,
              0.015);
}

TEST(Sampler, TopKKeepsTheKLargestAndTheLowestIdsOfATie) {
  const std::vector<float> logits = {1, 5, 4, 5, 4};
  auto counts = Histogram({.temperature = 10, .top_k = 3, .seed = 5}, logits, 2000);
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_GT(counts[1], 0);
  EXPECT_GT(counts[2], 0);  // 4 at id 2, not at id 4
  EXPECT_GT(counts[3], 0);
  EXPECT_EQ(Histogram({.temperature = 10, .top_k = 1, .seed = 5}, logits, 200).size(), 1u);
  // Off, and beyond the vocabulary, it keeps all.
  EXPECT_EQ(Histogram({.temperature = 10, .top_k = 0, .seed = 5}, logits, 2000).size(), 5u);
  EXPECT_EQ(Histogram({.temperature = 10, .top_k = 99, .seed = 5}, logits, 2000).size(), 5u);
}

TEST(Sampler, TopPKeepsTheFewestThatReachTheShare) {
  const std::vector<float> logits = {std::log(2.0f), std::log(5.0f), std::log(3.0f)};
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.49, .seed = 5}, logits, 500).size(), 1u);
  auto counts = Histogram({.temperature = 1, .top_p = 0.79, .seed = 5}, logits, 4000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[1] / 4000.0, 5.0 / 8, 0.04);
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.81, .seed = 5}, logits, 2000).size(), 3u);
}

TEST(Sampler, TopPCountsShareOfWhatTopKLeft) {
  const std::vector<float> logits = {std::log(4.0f), std::log(3.0f), std::log(3.0f)};
  // 4/7 of the two that top-k leaves; of all three it is 0.4.
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.5, .top_k = 2, .seed = 5}, logits, 500).size(),
            1u);
  EXPECT_EQ(Histogram({.temperature = 1, .top_p = 0.5, .seed = 5}, logits, 500).size(), 2u);
}

TEST(Sampler, ContinuesFromItsStateAsIfItHadNeverStopped) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 37) * 0.1f;
  const SamplerState start = {.temperature = 0.8, .top_p = 0.95, .top_k = 200, .seed = 42};

  Sampler whole = Make(start);
  std::vector<TokenId> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(whole.Pick(logits));

  Sampler first = Make(start);
  std::vector<TokenId> picked;
  for (int i = 0; i < 10; ++i) picked.push_back(first.Pick(logits));
  Sampler second = Make(first.state());
  for (int i = 0; i < 10; ++i) picked.push_back(second.Pick(logits));
  EXPECT_EQ(picked, expected);

  // Without the count of draws it would repeat itself.
  Sampler forgetful = Make(start);
  std::vector<TokenId> repeated;
  for (int i = 0; i < 10; ++i) repeated.push_back(forgetful.Pick(logits));
  EXPECT_NE(repeated, std::vector<TokenId>(expected.begin() + 10, expected.end()));
}

TEST(Sampler, SeedsGiveSequencesOfTheirOwn) {
  const std::vector<float> logits(64, 0.0f);
  const auto picks = [&](uint64_t seed) {
    Sampler sampler = Make({.temperature = 1, .seed = seed});
    std::vector<TokenId> ids;
    for (int i = 0; i < 32; ++i) ids.push_back(sampler.Pick(logits));
    return ids;
  };
  EXPECT_EQ(picks(7), picks(7));
  EXPECT_NE(picks(7), picks(8));
  const auto a = picks(7), b = picks(8);
  EXPECT_NE(std::vector<TokenId>(a.begin() + 1, a.end()),
            std::vector<TokenId>(b.begin(), b.end() - 1));
}

TEST(Sampler, RandomNumbersAreThoseOfTheDefinitionOnEveryPlatform) {
  // Computed apart, in Python, from the definition of the generator.
  const std::vector<float> logits(1000, 0.0f);
  Sampler sampler = Make({.temperature = 1, .seed = 1});
  std::vector<TokenId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(sampler.Pick(logits));
  EXPECT_EQ(ids, (std::vector<TokenId>{368, 943, 45, 777}));
}

TEST(Sampler, SurvivesLogitsThatAreNoNumbers) {
  for (double temperature : {0.0, 1.0}) {
    SCOPED_TRACE(temperature);
    const SamplerState state = {.temperature = temperature, .top_p = 0.9, .top_k = 3, .seed = 9};
    Sampler sampler = Make(state);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(sampler.Pick(std::vector<float>{kNan, -kInfinity, 3, kNan}), 2);
      EXPECT_EQ(sampler.Pick(std::vector<float>{kNan, kNan}), 0);
      EXPECT_EQ(sampler.Pick(std::vector<float>{1, kInfinity, kNan}), 1);
    }
    EXPECT_GE(sampler.Pick(std::vector<float>{-kInfinity, -kInfinity}), 0);
  }
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  const auto refusal = [](const SamplerState& state) { return Sampler::Create(state).status(); };
  EXPECT_TRUE(FailsWith(refusal({.temperature = -1}), StatusCode::kInvalidArgument, "temperature"));
  EXPECT_TRUE(
      FailsWith(refusal({.temperature = kNan}), StatusCode::kInvalidArgument, "temperature"));
  EXPECT_TRUE(
      FailsWith(refusal({.temperature = kInfinity}), StatusCode::kInvalidArgument, "temperature"));
  EXPECT_TRUE(FailsWith(refusal({.top_p = 0}), StatusCode::kInvalidArgument, "top-p"));
  EXPECT_TRUE(FailsWith(refusal({.top_p = 1.01}), StatusCode::kInvalidArgument, "top-p"));
  EXPECT_TRUE(FailsWith(refusal({.top_p = kNan}), StatusCode::kInvalidArgument, "top-p"));
  EXPECT_OK(refusal({.temperature = 0.8, .top_p = 1}));
}

}  // namespace
}  // namespace kvbed
