#include "tools/run_job.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "offload/clock.h"
#include "tools/drift/recompute_drift.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/restore_json.h"
#include "tools/resumed_process.h"
#include "tools/snapshot_damage.h"
#include "tools/take_snapshot.h"

namespace kvbed {
namespace {

// Logits are kept whole up to this; beyond, differing steps are told by their digests alone.
constexpr uint64_t kKeptLogitsBytesMax = uint64_t{512} << 20;

// One run. The steps are called in the order in which they stand here.
class MainJob {
 public:
  explicit MainJob(const RunOptions& options) : options_(options) {}

  Result<RunReport> Run() {
    const uint64_t start_ns = MonotonicNs();
    report_.header = {"kvbed-run/1", CommandLineOfThisProcess(), options_.sampling.seed, UnixNs()};
    KVBED_RETURN_IF_ERROR(CheckOptions());
    KVBED_RETURN_IF_ERROR(Prepare());
    if (Status damaged = RunAndDamage(); !damaged.ok()) {
      // Nobody else knows that name.
      if (options_.injection == Injection::kStale && store_) {
        store_->RemoveManifest(kOlderSnapshotName).IgnoreError();
      }
      return damaged;
    }
    KVBED_RETURN_IF_ERROR(options_.fresh_process ? RestoreInFreshProcess() : RestoreHere());
    KVBED_RETURN_IF_ERROR(MeasureDrift());
    report_.huge_page_bytes = pool_->HugePageBytes();
    report_.total_ns = MonotonicNs() - start_ns;
    return std::move(report_);
  }

 private:
  Status CheckOptions() {
    decode_calls_ = options_.new_tokens - 1;
    snapshot_call_ =
        options_.snapshot_at.value_or(std::min(decode_calls_, options_.new_tokens / 2));
    if (snapshot_call_ > decode_calls_) {
      return Status::InvalidArgument(fmt::format("--snapshot-at {}: -n {} has {} decode calls",
                                                 snapshot_call_, options_.new_tokens,
                                                 decode_calls_));
    }
    StoreOptions store = options_.store;
    if (store.spec.empty() && (!options_.name.empty() || options_.replace)) {
      return Status::InvalidArgument(
          "--name and --replace are about a snapshot that is kept: give --store too");
    }
    if (store.spec.empty()) {
      KVBED_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Create());
      temporary_.emplace(std::move(folder));
      store.spec = "slab:" + temporary_->path() + "/store";
    }
    KVBED_ASSIGN_OR_RETURN(store_name_, NameStore(store));
    if (!store_name_.spec.snapshot.empty()) {
      return Status::InvalidArgument("--store names a snapshot: give --name NAME and no #NAME");
    }
    const bool memory = store_name_.spec.kind == StoreKind::kMemory;
    if (memory && options_.fresh_process) {
      return Status::InvalidArgument(
          "--fresh-process needs a store that another process can open, not memory:");
    }
    if (memory && options_.injection != Injection::kNone &&
        options_.injection != Injection::kSkip) {
      return Status::InvalidArgument(
          "--inject damages a store's files, and memory: has none: give slab:DIR");
    }
    if (options_.injection == Injection::kSkip && options_.fresh_process) {
      return Status::InvalidArgument("--inject skip works in the same process only");
    }
    return Status::Ok();
  }

  // All that can be refused is looked at before the weights are read.
  Status Prepare() {
    // The control run's first decode call comes after all of the cached run's.
    const uint64_t perturb = options_.perturb_control ? decode_calls_ + 1 : 0;
    KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(options_.model));
    // Besides the pool, an image of the cached run is kept to compare with; that of another set of
    // kernels takes its place at the end.
    const uint64_t copies = store_name_.spec.kind == StoreKind::kMemory ? 3 : 2;
    KVBED_ASSIGN_OR_RETURN(
        Workload work,
        PrepareWorkload(opened.files, {options_.model, options_.prompt, options_.pool,
                                       options_.sampling.seed, decode_calls_, copies}));
    prompt_ = std::move(work.prompt);
    pool_ = std::move(work.pool);
    KVBED_RETURN_IF_ERROR(CheckStale(work.geometry));
    KVBED_RETURN_IF_ERROR(OpenForWriting());
    const uint64_t stored_tokens = prompt_.ids.size() + snapshot_call_;
    KVBED_RETURN_IF_ERROR(
        CheckRoom(*store_, work.geometry.BlocksFor(stored_tokens), work.geometry.record_bytes()));
    KVBED_ASSIGN_OR_RETURN(LoadedModel model,
                           LoadModel(std::move(opened), options_.model, perturb));
    model_.emplace(std::move(model));
    report_.load_ns = model_->load_ns;
    const auto warn = [this](const std::vector<std::string>& warnings) {
      report_.warnings.insert(report_.warnings.end(), warnings.begin(), warnings.end());
    };
    warn(model_->files.warnings);
    warn(prompt_.warnings);
    WarnOfUnreadable(*store_, report_.warnings);
    report_.prompt_text = prompt_.text;
    report_.prompt = ViewTokens(prompt_.ids, model_->files);
    cached_tokens_end_ = prompt_.ids.size() + decode_calls_;
    report_.pool_bytes = pool_->memory().size();
    report_.model = DescribeModel(*model_, work.geometry);
    report_.environment = model_->engine.environment();
    return Status::Ok();
  }

  // An earlier state of the tail block must exist to be put in its place.
  Status CheckStale(const KvGeometry& geometry) const {
    const uint64_t cached = prompt_.ids.size() + snapshot_call_;
    const bool grows = snapshot_call_ > 0 && (cached - 1) % geometry.block_tokens != 0;
    if (options_.injection != Injection::kStale || grows) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("--inject stale needs a tail block that a decode call has grown: {} tokens are "
                    "cached at the "
                    "snapshot, {} a block; choose another --snapshot-at or --block-tokens",
                    cached, geometry.block_tokens));
  }

  Status OpenForWriting() {
    const uint64_t record_bytes = pool_->geometry().record_bytes();
    name_ = options_.name.empty() ? "run" : options_.name;
    KVBED_RETURN_IF_ERROR(ValidateSnapshotName(name_));  // before a folder is made
    KVBED_ASSIGN_OR_RETURN(store_, OpenNamed(store_name_, StoreAccess::kCreate, record_bytes));
    KVBED_RETURN_IF_ERROR(CheckHoldsSnapshots(*store_));
    if (options_.name.empty()) {
      KVBED_ASSIGN_OR_RETURN(const std::vector<ManifestSummary> snapshots, store_->ListManifests());
      const auto taken = [&](const std::string& name) {
        return std::any_of(snapshots.begin(), snapshots.end(),
                           [&](const ManifestSummary& one) { return one.name == name; });
      };
      for (int number = 2; !options_.replace && taken(name_); ++number) {
        name_ = fmt::format("run-{}", number);
      }
    }
    KVBED_RETURN_IF_ERROR(CheckNameIsFree(*store_, name_, options_.replace));
    return CheckInjection(*store_, options_.injection, options_.store.spec);
  }

  Status RunAndDamage() {
    KVBED_RETURN_IF_ERROR(RunCached());
    KVBED_RETURN_IF_ERROR(RunControl());
    return DropAndDamage();
  }

  Status RunCached() {
    KVBED_ASSIGN_OR_RETURN(
        Decoding cached,
        Decoding::Start(*model_, *pool_, InitialSampler(options_.sampling), kKeptLogitsBytesMax));
    KVBED_RETURN_IF_ERROR(cached.Prefill(prompt_.ids));
    if (options_.injection == Injection::kStale) {
      KVBED_RETURN_IF_ERROR(cached.Decode(snapshot_call_ - 1, "decode"));
      KVBED_RETURN_IF_ERROR(Snapshot(cached, kOlderSnapshotName).status());
      KVBED_RETURN_IF_ERROR(cached.Decode(1, "decode"));
    } else {
      KVBED_RETURN_IF_ERROR(cached.Decode(snapshot_call_, "decode"));
    }
    snapshot_tokens_ = cached.sequence().cached_tokens();
    KVBED_ASSIGN_OR_RETURN(report_.snapshot, Snapshot(cached, name_));

    KVBED_RETURN_IF_ERROR(cached.Decode(decode_calls_ - snapshot_call_, "decode"));
    image_ = KvImage::CopyOf(cached.sequence());
    cached_trace_ = cached.trace();
    cached_tokens_ = cached.tokens();
    report_.growth = cached.growth();
    report_.prefill_ns = cached.prefill_ns();
    report_.decode_ns = cached.decode_ns();
    const auto generated = std::span(cached_tokens_).subspan(prompt_.ids.size());
    report_.generated = ViewTokens(generated, model_->files);
    report_.generated_text = DecodeText(generated, model_->files);
    return Status::Ok();
  }

  Result<SnapshotReport> Snapshot(Decoding& decoding, const std::string& name) {
    auto taken = TakeSnapshot(*store_, store_name_, decoding,
                              {.name = name,
                               .replace = options_.replace || name == kOlderSnapshotName,
                               .kept = !temporary_.has_value(),
                               .at_decode_call = snapshot_call_});
    report_.store = store_->info();
    if (!taken.ok()) return taken.status();
    return std::move(taken->report);
  }

  Status RunControl() {
    KVBED_ASSIGN_OR_RETURN(Decoding control,
                           Decoding::Start(*model_, *pool_, InitialSampler(options_.sampling), 0));
    KVBED_RETURN_IF_ERROR(control.Prefill(prompt_.ids));
    KVBED_RETURN_IF_ERROR(control.Decode(decode_calls_, "control run"));
    report_.control = JudgeControl(image_.Compare(control.sequence()),
                                   image_.ComparedBytesFor(cached_tokens_end_),
                                   CompareTraces(cached_trace_, 0, control.trace()));
    return Status::Ok();
  }

  // From here on the stored snapshot is all that is left of the cache, besides the image to compare
  // with.
  Status DropAndDamage() {
    pool_->PoisonAll();
    KVBED_CHECK(pool_->free_records() == pool_->records());
    if (options_.injection != Injection::kNone) {
      KVBED_ASSIGN_OR_RETURN(report_.injected, DamageSnapshot(*store_, name_, options_.injection,
                                                              options_.sampling.seed));
    }
    const bool memory = store_name_.spec.kind == StoreKind::kMemory;
    // A file store is closed, so that the restore has nothing but its files to go by.
    if (!memory) store_.reset();
    if (!options_.before_restore.empty()) KVBED_RETURN_IF_ERROR(RunCommand());
    if (!memory && !options_.fresh_process) {
      KVBED_ASSIGN_OR_RETURN(
          store_, OpenNamed(store_name_, StoreAccess::kRead, pool_->geometry().record_bytes()));
    }
    return Status::Ok();
  }

  Status RunCommand() const {
    const int status = std::system(("exec 1>&2\n" + options_.before_restore).c_str());
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::Ok();
    return Status::IoError(
        fmt::format("--before-restore: the command failed: {}", options_.before_restore));
  }

  // A snapshot whose manifest was damaged meanwhile: there is nothing to restore by.
  Status JudgeDamaged(int pid, const std::string& why) {
    RestoreSummary summary;
    summary.pid = pid;
    summary.fresh_process = options_.fresh_process;
    summary.restore.blocks = report_.snapshot->offload.blocks;
    Finding finding;
    finding.check = Check::kManifest;
    finding.first_token = 0;
    finding.token_count = snapshot_tokens_;
    finding.expected = "the snapshot's manifest";
    finding.actual = "a damaged one";
    finding.message = why;
    summary.restore.findings.push_back(std::move(finding));
    report_.restore = std::move(summary);
    Judge({}, nullptr, report_.environment);
    return Status::Ok();
  }

  Status RestoreHere() {
    auto read = store_->ReadManifest(name_);
    if (!read.ok() && ExitCodeForSnapshot(read.status()) == kExitFailedCheck) {
      return JudgeDamaged(::getpid(), read.status().message());
    }
    if (!read.ok()) return read.status();
    const Manifest manifest = std::move(*read);
    Sequence sequence(*pool_,
                      {manifest.model.Fingerprint(), manifest.rope_identity, manifest.sequence_id});
    RestoreSummary summary;
    summary.pid = ::getpid();
    {
      KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                             store_->OpenChannel({store_name_.settings.iodepth, pool_->memory()}));
      RestoreOptions restore;
      restore.skip_copy = options_.injection == Injection::kSkip;
      KVBED_ASSIGN_OR_RETURN(summary.restore,
                             Restore(*store_, channel, manifest, sequence, restore));
    }
    report_.store = store_->info();
    const uint64_t prefilled_before = model_->engine.counters().prefill_tokens;
    KVBED_ASSIGN_OR_RETURN(Decoding resumed, Decoding::Resume(*model_, std::move(sequence),
                                                              manifest, kKeptLogitsBytesMax));
    KvComparison kv;
    if (!summary.restore.whole() && options_.on_miss == OnMiss::kRecompute) {
      KVBED_RETURN_IF_ERROR(resumed.RecomputeLost());
      summary.recomputed = true;
    }
    const bool goes_on = summary.restore.whole() || summary.recomputed;
    if (goes_on) {
      kv.Merge(image_.Compare(resumed.sequence()));
      KVBED_RETURN_IF_ERROR(resumed.Decode(decode_calls_ - snapshot_call_, "resume"));
      kv.Merge(image_.Compare(resumed.sequence()));
    }
    summary.prefill_tokens_after_restore =
        model_->engine.counters().prefill_tokens - prefilled_before;
    report_.restore = std::move(summary);
    Judge(kv, goes_on ? &resumed.trace() : nullptr, model_->engine.environment());
    return Status::Ok();
  }

  std::vector<std::string> FreshProcessArguments() const {
    const NumericEnvironment environment = model_->engine.environment();
    StoreSpec spec = store_name_.spec;
    spec.snapshot = name_;
    std::vector<std::string> arguments{
        "resume",
        "--model",
        options_.model.model,
        "--store",
        spec.ToString(),
        "--iodepth",
        std::to_string(store_name_.settings.iodepth),
        "--ioengine",
        std::string(IoEngineName(store_name_.settings.ioengine)),
        "--direct",
        std::string(DirectModeName(store_name_.settings.direct)),
        "--kernels",
        environment.kernel_set,
        "--threads",
        std::to_string(environment.threads),
        "--prefill-chunk",
        std::to_string(environment.prefill_chunk),
        "--new-tokens",
        std::to_string(decode_calls_ - snapshot_call_),
    };
    if (options_.on_miss == OnMiss::kRecompute) {
      arguments.insert(arguments.end(), {"--on-miss", "recompute"});
    }
    return arguments;
  }

  Status RestoreInFreshProcess() {
    KvComparison kv;
    LogitsTrace trace(kKeptLogitsBytesMax);
    std::optional<RestoreSummary> summary;
    NumericEnvironment environment;
    ResumeReceiver receiver;
    receiver.on_block = [&](ResumeStage stage, uint64_t block, Bytes payload) {
      const uint64_t tokens =
          stage == ResumeStage::kRestorePoint ? snapshot_tokens_ : cached_tokens_end_;
      if (block < image_.geometry().BlocksFor(tokens)) {
        kv.Merge(image_.CompareBlock(block, payload, tokens));
      }
    };
    receiver.on_step = [&](std::span<const float> logits, int32_t picked) {
      trace.Append(logits, picked);
    };
    receiver.on_summary = [&](const Json& json) -> Status {
      KVBED_ASSIGN_OR_RETURN(RestoreSummary parsed, RestoreSummaryFromJson(json));
      KVBED_ASSIGN_OR_RETURN(environment, EnvironmentFromJson(json));
      summary = std::move(parsed);
      return Status::Ok();
    };
    KVBED_ASSIGN_OR_RETURN(const ResumedProcess process,
                           RunResumedProcess(FreshProcessArguments(), receiver));
    if (Interrupted()) return InterruptedStatus();
    if (!summary && process.exit_code == kExitFailedCheck) {
      return JudgeDamaged(process.pid,
                          "the fresh process found the snapshot damaged: its message stands above");
    }
    if (!summary) {
      return Status::IoError(fmt::format(
          "the fresh process (pid {}) restored nothing: it ended with exit code {}, its "
          "message stands above",
          process.pid, process.exit_code));
    }
    summary->pid = process.pid;
    summary->fresh_process = true;
    const bool goes_on = summary->restore.whole() || summary->recomputed;
    report_.restore = std::move(summary);
    Judge(kv, goes_on ? &trace : nullptr, environment);
    return Status::Ok();
  }

  // `trace` is null when the run stopped at the restore.
  void Judge(const KvComparison& kv, const LogitsTrace* trace,
             const NumericEnvironment& environment) {
    report_.bytes = JudgeBytes(
        report_.restore->restore, kv,
        image_.ComparedBytesFor(snapshot_tokens_) + image_.ComparedBytesFor(cached_tokens_end_));
    if (trace == nullptr) {
      LogitsVerdict logits;
      logits.reason = "the restore failed, so nothing was resumed";
      TokensVerdict tokens;
      tokens.reason = logits.reason;
      report_.logits = logits;
      report_.tokens = tokens;
      return;
    }
    const TraceComparison steps = CompareTraces(cached_trace_, snapshot_call_ + 1, *trace);
    report_.logits = JudgeLogits(steps, StepCounts::kMustAgree, report_.environment, environment);
    report_.tokens = JudgeTokens(steps, StepCounts::kMustAgree, report_.environment, environment);
    std::vector<TokenId> resumed;
    for (const LogitsStep& step : trace->StepsFrom(0)) resumed.push_back(step.token);
    report_.resumed = ViewTokens(resumed, model_->files);
    report_.resumed_text = DecodeText(resumed, model_->files);
  }

  Status MeasureDrift() {
    if (options_.no_drift) {
      report_.drift_skipped = "--no-drift";
      return Status::Ok();
    }
    if (report_.restore && !report_.restore->restore.whole()) {
      report_.drift_skipped = "the restore failed, and drift is no help in finding out why";
      return Status::Ok();
    }
    const uint64_t start_ns = MonotonicNs();
    {
      Sequence sequence = NewSequence();
      const CachedRun cached = {image_.view(), std::span(cached_tokens_).first(cached_tokens_end_),
                                prompt_.ids.size(), cached_trace_};
      KVBED_ASSIGN_OR_RETURN(report_.drift,
                             CompareWithRecompute(model_->engine, model_->files, cached, sequence));
    }
    report_.drift_ns = MonotonicNs() - start_ns;
    for (const std::string& kernels : KernelSets()) {
      if (kernels == report_.environment.kernel_set) continue;
      // It is no part of what was asked for: what stops it is told, and fails nothing.
      KernelsDrift arm;
      arm.kernels = kernels;
      const Status status = MeasureDriftOf(arm);
      if (Interrupted()) return InterruptedStatus();
      if (!status.ok()) arm.reason = status.message();
      report_.drift_arms.push_back(std::move(arm));
    }
    return Status::Ok();
  }

  // The same tokens, prompt and what the cached run picked, cached and recomputed on another set of
  // kernels. What was kept of the cached run makes room, and so does the engine.
  Status MeasureDriftOf(KernelsDrift& arm) {
    image_ = KvImage();
    cached_trace_ = LogitsTrace();
    ModelOptions options = options_.model;
    options.kernels = arm.kernels;
    options.isa.clear();  // of the other set
    KVBED_ASSIGN_OR_RETURN(arm.load_ns, ReopenEngine(*model_, options));
    const KvGeometry& geometry = pool_->geometry();
    KVBED_RETURN_IF_ERROR(
        CheckMemoryToRecompute(model_->engine.config(), geometry, cached_tokens_end_, 1));
    const auto tokens = std::span<const TokenId>(cached_tokens_).first(cached_tokens_end_);
    Progress bar("drift of " + arm.kernels, tokens.size(), "tokens");
    MadeCache made;
    {
      Sequence sequence = NewSequence();
      const TokensToCache to_cache = {tokens.first(prompt_.ids.size()), decode_calls_,
                                      tokens.subspan(prompt_.ids.size())};
      KVBED_ASSIGN_OR_RETURN(made, MakeCache(model_->engine, sequence, to_cache,
                                             [&bar](uint64_t done) { bar.Update(done); }));
    }
    arm.prefill_ns = made.prefill_ns;
    arm.decode_ns = made.decode_ns;
    arm.environment = model_->engine.environment();
    const uint64_t start_ns = MonotonicNs();
    Sequence recomputed = NewSequence();
    KVBED_ASSIGN_OR_RETURN(arm.drift, CompareWithRecompute(model_->engine, model_->files,
                                                           made.AsCachedRun(), recomputed));
    arm.recompute_ns = MonotonicNs() - start_ns;
    return Status::Ok();
  }

  Sequence NewSequence() {
    return {*pool_, {model_->digests.Fingerprint(), model_->engine.rope_identity(), RandomId()}};
  }

  const RunOptions& options_;
  RunReport report_;
  uint64_t decode_calls_ = 0;
  uint64_t snapshot_call_ = 0;
  uint64_t snapshot_tokens_ = 0;              // cached at the snapshot
  uint64_t cached_tokens_end_ = 0;            // cached at the end of the run
  std::optional<TemporaryFolder> temporary_;  // outlives the store in it
  NamedStore store_name_;
  std::string name_;
  std::optional<LoadedModel> model_;
  Prompt prompt_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<BlockStore> store_;
  KvImage image_;                       // of the cached run, at its end
  LogitsTrace cached_trace_;            // set by the cached run
  std::vector<TokenId> cached_tokens_;  // the last one pending
};

}  // namespace

Result<OnMiss> ParseOnMiss(const std::string& text) {
  if (text == "stop") return OnMiss::kStop;
  if (text == "recompute") return OnMiss::kRecompute;
  return Status::InvalidArgument(
      fmt::format("--on-miss takes one of stop, recompute, not '{}'", text));
}

Result<RunReport> RunMainJob(const RunOptions& options) { return MainJob(options).Run(); }

}  // namespace kvbed
