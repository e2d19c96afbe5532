// A restore in a fresh process: starts this program again as `kvbed resume`, and takes over a pipe
// what it restored and decoded. The child writes with ResumeSender, the parent reads with
// RunResumedProcess.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "offload/bytes.h"
#include "offload/offloader.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/result_json.h"

namespace kvbed {

enum class ResumeStage : uint32_t { kRestorePoint = 1, kEnd = 2 };

// The child's side. Every verb fails once the parent has gone.
class ResumeSender {
 public:
  explicit ResumeSender(int fd) : fd_(fd) {}

  // The payloads of all blocks, as they are now.
  Status SendKv(ResumeStage stage, const Sequence& sequence);
  Status SendStep(std::span<const float> logits, int32_t picked);
  Status SendSummary(const Json& summary);

 private:
  Status SendFrame(uint32_t type, uint64_t first, std::span<const Bytes> parts);
  int fd_;
};

// Where the parent wants what arrives. Each is called on the caller's thread, in the order of
// sending.
struct ResumeReceiver {
  std::function<void(ResumeStage, uint64_t block, Bytes payload)> on_block;
  std::function<void(std::span<const float> logits, int32_t picked)> on_step;
  std::function<Status(const Json&)> on_summary;
};

struct ResumedProcess {
  int pid = 0;
  int exit_code = 0;
};

// Runs `arguments` (without the program's name) as a new process of this executable, with
// "--report-fd N" added, and feeds `receiver` until it ends. An I/O error when it can't be started,
// breaks the protocol, or dies by a signal; its own exit code is the caller's to judge.
Result<ResumedProcess> RunResumedProcess(std::vector<std::string> arguments,
                                         const ResumeReceiver& receiver);

}  // namespace kvbed
