// Running other programs.
#include "tools/program.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(Program, KeepsBothOutputsAndTheExitCodeApart) {
  ASSERT_OK_AND_ASSIGN(const ProgramResult result,
                       RunProgram({"sh", "-c", "echo out; echo err >&2; exit 7"}));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(Program, SaysWhichSignalEndedIt) {
  ASSERT_OK_AND_ASSIGN(const ProgramResult result, RunProgram({"sh", "-c", "kill -TERM $$"}));
  EXPECT_EQ(result.exit_code, 128 + 15);
}

TEST(Program, TakesArgumentsAsTheyAre) {
  ASSERT_OK_AND_ASSIGN(const ProgramResult result, RunProgram({"printf", "%s|", "a b", "$HOME"}));
  EXPECT_EQ(result.out, "a b|$HOME|");
}

TEST(Program, ThatDoesNotExistIsNotFound) {
  EXPECT_TRUE(FailsWith(RunProgram({"no-such-program-of-kvbed"}).status(), StatusCode::kNotFound,
                        "no-such-program-of-kvbed is not installed"));
}

}  // namespace
}  // namespace kvbed
