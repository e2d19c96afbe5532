#include "offload/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace kvbed {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kIoError: return "I/O error";
    case StatusCode::kCorruption: return "corruption";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kOutOfSpace: return "out of space";
    case StatusCode::kNotSupported: return "not supported";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return fmt::format("{}: {}", StatusCodeName(code_), message_);
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code_, fmt::format("{}: {}", context, message_)};
}

Status StatusFromErrno(int error, std::string_view operation) {
  std::string message = fmt::format("{}: {}", operation, std::strerror(error));
  switch (error) {
    case ENOENT: return Status::NotFound(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return Status::OutOfSpace(std::move(message));
    case EOPNOTSUPP:
    case ENOSYS: return Status::NotSupported(std::move(message));
    default: return Status::IoError(std::move(message));
  }
}

}  // namespace kvbed
