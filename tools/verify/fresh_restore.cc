#include "tools/verify/fresh_restore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/open_store.h"
#include "tools/restore_json.h"
#include "tools/verify/seeded_kv.h"
#include "tools/verify/store_opener.h"

namespace kvbed {
namespace {

// The blocks before and after decoding on go to the parent as they are in the pool.
Status RestoreOne(BlockStore& store, const StoreSettings& settings, const std::string& name,
                  ResumeSender& sender, FreshRestore& fresh) {
  KVBED_ASSIGN_OR_RETURN(const Manifest manifest, store.ReadManifest(name));
  const uint64_t end = manifest.cached_tokens + kDecodedAfter;
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockPool> pool, MakePoisonedPool(manifest.geometry, end));
  fresh.poisoned = AllPoisoned(*pool);
  Sequence sequence(*pool, SeededIdentity(manifest.sequence_id));
  {
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                           store.OpenChannel({settings.iodepth, pool->memory()}));
    KVBED_ASSIGN_OR_RETURN(fresh.report, Restore(store, channel, manifest, sequence, {}));
  }
  KVBED_RETURN_IF_ERROR(sender.SendKv(ResumeStage::kRestorePoint, sequence));
  if (!fresh.report.whole()) return Status::Ok();
  KVBED_RETURN_IF_ERROR(GrowSeeded(sequence, end));
  return sender.SendKv(ResumeStage::kEnd, sequence);
}

}  // namespace

Status SendRestoredSnapshots(const StoreSpec& spec, const StoreSettings& settings,
                             std::span<const std::string> names, int fd) {
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store,
                         OpenStore(spec, {.access = StoreAccess::kRead, .defaults = settings}));
  ResumeSender sender(fd);
  for (const std::string& name : names) {
    FreshRestore fresh;
    fresh.status = RestoreOne(*store, settings, name, sender, fresh);
    RestoreSummary summary;
    summary.pid = ::getpid();
    summary.fresh_process = true;
    summary.restore = fresh.report;
    Json json = ResumeSummaryJson(summary, {});
    json["failure"] = fresh.status.ok() ? Json() : Json(fresh.status.message());
    json["poisoned"] = fresh.poisoned;
    KVBED_RETURN_IF_ERROR(sender.SendSummary(json));
  }
  return Status::Ok();
}

Status RestoreInFreshProcess(const StoreSpec& spec, const StoreSettings& settings,
                             std::span<const std::string> names, const FreshReceiver& receiver) {
  std::vector<std::string> arguments{"verify", "--store",
                                     SpecWithSettings(spec, settings).ToString()};
  for (const std::string& name : names) {
    arguments.insert(arguments.end(), {"--restore", name});
  }
  size_t snapshot = 0;
  ResumeReceiver from_child;
  from_child.on_block = [&](ResumeStage stage, uint64_t block, Bytes payload) {
    receiver.on_block(snapshot, stage, block, payload);
  };
  from_child.on_step = [](std::span<const float>, int32_t) {};
  from_child.on_summary = [&](const Json& json) -> Status {
    KVBED_ASSIGN_OR_RETURN(RestoreSummary summary, RestoreSummaryFromJson(json));
    FreshRestore fresh;
    fresh.report = std::move(summary.restore);
    fresh.poisoned = json.value("poisoned", false);
    if (json.contains("failure") && json["failure"].is_string()) {
      fresh.status = Status::IoError(json["failure"].get<std::string>());
    }
    if (snapshot < names.size()) receiver.on_snapshot(snapshot, std::move(fresh));
    ++snapshot;
    return Status::Ok();
  };
  KVBED_ASSIGN_OR_RETURN(const ResumedProcess process,
                         RunResumedProcess(std::move(arguments), from_child));
  if (process.exit_code == 0 && snapshot == names.size()) return Status::Ok();
  return Status::IoError(fmt::format(
      "the fresh process (pid {}) restored {} of {} snapshots and ended with exit code {}",
      process.pid, snapshot, names.size(), process.exit_code));
}

}  // namespace kvbed
