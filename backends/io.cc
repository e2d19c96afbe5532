#include "backends/io.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/posix_io.h"
#include "backends/uring_queue.h"

namespace kvbed {
namespace {

constexpr std::array<std::pair<IoEngine, std::string_view>, 3> kEngineNames{{
    {IoEngine::kAuto, "auto"},
    {IoEngine::kIoUring, "io_uring"},
    {IoEngine::kPsync, "psync"},
}};

}  // namespace

std::string_view IoEngineName(IoEngine engine) {
  for (const auto& [known, name] : kEngineNames) {
    if (known == engine) return name;
  }
  return "unknown";
}

Result<IoEngine> ParseIoEngine(std::string_view name) {
  for (const auto& [engine, known] : kEngineNames) {
    if (known == name) return engine;
  }
  return Status::InvalidArgument(
      fmt::format("'{}' is no I/O engine; there are auto, io_uring and psync", name));
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      direct_(std::exchange(other.direct_, false)),
      alignment_bytes_(std::exchange(other.alignment_bytes_, 1)),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(direct_, other.direct_);
  std::swap(alignment_bytes_, other.alignment_bytes_);
  path_.swap(other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

void IoQueueInfo::TakeOver(const IoQueueInfo& newer) {
  const uint32_t achieved = std::max(iodepth_achieved, newer.iodepth_achieved);
  const uint64_t all_calls = calls + newer.calls;
  *this = newer;
  iodepth_achieved = achieved;
  calls = all_calls;
}

Status MoveAlone(IoQueue& queue, IoRequest& request) {
  KVBED_CHECK(queue.outstanding() == 0);
  IoRequest* const requests[] = {&request};
  queue.Submit(requests);
  std::vector<IoRequest*> completed;
  KVBED_RETURN_IF_ERROR(queue.Reap(1, completed));
  return request.status;
}

Result<std::unique_ptr<Io>> OpenIo(IoEngine engine) {
  if (engine == IoEngine::kPsync) return MakePosixIo(engine, "psync was asked for");
  const Status uring = ProbeUring();
  if (uring.ok()) return MakePosixIo(IoEngine::kIoUring, "");
  if (engine == IoEngine::kIoUring) return uring.WithContext("the I/O engine io_uring");
  return MakePosixIo(IoEngine::kPsync, uring.message());
}

}  // namespace kvbed
