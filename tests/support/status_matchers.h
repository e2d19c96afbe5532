// Checks on Status and Result<T> whose failure shows the message.
#pragma once

#include <gtest/gtest.h>

#include "offload/status.h"

namespace kvbed {

inline const Status& StatusOf(const Status& status) { return status; }
template <class T>
const Status& StatusOf(const Result<T>& result) {
  static const Status ok;
  return result.ok() ? ok : result.status();
}

template <class Outcome>
::testing::AssertionResult IsOk(const Outcome& outcome) {
  if (outcome.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << StatusOf(outcome).ToString();
}

// The failure that `status` should be: this code, with `part` somewhere in its message.
inline ::testing::AssertionResult FailsWith(const Status& status, StatusCode code,
                                            std::string_view part = {}) {
  if (status.code() == code && status.message().find(part) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got '" << status.ToString() << "', wanted '"
                                       << StatusCodeName(code) << "' with '" << part << "'";
}

}  // namespace kvbed

#define EXPECT_OK(expression) EXPECT_TRUE(::kvbed::IsOk(expression))
#define ASSERT_OK(expression) ASSERT_TRUE(::kvbed::IsOk(expression))
// ASSERT_OK_AND_ASSIGN(File file, io->Open(path, options));
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_INNER_(KVBED_CONCAT_(kvbed_assigned_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_INNER_(result, declaration, expression)                       \
  auto result = (expression);                                                              \
  ASSERT_TRUE(result.ok()) << #expression << ": " << ::kvbed::StatusOf(result).ToString(); \
  declaration = std::move(result).value()
