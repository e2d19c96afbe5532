// Where a prompt may come from, seen through tokenize on a small model with a tokenizer.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

const char* const kTextModel = KVBED_GOLDEN_DIR "/model/gqa_8_2";

nlohmann::json Tokenized(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"tokenize", "-m", kTextModel, "-o", "json"});
  const CommandRun run = RunKvbed(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.Json();
}

TEST(Prompt, IsTheSameFromTextFileAndStandardInput) {
  const TempDir folder;
  const std::string file = folder / "prompt.txt";
  std::ofstream(file, std::ios::binary) << "the rain in\n";
  const auto ids = Tokenized({"--prompt", "the rain in\n"}).at("ids");
  EXPECT_GT(ids.size(), 2);
  EXPECT_EQ(Tokenized({"--prompt-file", file}).at("ids"), ids);
  const CommandRun run =
      RunShell("KVBED tokenize -f - -o json -m '" + std::string(kTextModel) + "' <'" + file + "'");
  EXPECT_EQ(run.Json().at("ids"), ids);
}

TEST(Prompt, OfAnyBytesIsTaken) {
  const TempDir folder;
  const std::string file = folder / "bytes";
  std::ofstream(file, std::ios::binary) << std::string("a\0\xff\xfe\r\n z", 8);
  const auto tokens = Tokenized({"-f", file}).at("tokens");
  std::string hex;
  for (const auto& token : tokens) hex += token.at("bytes_hex").get<std::string>();
  EXPECT_EQ(hex, "6100fffe0d0a207a");
}

TEST(Prompt, IsCutOrRepeatedToTheContext) {
  const auto ids = Tokenized({"--prompt-ids", "5,70,31", "-c", "7"}).at("ids");
  EXPECT_EQ(ids, nlohmann::json({5, 70, 31, 5, 70, 31, 5}));
  EXPECT_EQ(Tokenized({"--prompt-ids", "5,70,31", "-c", "2"}).at("ids"), nlohmann::json({5, 70}));
}

TEST(Prompt, SpecialTokensAreTextUnlessAskedFor) {
  const auto special = Tokenized({"--prompt-ids", "0"}).at("tokens").at(0).at("text");
  const std::string text = special.get<std::string>();
  EXPECT_GT(Tokenized({"--prompt", text}).at("ids").size(), 1);
  EXPECT_EQ(Tokenized({"--prompt", text, "--parse-special"}).at("ids"), nlohmann::json({0}));
}

TEST(Prompt, WithoutTokensIsAUsageError) {
  for (const char* option : {"--prompt", "--prompt-ids"}) {
    EXPECT_EQ(RunKvbed({"tokenize", "-m", kTextModel, option, ""}).exit_code, 2);
  }
  EXPECT_EQ(RunKvbed({"tokenize", "-m", kTextModel}).exit_code, 2);
  EXPECT_EQ(RunKvbed({"tokenize", "-m", kTextModel, "-f", "/no/such/file"}).exit_code, 4);
}

}  // namespace
}  // namespace kvbed
