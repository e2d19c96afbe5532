// Memory that a child process can map too, by a name that lasts as long as this process. It can't
// be made smaller by the child, so that reading it is safe; what is in it the child may change at
// any time.
#pragma once

#include <cstdint>
#include <string>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

class SharedWindow {
 public:
  // `size_bytes` is a multiple of 4096.
  static Result<SharedWindow> Create(uint64_t size_bytes);
  SharedWindow(SharedWindow&& other) noexcept;
  SharedWindow& operator=(SharedWindow&&) = delete;
  ~SharedWindow();

  MutableBytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }  // "/proc/123/fd/7"

 private:
  SharedWindow() = default;
  int fd_ = -1;
  MutableBytes bytes_;
  std::string path_;
};

// Every 8 bytes of it are `stamp`. 4096-aligned pages of which nothing else is known.
void StampPages(MutableBytes pages, uint64_t stamp);
// Whether StampPages is all that was done to them.
bool AreStamped(Bytes pages, uint64_t stamp);
// The first page of which the end is still the stamp; the number of pages when there is none.
uint64_t FirstStampedPage(Bytes pages, uint64_t stamp);

}  // namespace kvbed
