// Questions and answers of one line each with a child process, within a time and a size. It doesn't
// know what the lines say. Belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// How an exchange ended, in words that go on from "the store": "gave no answer within 5 s".
enum class ExchangeEnd : uint8_t { kAnswered, kTimedOut, kClosed, kTooLong, kUnasked, kFailed };

class LineExchange {
 public:
  // Descriptors that don't block, and outlive it: a socket, and two pipes.
  LineExchange(int input, int output, int errors, uint64_t line_bytes_max)
      : input_(input), output_(output), errors_(errors), line_bytes_max_(line_bytes_max) {}

  // Sends `line`, which has no line feed, and takes the next line (without its line feed) into
  // `answer`. Anything that came before `line` was sent is kUnasked. After another end than
  // kAnswered nothing more can be asked.
  ExchangeEnd Ask(std::string_view line, uint64_t deadline_ns, std::string& answer);

  // The beginning of what came and was no answer, for a message.
  std::string unasked() const { return Printable(received_); }
  // The last line that came over `errors`, if any; reads what is there.
  std::string LastWords();

  // At most 80 characters of `text`, of which those that aren't printable ASCII are '?'.
  static std::string Printable(std::string_view text);

 private:
  enum class Step : uint8_t { kMore, kLater, kEnd, kError };
  Step ReadOutput();
  void ReadErrors();
  bool Wait(bool to_write, uint64_t deadline_ns);

  int input_;
  int output_;
  int errors_;
  uint64_t line_bytes_max_;
  bool errors_open_ = true;
  std::string received_;
  std::string error_tail_;
};

}  // namespace kvbed
