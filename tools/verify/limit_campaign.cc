// Limits: a store under test with too little room, in three ways. It must refuse what doesn't fit,
// keep what it has, and take records again when some are gone.
#include <fmt/format.h>

#include <filesystem>

#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/fill_store.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_under_test.h"
#include "tools/verify/verify_child.h"
#include "tools/verify/verify_worker.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// Above what RocksDB's and a slab's own files take.
constexpr uint64_t kCapacityBytes = 8 << 20;
constexpr uint64_t kFileBytesMax = 1 << 20;
constexpr uint64_t kFilesystemBytes = 12 << 20;
// Of 256 KiB each: several times what there is room for.
constexpr uint64_t kSnapshotsMax = 80;
// More grow no file of a store whose files didn't meet the limit by then.
constexpr uint64_t kFileSnapshotsMax = 32;

void JudgeFill(const FillResult& fill, CaseResult& result) {
  ++result.faults_injected;
  result.served_wrong += fill.served_wrong;
  if (!fill.opened.ok()) {
    FailCase(result, "the store can't be made: " + fill.opened.ToString());
  } else if (!fill.problem.empty()) {
    FailCase(result, fill.problem, fill.finding);
  } else if (fill.refusal.ok()) {
    FailCase(result,
             fmt::format("with a capacity of {} bytes it took {} snapshots of {} bytes",
                         kCapacityBytes, fill.taken, kFillSnapshotBlocks * kFillRecordBytes));
  } else {
    ++result.faults_found;
  }
}

struct ChildFill {
  std::string refused;       // why the limit or the store can't be had, in the words of the child
  bool not_limited = false;  // nothing that the store did met the limit
};

Result<ChildFill> FillInChild(const CampaignOptions& options, const StoreSpec& spec,
                              const FillJob& job, CaseResult& result) {
  KVBED_ASSIGN_OR_RETURN(
      VerifyChild child,
      VerifyChild::Start(options.child_command, SpecWithSettings(spec, options.settings)));
  KVBED_RETURN_IF_ERROR(child.Send(job.Line()));
  ChildFill fill;
  std::string problem, failure = "it ended without a word";
  while (true) {
    KVBED_ASSIGN_OR_RETURN(const std::optional<std::string> line, child.Next());
    if (!line) break;
    if (line->starts_with(kJobRefused)) {
      fill.refused = line->substr(kJobRefused.size());
    } else if (line->starts_with(kJobSays)) {
      problem = line->substr(kJobSays.size());
    } else if (*line == kServedWrong) {
      ++result.served_wrong;
    } else if (line->starts_with(kJobFailed)) {
      failure = line->substr(kJobFailed.size());
    } else if (line->starts_with(kChangeDone) || *line == kNotLimited) {
      fill.not_limited = *line == kNotLimited;
      failure.clear();
    }
  }
  if (!fill.refused.empty()) return fill;
  result.faults_injected += fill.not_limited ? 0 : 1;
  if (child.end() != JobEnd{}) {
    FailCase(result, fmt::format("the process that used the store ended by {} {}",
                                 child.end().by_signal ? "signal" : "exit code", child.end().code));
  } else if (!problem.empty()) {
    FailCase(result, problem);
  } else if (!failure.empty()) {
    FailCase(result, failure);
  } else if (!fill.not_limited) {
    ++result.faults_found;
  }
  return fill;
}

// The folder that a small filesystem can take the place of: the store's own, or --damage-dir.
std::string StoreFolderOf(const CampaignOptions& options) {
  if (IsOverTheSeam(options.store->kind)) return options.store->path;
  return options.damage_folder.value_or("");
}

Status RunCapacity(const CampaignOptions& options, CaseResult& result) {
  if (!HasCapacityOption(options.store->kind)) {
    SkipCase(result, "the store takes no capacity= that would make it small");
    return Status::Ok();
  }
  StoreSpec small = *options.store;
  small.capacity_bytes = kCapacityBytes;
  if (!KeepsFiles(small.kind)) {
    SkipCase(result, "the store keeps nothing beyond its process");
    return Status::Ok();
  }
  JudgeFill(FillStore(options.open, small, options.settings,
                      {.seed = result.seed, .snapshots_max = kSnapshotsMax}),
            result);
  return Status::Ok();
}

Status RunFileSize(const CampaignOptions& options, CaseResult& result) {
  if (!KeepsFiles(options.store->kind)) {
    SkipCase(result, "the store keeps no files");
    return Status::Ok();
  }
  const FillJob job = {
      .seed = result.seed, .snapshots_max = kFileSnapshotsMax, .file_bytes_max = kFileBytesMax};
  StoreSpec spec = *options.store;
  // The memory that kvbed shares with it is a file to the kernel too.
  if (IsExternal(spec.kind)) spec.window_bytes = kFileBytesMax / 2;
  KVBED_ASSIGN_OR_RETURN(const ChildFill fill, FillInChild(options, spec, job, result));
  // That it can't even be made under the limit is an answer, and harms nobody.
  if (!fill.refused.empty()) {
    ++result.faults_injected;
    ++result.faults_found;
  } else if (fill.not_limited && !Failed(result)) {
    SkipCase(result, fmt::format("none of the store's files grew to {} bytes", kFileBytesMax));
  }
  return Status::Ok();
}

Status RunFullFilesystem(const CampaignOptions& options, CaseResult& result) {
  const std::string folder = StoreFolderOf(options);
  if (folder.empty()) {
    SkipCase(result, "no --damage-dir says where the store has its files");
    return Status::Ok();
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Status::IoError(fmt::format("make {}: {}", folder, error.message()));
  const FillJob job = {.seed = result.seed,
                       .snapshots_max = kSnapshotsMax,
                       .small_filesystem = folder,
                       .small_filesystem_bytes = kFilesystemBytes};
  KVBED_ASSIGN_OR_RETURN(const ChildFill fill, FillInChild(options, *options.store, job, result));
  if (!fill.refused.empty()) {
    SkipCase(result, "a store on a small filesystem can't be had: " + fill.refused);
  } else if (fill.not_limited && !Failed(result)) {
    SkipCase(result, fmt::format("the store keeps its records elsewhere than in {}", folder));
  }
  return Status::Ok();
}

struct LimitCase {
  const char* name;
  Status (*run)(const CampaignOptions&, CaseResult&);
};
constexpr LimitCase kLimitCases[] = {
    {"store/limit/capacity", RunCapacity},
    {"store/limit/file_size", RunFileSize},
    {"store/limit/full_filesystem", RunFullFilesystem},
};

}  // namespace

Status RunStoreLimits(const CampaignOptions& given, CaseLog& log) {
  constexpr std::string_view kPrefix = "store/limit/";
  if (!log.WantsBelow(kPrefix)) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(given));
  const CampaignOptions& options = under.options;
  if (!under.skipped.empty()) {
    SkipCampaign(log, kPrefix, CaseKind::kFault, under.skipped);
    return Status::Ok();
  }
  for (const LimitCase& one : kLimitCases) {
    if (!log.Wants(one.name)) continue;
    CaseResult result = log.Start(one.name, CaseKind::kFault);
    KVBED_RETURN_IF_ERROR(one.run(options, result).WithContext(one.name));
    // What a failed case left goes too, so that the next one finds the store as it was.
    if (result.status == CaseStatus::kPass) {
      const Status cleaned = CleanStore(options.open, *options.store, options.settings);
      if (!cleaned.ok()) FailCase(result, "afterwards: " + cleaned.ToString());
    }
    log.Finish(std::move(result));
  }
  return Status::Ok();
}

}  // namespace kvbed
