#include "backends/shared_window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "offload/aligned_buffer.h"

namespace kvbed {

Result<SharedWindow> SharedWindow::Create(uint64_t size_bytes) {
  KVBED_CHECK(size_bytes > 0 && size_bytes % kPageBytes == 0);
  SharedWindow window;
  window.fd_ = ::memfd_create("kvbed-records", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (window.fd_ < 0) return StatusFromErrno(errno, "make memory to share with a store");
  if (::ftruncate(window.fd_, static_cast<off_t>(size_bytes)) != 0 ||
      ::fcntl(window.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return StatusFromErrno(errno, fmt::format("size the {} bytes shared with a store", size_bytes));
  }
  void* const at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, window.fd_, 0);
  if (at == MAP_FAILED) {
    return StatusFromErrno(errno, fmt::format("map the {} bytes shared with a store", size_bytes));
  }
  window.bytes_ = {static_cast<std::byte*>(at), size_bytes};
  window.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), window.fd_);
  return window;
}

SharedWindow::SharedWindow(SharedWindow&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      path_(std::move(other.path_)) {}

SharedWindow::~SharedWindow() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

void StampPages(MutableBytes pages, uint64_t stamp) {
  auto* const words = reinterpret_cast<uint64_t*>(pages.data());
  std::fill(words, words + pages.size() / sizeof(uint64_t), stamp);
}

bool AreStamped(Bytes pages, uint64_t stamp) {
  const auto* const words = reinterpret_cast<const uint64_t*>(pages.data());
  return std::all_of(words, words + pages.size() / sizeof(uint64_t),
                     [&](uint64_t word) { return word == stamp; });
}

uint64_t FirstStampedPage(Bytes pages, uint64_t stamp) {
  const uint64_t count = pages.size() / kPageBytes;
  for (uint64_t page = 0; page < count; ++page) {
    if (LoadLe<uint64_t>(pages, (page + 1) * kPageBytes - sizeof(uint64_t)) == stamp) return page;
  }
  return count;
}

}  // namespace kvbed
