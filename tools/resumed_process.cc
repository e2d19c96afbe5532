#include "tools/resumed_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/interrupt.h"
#include "tools/write_all.h"

namespace kvbed {
namespace {

// A frame: type, an index or a token, the length, the bytes.
constexpr uint32_t kBlockAtRestorePoint = 1;
constexpr uint32_t kBlockAtEnd = 2;
constexpr uint32_t kStep = 3;
constexpr uint32_t kSummary = 4;
constexpr size_t kFrameHeaderBytes = 24;
constexpr uint64_t kFrameBytesMax = uint64_t{1} << 31;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { Close(); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

constexpr std::string_view kSend = "send to the process that started this one";

// False at the end of the stream before the first byte.
Result<bool> ReadAll(int fd, MutableBytes bytes) {
  size_t got = 0;
  while (got < bytes.size()) {
    if (Interrupted()) return InterruptedStatus();
    const ssize_t done = ::read(fd, bytes.data() + got, bytes.size() - got);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return StatusFromErrno(errno, "read from the fresh process");
    if (done == 0 && got == 0) return false;
    if (done == 0) return Status::IoError("the fresh process ended in the middle of its report");
    got += static_cast<size_t>(done);
  }
  return true;
}

Status Deliver(uint32_t type, uint64_t first, Bytes bytes, const ResumeReceiver& receiver) {
  switch (type) {
    case kBlockAtRestorePoint:
    case kBlockAtEnd:
      receiver.on_block(static_cast<ResumeStage>(type), first, bytes);
      return Status::Ok();
    case kStep: {
      // The buffer comes from operator new, so it is aligned for floats.
      const std::span<const float> logits(reinterpret_cast<const float*>(bytes.data()),
                                          bytes.size() / sizeof(float));
      receiver.on_step(logits, static_cast<int32_t>(first));
      return Status::Ok();
    }
    case kSummary: {
      const Json summary = Json::parse(AsText(bytes), nullptr, false);
      if (summary.is_discarded()) return Status::IoError("the fresh process sent a broken summary");
      return receiver.on_summary(summary);
    }
    default: return Status::IoError(fmt::format("the fresh process sent a frame of type {}", type));
  }
}

Status Receive(int fd, const ResumeReceiver& receiver) {
  std::vector<std::byte> payload;
  for (;;) {
    std::array<std::byte, kFrameHeaderBytes> header;
    KVBED_ASSIGN_OR_RETURN(const bool more, ReadAll(fd, header));
    if (!more) return Status::Ok();
    const auto size = LoadLe<uint64_t>(header, 16);
    if (size > kFrameBytesMax) return Status::IoError("the fresh process sent an oversized frame");
    payload.resize(size);
    if (size > 0) {
      KVBED_ASSIGN_OR_RETURN(const bool whole, ReadAll(fd, payload));
      if (!whole) return Status::IoError("the fresh process ended in the middle of its report");
    }
    KVBED_RETURN_IF_ERROR(
        Deliver(LoadLe<uint32_t>(header, 0), LoadLe<uint64_t>(header, 8), payload, receiver));
  }
}

}  // namespace

Status ResumeSender::SendFrame(uint32_t type, uint64_t first, std::span<const Bytes> parts) {
  uint64_t size = 0;
  for (Bytes part : parts) size += part.size();
  std::array<std::byte, kFrameHeaderBytes> header{};
  StoreLe<uint32_t>(header, 0, type);
  StoreLe<uint64_t>(header, 8, first);
  StoreLe<uint64_t>(header, 16, size);
  KVBED_RETURN_IF_ERROR(WriteAll(fd_, header, kSend));
  for (Bytes part : parts) KVBED_RETURN_IF_ERROR(WriteAll(fd_, part, kSend));
  return Status::Ok();
}

Status ResumeSender::SendKv(ResumeStage stage, const Sequence& sequence) {
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    const Bytes payload = sequence.pool().record(sequence.block_table()[block]).subspan(kPageBytes);
    KVBED_RETURN_IF_ERROR(SendFrame(static_cast<uint32_t>(stage), block, {{payload}}));
  }
  return Status::Ok();
}

Status ResumeSender::SendStep(std::span<const float> logits, int32_t picked) {
  return SendFrame(kStep, static_cast<uint64_t>(picked), {{std::as_bytes(logits)}});
}

Status ResumeSender::SendSummary(const Json& summary) {
  const std::string text = JsonLine(summary);
  return SendFrame(kSummary, 0, {{AsBytes(text)}});
}

Result<ResumedProcess> RunResumedProcess(std::vector<std::string> arguments,
                                         const ResumeReceiver& receiver) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return StatusFromErrno(errno, "make a pipe");
  Descriptor from(ends[0]), to(ends[1]);
  constexpr int kChildFd = 3;
  arguments.insert(arguments.begin(), "kvbed");
  arguments.push_back("--report-fd");
  arguments.push_back(std::to_string(kChildFd));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return StatusFromErrno(errno, "start a fresh process");
  if (pid == 0) {
    // Only async-signal-safe calls until exec.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (to.get() == kChildFd) {
      ::fcntl(kChildFd, F_SETFD, 0);
    } else if (::dup2(to.get(), kChildFd) < 0) {
      ::_exit(126);
    }
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  to.Close();
  const Status received = Receive(from.get(), receiver);
  if (!received.ok()) ::kill(pid, SIGTERM);
  from.Close();
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  KVBED_RETURN_IF_ERROR(received);
  if (!WIFEXITED(wait_status)) {
    return Status::IoError(fmt::format("the fresh process (pid {}) was ended by signal {}", pid,
                                       WTERMSIG(wait_status)));
  }
  if (WEXITSTATUS(wait_status) >= 126) {
    return Status::IoError("the fresh process could not be started: exec of /proc/self/exe failed");
  }
  return ResumedProcess{pid, WEXITSTATUS(wait_status)};
}

}  // namespace kvbed
