#include "tools/text_table.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(TextTable, AlignsNumbersToTheRight) {
  const TextTable table{.titles = {"a", "bytes"}, .rows = {{"xx", "1"}, {"y", "1,234,567"}}};
  EXPECT_EQ(table.AsText(2),
            "  a       bytes\n"
            "  xx          1\n"
            "  y   1,234,567\n");
  EXPECT_EQ(table.AsMarkdown(),
            "| a  |     bytes |\n|----|----------:|\n| xx |         1 |\n| y  | 1,234,567 |\n");
}

TEST(TextTable, EscapesBarsInMarkdownAlone) {
  const TextTable table{.titles = {"a", "max |d|"}, .rows = {{"x|y", "1"}}};
  EXPECT_EQ(table.AsText(0), "a    max |d|\nx|y        1\n");
  EXPECT_EQ(table.AsMarkdown(),
            "| a    | max \\|d\\| |\n|------|----------:|\n| x\\|y |         1 |\n");
}

}  // namespace
}  // namespace kvbed
