#include "offload/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

Status Half(int n, int& out) {
  if (n % 2 != 0) return Status::InvalidArgument("odd");
  out = n / 2;
  return Status::Ok();
}
Result<int> Halved(int n) {
  int half = 0;
  KVBED_RETURN_IF_ERROR(Half(n, half));
  return half;
}
Result<int> Quartered(int n) {
  KVBED_ASSIGN_OR_RETURN(const int half, Halved(n));
  KVBED_ASSIGN_OR_RETURN(const int quarter, Halved(half));
  return quarter;
}

TEST(Status, DefaultIsOk) {
  EXPECT_OK(Status());
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status::Ok(), Status());
}

TEST(Status, SaysItsCodeAndMessage) {
  EXPECT_EQ(Status::IoError("write x at 8").ToString(), "I/O error: write x at 8");
  EXPECT_EQ(Status::NotFound("x").code(), StatusCode::kNotFound);
  EXPECT_NE(Status::NotFound("x"), Status::NotFound("y"));
}

TEST(Status, ContextStandsBeforeTheMessageAndLeavesOkAlone) {
  EXPECT_EQ(Status::Corruption("bad").WithContext("block 3"), Status::Corruption("block 3: bad"));
  EXPECT_OK(Status().WithContext("block 3"));
}

TEST(Status, MapsErrnosThatNeedAnotherReactionThanAnIoError) {
  EXPECT_TRUE(FailsWith(StatusFromErrno(ENOENT, "open /x"), StatusCode::kNotFound, "open /x: "));
  for (int full : {ENOSPC, EDQUOT, EFBIG}) {
    EXPECT_TRUE(FailsWith(StatusFromErrno(full, "write"), StatusCode::kOutOfSpace));
  }
  for (int refused : {EOPNOTSUPP, ENOSYS}) {
    EXPECT_TRUE(FailsWith(StatusFromErrno(refused, "open"), StatusCode::kNotSupported));
  }
  EXPECT_TRUE(FailsWith(StatusFromErrno(EIO, "read"), StatusCode::kIoError));
}

TEST(Result, HoldsAValueOrAStatus) {
  EXPECT_EQ(*Halved(4), 2);
  EXPECT_TRUE(FailsWith(Halved(3).status(), StatusCode::kInvalidArgument, "odd"));
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_EQ(*Quartered(12), 3);
  EXPECT_FALSE(Quartered(6).ok());
  EXPECT_FALSE(Quartered(5).ok());
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorIsAProgrammingError) {
  EXPECT_DEATH(Halved(3).value(), "check failed");
}

}  // namespace
}  // namespace kvbed
