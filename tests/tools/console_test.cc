#include "tools/console.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(Console, PrintableShowsControlCharacters) {
  EXPECT_EQ(Printable("plain text, \xc3\xa9\xe2\x82\xac"), "plain text, \xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(Printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(Printable("\x1b[31m\x07\x7f"), "\\x1b[31m\\x07\\x7f");
  // U+009B, the one-character form of ESC [ ; U+00A0 is a space.
  EXPECT_EQ(Printable("\xc2\x9b\xc2\xa0"), "\\u009b\xc2\xa0");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace kvbed
