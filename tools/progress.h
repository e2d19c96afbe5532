// A progress line with rate and remaining time, on a terminal only; nothing otherwise.
#pragma once

#include <cstdint>
#include <string>

namespace kvbed {

class Progress {
 public:
  // `unit` as in "tokens". Shows nothing unless standard error is a terminal.
  Progress(std::string label, uint64_t total, std::string unit);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t done);

 private:
  const std::string label_;
  const uint64_t total_;
  const std::string unit_;
  const bool visible_;
  uint64_t started_ns_;
  uint64_t shown_ns_ = 0;
};

}  // namespace kvbed
