// Assertions on what cannot happen, on in release builds too.
// What can happen in operation is a Status (status.h), never a check.
#pragma once

namespace kvbed {

// Prints one line with the place and the condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace kvbed

#define KVBED_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::kvbed::CheckFailed(__FILE__, __LINE__, #condition))
