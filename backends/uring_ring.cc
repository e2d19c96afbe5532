#include "backends/uring_ring.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

namespace kvbed {
namespace {

// The kernel takes at most 1 GiB in one registered buffer (man 2 io_uring_register).
constexpr uint64_t kRegisteredBytesMax = uint64_t{1} << 30;
constexpr uint32_t kFileSlots = 256;

struct FlagName {
  unsigned flag;
  const char* name;
};
constexpr std::array<FlagName, 3> kFlagNames{{
    {IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
    {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
    {IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},
}};
// Best first: Linux 6.1, 5.19, any.
constexpr std::array<unsigned, 3> kFlagChoices{
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};

std::string LimitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit);
}

std::string MemlockText() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "RLIMIT_MEMLOCK can't be read";
  return fmt::format("RLIMIT_MEMLOCK is {} soft, {} hard", LimitText(limit.rlim_cur),
                     LimitText(limit.rlim_max));
}

constexpr const char* kMemlockRemedy =
    "raise it with `ulimit -l`, memlock in /etc/security/limits.conf, LimitMEMLOCK= of the "
    "service, or --ulimit memlock of the container";

}  // namespace

std::string ExplainRefusal(int error) {
  const std::string what = fmt::format("io_uring_setup: {}", std::strerror(error));
  switch (error) {
    case EPERM: {
      std::string sysctl = "not there";
      std::ifstream("/proc/sys/kernel/io_uring_disabled") >> sysctl;
      return fmt::format(
          "{} (EPERM: a container's seccomp profile or security policy forbids io_uring, or sysctl "
          "kernel.io_uring_disabled, which is {} here, does; allow it there, or use "
          "ioengine=psync)",
          what, sysctl);
    }
    case ENOSYS:
      return what +
             " (ENOSYS: the kernel or the sandbox has no io_uring; Linux 5.6 or later has "
             "it; use ioengine=psync)";
    case EINVAL:
      return what +
             " (EINVAL: this kernel's io_uring is too old; Linux 5.6 or later is needed; use "
             "ioengine=psync)";
    case ENOMEM:
      return fmt::format("{} (ENOMEM: {}; before Linux 5.12 a ring counts against it: {})", what,
                         MemlockText(), kMemlockRemedy);
    default: return what;
  }
}

Result<std::unique_ptr<UringRing>> UringRing::Open(uint32_t entries, bool lendable,
                                                   RingFlags wanted) {
  auto ring = std::make_unique<UringRing>();
  int error = EINVAL;
  for (const unsigned flags : kFlagChoices) {
    if (wanted == RingFlags::kNone && flags != 0) continue;
    if (lendable && (flags & IORING_SETUP_SINGLE_ISSUER) != 0) continue;
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP;
    error = -io_uring_queue_init_params(entries, &ring->ring_, &params);
    if (error == 0) {
      ring->open_ = true;
      for (const FlagName& known : kFlagNames) {
        if ((params.flags & known.flag) != 0) ring->flags_.emplace_back(known.name);
      }
      return ring;
    }
    if (error != EINVAL) break;
  }
  return error == EMFILE || error == ENFILE ? StatusFromErrno(error, "io_uring_setup")
                                            : Status::NotSupported(ExplainRefusal(error));
}

UringRing::~UringRing() {
  if (open_) io_uring_queue_exit(&ring_);
}

uint32_t UringRing::in_flight_max() const {
  return std::min(ring_.sq.ring_entries, ring_.cq.ring_entries);
}

Status UringRing::RegisterBuffers(MutableBytes memory) {
  std::vector<iovec> pieces;
  for (uint64_t at = 0; at < memory.size(); at += kRegisteredBytesMax) {
    pieces.push_back({memory.data() + at, std::min(kRegisteredBytesMax, memory.size() - at)});
  }
  const int error =
      -io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (error == 0) {
    memory_ = memory;
    return Status::Ok();
  }
  std::string message =
      fmt::format("io_uring_register_buffers of {} bytes: {}", memory.size(), std::strerror(error));
  if (error == ENOMEM || error == EPERM) {
    message += fmt::format("; {} bytes must be locked and {}; {}", memory.size(), MemlockText(),
                           kMemlockRemedy);
  }
  return Status::NotSupported(std::move(message));
}

int UringRing::BufferIndex(Bytes bytes) const {
  if (bytes.data() < memory_.data() || bytes.data() >= memory_.data() + memory_.size()) return -1;
  const auto at = static_cast<uint64_t>(bytes.data() - memory_.data());
  const uint64_t index = at / kRegisteredBytesMax;
  const uint64_t piece_end = std::min((index + 1) * kRegisteredBytesMax, memory_.size());
  return bytes.size() <= piece_end - at ? static_cast<int>(index) : -1;
}

Status UringRing::RegisterFile(const File& file) {
  if (file_slots_ == 0) {
    rlimit limit{};
    uint32_t slots = kFileSlots;
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < slots) {
      slots = static_cast<uint32_t>(limit.rlim_cur);  // a larger table is refused
    }
    if (const int error = -io_uring_register_files_sparse(&ring_, slots); error != 0) {
      return Status::NotSupported(
          fmt::format("io_uring_register_files_sparse: {}", std::strerror(error)));
    }
    file_slots_ = slots;
  }
  if (files_.contains(&file)) return Status::Ok();
  const auto index = static_cast<uint32_t>(files_.size());
  if (index >= file_slots_) {
    return Status::NotSupported(fmt::format("only {} files can be registered", file_slots_));
  }
  int fd = file.fd();
  if (const int count = io_uring_register_files_update(&ring_, index, &fd, 1); count != 1) {
    return Status::NotSupported(fmt::format("io_uring_register_files_update of {}: {}", file.path(),
                                            std::strerror(count < 0 ? -count : EIO)));
  }
  files_[&file] = static_cast<int>(index);
  return Status::Ok();
}

int UringRing::FileIndex(const File& file) const {
  const auto found = files_.find(&file);
  return found == files_.end() ? -1 : found->second;
}

}  // namespace kvbed
