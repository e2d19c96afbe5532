// Status and Result<T>: how a function says that something failed in operation.
// They carry one of seven codes and a message that names the operation, the file, the offset and
// the cause. They don't know exit codes, and nothing here prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "offload/check.h"

namespace kvbed {

enum class StatusCode : uint8_t {
  kOk,
  kNotFound,
  kIoError,
  kCorruption,
  kInvalidArgument,
  kOutOfSpace,
  kNotSupported,
};

std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  static Status NotFound(std::string message) {
    return {StatusCode::kNotFound, std::move(message)};
  }
  static Status IoError(std::string message) { return {StatusCode::kIoError, std::move(message)}; }
  static Status Corruption(std::string message) {
    return {StatusCode::kCorruption, std::move(message)};
  }
  static Status InvalidArgument(std::string message) {
    return {StatusCode::kInvalidArgument, std::move(message)};
  }
  static Status OutOfSpace(std::string message) {
    return {StatusCode::kOutOfSpace, std::move(message)};
  }
  static Status NotSupported(std::string message) {
    return {StatusCode::kNotSupported, std::move(message)};
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "I/O error: write slab-4096.dat at 8192: ..."; "ok" when ok.
  std::string ToString() const;

  // The same code with `context: ` before the message; ok stays ok.
  Status WithContext(std::string_view context) const;

  void IgnoreError() const {}

  bool operator==(const Status&) const = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// The one place that maps an errno to a Status: ENOENT is not found; ENOSPC, EDQUOT and EFBIG are
// out of space; EINVAL of an open with O_DIRECT, EOPNOTSUPP and ENOSYS are not supported; the rest
// are I/O errors. `operation` names what was done to what, e.g. "open /data/kv/UUID".
Status StatusFromErrno(int error, std::string_view operation);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit
  Result(Status status) : status_(std::move(status)) { KVBED_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  const T& value() const& {
    KVBED_CHECK(ok());
    return *value_;
  }
  T& value() & {
    KVBED_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    KVBED_CHECK(ok());
    return std::move(*value_);
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kvbed

#define KVBED_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::kvbed::Status kvbed_status_ = (expression); !kvbed_status_.ok()) return kvbed_status_; \
  } while (false)

#define KVBED_CONCAT_INNER_(a, b) a##b
#define KVBED_CONCAT_(a, b) KVBED_CONCAT_INNER_(a, b)

// KVBED_ASSIGN_OR_RETURN(auto file, io.Open(path, options));
#define KVBED_ASSIGN_OR_RETURN(declaration, expression) \
  KVBED_ASSIGN_OR_RETURN_INNER_(KVBED_CONCAT_(kvbed_result_, __LINE__), declaration, expression)
#define KVBED_ASSIGN_OR_RETURN_INNER_(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()
