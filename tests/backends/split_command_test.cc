// Command lines of exec: stores as words.
#include "backends/split_command.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

std::vector<std::string> Words(std::string_view line) {
  const auto words = SplitCommand(line);
  EXPECT_OK(words);
  std::vector<std::string> texts;
  if (!words.ok()) return texts;
  for (const CommandWord& word : *words) texts.push_back(word.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(SplitCommandTest, BlanksPartWords) {
  EXPECT_EQ(Words("python3 a.py  --dir\t/x "), (Texts{"python3", "a.py", "--dir", "/x"}));
  EXPECT_EQ(Words(""), Texts{});
  EXPECT_EQ(Words(" \n "), Texts{});
}

TEST(SplitCommandTest, QuotesHoldThemTogether) {
  EXPECT_EQ(Words("a 'b c' \"d e\""), (Texts{"a", "b c", "d e"}));
  EXPECT_EQ(Words("a'b'\"c\"d ''"), (Texts{"abcd", ""}));
  EXPECT_EQ(Words(R"('a\b' "a\b" "a\"\\" a\ b \\)"),
            (Texts{R"(a\b)", R"(a\b)", R"(a"\)", "a b", "\\"}));
  EXPECT_EQ(Words("$HOME | * > x"), (Texts{"$HOME", "|", "*", ">", "x"}));
  for (const char* open : {"'a", "a \"b", "\"a\\\""}) {
    EXPECT_TRUE(FailsWith(StatusOf(SplitCommand(open)), StatusCode::kInvalidArgument, "closed"))
        << open;
  }
}

TEST(SplitCommandTest, AQuotedWordIsOne) {
  for (const char* text :
       {"plain", "", "a b", "it's", "#x", "a\\b", "\"", "tab\there", "\xc3\xa9"}) {
    EXPECT_EQ(Words(QuoteWord(text)), Texts{text}) << QuoteWord(text);
  }
  EXPECT_EQ(QuoteWord("timeout=5"), "timeout=5");
}

}  // namespace
}  // namespace kvbed
