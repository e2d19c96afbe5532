// generate on a small model: greedy, sampled and seeded, and what it prints.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace kvbed {
namespace {

const char* const kSmallModel = KVBED_GOLDEN_DIR "/model/gqa_8_2";

nlohmann::json Generated(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"generate", "-m", kSmallModel, "--prompt-ids", "5,70,31", "-n", "12", "-o", "json"});
  const CommandRun run = RunKvbed(more);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.Json().at("generated").at("ids");
}

TEST(Generate, IsGreedyUnlessATemperatureIsGivenAndThenSeeded) {
  const auto greedy = Generated({});
  EXPECT_EQ(greedy.size(), 12);
  EXPECT_EQ(Generated({"--seed", "9"}), greedy);
  const auto sampled = Generated({"--temperature", "2", "--seed", "9"});
  EXPECT_NE(sampled, greedy);
  EXPECT_EQ(Generated({"--temperature", "2", "--seed", "9"}), sampled);
  EXPECT_NE(Generated({"--temperature", "2", "--seed", "10"}), sampled);
}

TEST(Generate, PrintsThePromptAndTheTextAfterIt) {
  const CommandRun run =
      RunKvbed({"generate", "-m", kSmallModel, "--prompt", "the rain", "-n", "3"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.out.starts_with("the rain")) << run.out;
}

}  // namespace
}  // namespace kvbed
