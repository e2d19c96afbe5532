#include "tools/verify/verify_worker.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <random>
#include <sstream>
#include <utility>

#include "backends/faulty_io.h"
#include "tools/verify/fill_store.h"
#include "tools/verify/snapshot_change.h"
#include "tools/write_all.h"

namespace kvbed {
namespace {

constexpr int kNone = -1;
constexpr int kWorkerFailed = 1;

// Each line is one write, so that a killed worker leaves no half of one.
class WorkerReport {
 public:
  explicit WorkerReport(int fd) : fd_(fd) {}
  void operator()(std::string_view kind, std::string_view text = {}) {
    std::string line = fmt::format("{}{}", kind, text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    WriteAll(fd_, AsBytes(line), "report").IgnoreError();
  }

 private:
  int fd_;
};

int Fail(WorkerReport& report, const Status& status) {
  report(kJobFailed, status.ToString());
  return kWorkerFailed;
}

Status MakeChange(BlockStore& store, const SnapshotChange& change, WorkerReport& report,
                  SnapshotStates& present) {
  report(kChangeBegins, change.Line());
  KVBED_RETURN_IF_ERROR(change.ApplyTo(store));
  report(kChangeDone);
  present[change.name] = change.state();
  return Status::Ok();
}

int RunChanges(std::istringstream& words, const WorkerContext& context, WorkerReport& report) {
  uint64_t seed = 0, first = 0, changes = 0;
  int target = kNone;
  int64_t after_us = kNone;
  words >> seed >> target >> first >> after_us >> changes;
  FaultPlan plan{.seed = seed};
  if (target != kNone) {
    plan.faults.push_back(
        {.kind = FaultKind::kKill, .target = static_cast<FaultTarget>(target), .first = first});
  }
  FaultDevice device(plan, {.power_cuts = false});
  const StoreSettings settings = EffectiveSettings(context.spec, context.settings);
  std::unique_ptr<Io> io;
  if (IsOverTheSeam(context.spec.kind)) {
    auto plain = OpenIo(settings.ioengine);
    if (!plain.ok()) return Fail(report, plain.status());
    io = MakeFaultyIo(std::move(*plain), device);
  }
  auto store = context.opener(std::move(io), context.spec,
                              {.access = StoreAccess::kWrite, .defaults = context.settings});
  if (!store.ok()) return Fail(report, store.status());
  auto present = ReadCampaignSnapshots(**store, "");
  if (!present.ok()) return Fail(report, present.status());
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < changes || after_us != kNone; ++i) {
    const SnapshotChange change = NextChange(random, *present);
    const Status made = MakeChange(**store, change, report, *present);
    if (!made.ok()) return Fail(report, made);
  }
  ::kill(::getpid(), SIGKILL);
  return kWorkerFailed;
}

// A filesystem of a few MiB that this process alone sees, and that goes with it.
Status MountSmallFilesystem(const std::string& path, uint64_t size_bytes) {
  if (::unshare(CLONE_NEWNS) != 0) return StatusFromErrno(errno, "unshare the mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return StatusFromErrno(errno, "make mounts private");
  }
  const std::string data = fmt::format("size={},mode=0700", size_bytes);
  if (::mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, data.c_str()) != 0) {
    return StatusFromErrno(errno, fmt::format("mount a tmpfs on {}", path));
  }
  return Status::Ok();
}

int RunFill(std::istringstream& words, const WorkerContext& context, WorkerReport& report) {
  FillJob job;
  words >> job.seed >> job.snapshots_max >> job.file_bytes_max >> job.small_filesystem_bytes;
  words.ignore(1);
  std::getline(words, job.small_filesystem);
  if (job.small_filesystem_bytes > 0) {
    const Status mounted = MountSmallFilesystem(job.small_filesystem, job.small_filesystem_bytes);
    if (!mounted.ok()) {
      report(kJobRefused, mounted.ToString());
      return 0;
    }
  }
  if (job.file_bytes_max > 0) {
    // A file that may not grow is an error of the write, not a death by signal.
    std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {job.file_bytes_max, job.file_bytes_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      return Fail(report, StatusFromErrno(errno, "setrlimit(RLIMIT_FSIZE)"));
    }
  }
  const FillResult result = FillStore(context.opener, context.spec, context.settings,
                                      {.seed = job.seed, .snapshots_max = job.snapshots_max});
  if (!result.opened.ok()) {
    report(kJobRefused, result.opened.ToString());
    return 0;
  }
  if (!result.problem.empty()) report(kJobSays, result.problem);
  for (uint64_t i = 0; i < result.served_wrong; ++i) report(kServedWrong);
  if (result.refusal.ok()) {
    report(kNotLimited);
  } else {
    report(kChangeDone, fmt::format(" {} {}", result.taken, result.refusal.ToString()));
  }
  return 0;
}

int RunShare(std::istringstream& words, const WorkerContext& context, WorkerReport& report) {
  uint64_t seed = 0, changes = 0;
  words >> seed >> changes;
  auto store = context.opener(nullptr, context.spec,
                              {.access = StoreAccess::kWrite, .defaults = context.settings});
  if (!store.ok()) {
    report(kJobRefused, store.status().ToString());
    return 0;
  }
  auto present = ReadCampaignSnapshots(**store, kOtherOwner);
  if (!present.ok()) return Fail(report, present.status());
  SnapshotOracle oracle;
  for (const auto& [name, state] : *present) oracle.Settle(name, state);
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < changes; ++i) {
    const SnapshotChange change = NextChange(random, *present);
    const Status made = oracle.Step(change.name, change.state(),
                                    [&] { return MakeChange(**store, change, report, *present); });
    if (!made.ok()) report(kChangeRefused, made.ToString());
    oracle.GoOn();
    present = ReadCampaignSnapshots(**store, kOtherOwner);
    if (!present.ok()) return Fail(report, present.status());
  }
  const std::string names = fmt::format("{}{}", kCampaignPrefix, kOtherOwner);
  const OracleVerdict verdict = oracle.Check(**store, {.prefix = names, .counts_records = false});
  if (!verdict.ok()) report(kJobSays, verdict.problem);
  for (uint64_t i = 0; i < verdict.served_wrong; ++i) report(kServedWrong);
  return 0;
}

}  // namespace

std::string ChangesJob::Line() const {
  return fmt::format("changes {} {} {} {} {}", seed, target ? static_cast<int>(*target) : kNone,
                     first, after_us ? static_cast<int64_t>(*after_us) : kNone, changes);
}

std::string FillJob::Line() const {
  return fmt::format("fill {} {} {} {} {}", seed, snapshots_max, file_bytes_max,
                     small_filesystem_bytes, small_filesystem);
}

std::string ShareJob::Line() const { return fmt::format("share {} {}", seed, changes); }

int RunVerifyWorker(const std::string& line, const WorkerContext& context) {
  WorkerReport report(context.report_fd);
  std::istringstream words(line);
  std::string job;
  words >> job;
  if (job == "changes") return RunChanges(words, context, report);
  if (job == "fill") return RunFill(words, context, report);
  if (job == "share") return RunShare(words, context, report);
  return Fail(report, Status::InvalidArgument(fmt::format("'{}' is no job", job)));
}

std::optional<std::chrono::microseconds> KilledAfter(const std::string& line) {
  std::istringstream words(line);
  std::string job;
  uint64_t seed = 0, first = 0;
  int target = kNone;
  int64_t after_us = kNone;
  words >> job >> seed >> target >> first >> after_us;
  if (job != "changes" || words.fail() || after_us == kNone) return std::nullopt;
  return std::chrono::microseconds(after_us);
}

}  // namespace kvbed
