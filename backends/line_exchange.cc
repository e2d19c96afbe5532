#include "backends/line_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "offload/clock.h"

namespace kvbed {
namespace {

constexpr size_t kErrorTailBytes = 4096;
constexpr size_t kPrintableMax = 80;
constexpr size_t kReadBytes = 65'536;
// A child that floods its error stream doesn't keep us from its answers.
constexpr int kErrorReadsMax = 16;

}  // namespace

std::string LineExchange::Printable(std::string_view text) {
  std::string out(text.substr(0, kPrintableMax));
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  if (text.size() > kPrintableMax) out += "...";
  return out;
}

LineExchange::Step LineExchange::ReadOutput() {
  std::array<char, kReadBytes> part;
  const ssize_t got = ::read(output_, part.data(), part.size());
  if (got > 0) {
    received_.append(part.data(), static_cast<size_t>(got));
    return Step::kMore;
  }
  if (got == 0) return Step::kEnd;
  return errno == EAGAIN || errno == EINTR ? Step::kLater : Step::kError;
}

void LineExchange::ReadErrors() {
  std::array<char, kReadBytes> part;
  for (int i = 0; i < kErrorReadsMax && errors_open_; ++i) {
    const ssize_t got = ::read(errors_, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      errors_open_ = false;
      return;
    }
    error_tail_.append(part.data(), static_cast<size_t>(got));
    if (error_tail_.size() > kErrorTailBytes) {
      error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
    }
  }
}

// False when the time is over.
bool LineExchange::Wait(bool to_write, uint64_t deadline_ns) {
  const uint64_t now_ns = MonotonicNs();
  if (now_ns >= deadline_ns) return false;
  std::array<pollfd, 3> waits{
      {{.fd = output_, .events = POLLIN, .revents = 0},
       {.fd = to_write ? input_ : -1, .events = POLLOUT, .revents = 0},
       {.fd = errors_open_ ? errors_ : -1, .events = POLLIN, .revents = 0}}};
  const uint64_t wait_ms = (deadline_ns - now_ns) / 1'000'000 + 1;
  ::poll(waits.data(), waits.size(), static_cast<int>(std::min<uint64_t>(wait_ms, 60'000)));
  if (waits[2].revents != 0) ReadErrors();
  return true;
}

ExchangeEnd LineExchange::Ask(std::string_view line, uint64_t deadline_ns, std::string& answer) {
  while (received_.size() <= line_bytes_max_ && ReadOutput() == Step::kMore) {
  }
  if (!received_.empty()) return ExchangeEnd::kUnasked;
  std::string sent(line);
  sent += '\n';
  size_t written = 0;
  size_t searched = 0;
  for (;;) {
    if (written < sent.size()) {
      const ssize_t put =
          ::send(input_, sent.data() + written, sent.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) written += static_cast<size_t>(put);
      // A child that is gone may have answered all the same: its output says.
      if (put < 0 && errno != EAGAIN && errno != EINTR) written = sent.size();
    }
    const Step step = ReadOutput();
    if (const size_t end = received_.find('\n', searched); end != std::string::npos) {
      if (end > line_bytes_max_) return ExchangeEnd::kTooLong;
      answer = received_.substr(0, end);
      received_.erase(0, end + 1);
      return ExchangeEnd::kAnswered;
    }
    searched = received_.size();
    if (received_.size() > line_bytes_max_) return ExchangeEnd::kTooLong;
    if (step == Step::kEnd) return ExchangeEnd::kClosed;
    if (step == Step::kError) return ExchangeEnd::kFailed;
    if (step == Step::kMore) {
      if (MonotonicNs() >= deadline_ns) return ExchangeEnd::kTimedOut;
      continue;
    }
    if (!Wait(written < sent.size(), deadline_ns)) return ExchangeEnd::kTimedOut;
  }
}

std::string LineExchange::LastWords() {
  ReadErrors();
  std::string_view text = error_tail_;
  const size_t last = text.find_last_not_of(" \r\n\t");
  if (last == std::string_view::npos) return {};
  text = text.substr(0, last + 1);
  const size_t begin = text.find_last_of('\n');
  return Printable(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

}  // namespace kvbed
