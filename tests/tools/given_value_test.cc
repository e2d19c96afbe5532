#include "tools/given_value.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(GivenValue, IsANumberAndWhereItIsFrom) {
  EXPECT_EQ(ParseGivenValue("--x", "9000")->value, 9000);
  EXPECT_EQ(ParseGivenValue("--x", "9000")->source, "given");
  EXPECT_EQ(ParseGivenValue("--x", "6.9")->value, 6.9);
  EXPECT_EQ(ParseGivenValue("--x", "7,data sheet, page 3")->source, "given: data sheet, page 3");
}

TEST(GivenValue, RefusesWhatIsNoNumberAboveZero) {
  for (const char* text : {"", ",", ",x", "0", "-1", "-0", "nan", "inf", "1e3", "0x10", "7GB/s",
                           " 7", "7 ", "99999999999999", "0.0000000001", "+7"}) {
    EXPECT_TRUE(FailsWith(ParseGivenValue("--x", text).status(), StatusCode::kInvalidArgument,
                          "--x takes a number above 0"))
        << text;
  }
  EXPECT_TRUE(FailsWith(ParseGivenValue("--x", "7,").status(), StatusCode::kInvalidArgument,
                        "nothing follows the comma"));
}

TEST(GivenNumber, IsWithinItsLimitsAndHasNoSource) {
  EXPECT_EQ(ParseGivenNumber("--x", "0.5").value(), 0.5);
  EXPECT_EQ(ParseGivenNumber("--x", "7", 7).value(), 7);
  for (const char* text : {"8", "0", "1e-3", "7,data sheet"}) {
    const Status refused = ParseGivenNumber("--x", text, 7).status();
    EXPECT_TRUE(FailsWith(refused, StatusCode::kInvalidArgument, "from 0.000001 to 7")) << text;
    EXPECT_EQ(refused.message().find("comma"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvbed
