// kvbed resume: restore a snapshot, decode on, and say whether it is the run that was stored.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "backends/byte_size.h"
#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/restore_json.h"
#include "tools/resumed_process.h"
#include "tools/run_job.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "tools/store_access.h"
#include "tools/take_snapshot.h"
#include "verify/kv_digest.h"
#include "verify/ledger.h"

namespace kvbed {
namespace {

struct ResumeCommandOptions {
  std::string model;
  std::optional<DType> dtype;
  std::optional<uint32_t> block_tokens;
  std::optional<uint32_t> threads;        // nullopt: the snapshot's
  std::optional<uint32_t> prefill_chunk;  // nullopt: the snapshot's
  std::optional<std::string> kernels;     // nullopt: the snapshot's
  std::optional<uint64_t> pool_bytes;
  StoreOptions store;
  OutputOptions output;
  uint64_t new_tokens = 32;
  OnMiss on_miss = OnMiss::kStop;
  std::optional<std::string> ledger_file;
  std::optional<std::string> save;
  bool replace = false;
  std::optional<uint32_t> report_fd;
};

// A report, or the refusal of a snapshot that is damaged (exit code 1) or can't be judged here (3).
struct Outcome {
  RunReport report;
  std::string refusal;
  int refusal_exit_code = kExitOk;
};

// One resume. The steps are called in the order in which they stand here.
class ResumeJob {
 public:
  explicit ResumeJob(const ResumeCommandOptions& options) : options_(options) {}

  Result<Outcome> Run() {
    const uint64_t start_ns = MonotonicNs();
    RunReport& report = outcome_.report;
    report.header = {"kvbed-run/1", CommandLineOfThisProcess(), 0, UnixNs()};
    KVBED_RETURN_IF_ERROR(OpenSnapshot());
    if (Refused()) return std::move(outcome_);
    KVBED_RETURN_IF_ERROR(MakeRoom());
    KVBED_RETURN_IF_ERROR(Load());
    CheckIsOfThisModel();
    if (Refused()) return std::move(outcome_);
    KVBED_RETURN_IF_ERROR(RestoreSnapshot());
    if (GoesOn()) KVBED_RETURN_IF_ERROR(DecodeOn());
    Judge();
    if (options_.save) KVBED_RETURN_IF_ERROR(Save());
    if (sender_) {
      KVBED_RETURN_IF_ERROR(
          sender_->SendSummary(ResumeSummaryJson(*report.restore, report.environment)));
    }
    report.huge_page_bytes = pool_->HugePageBytes();
    report.total_ns = MonotonicNs() - start_ns;
    return std::move(outcome_);
  }

 private:
  Status OpenSnapshot() {
    if (options_.replace && !options_.save) {
      return Status::InvalidArgument("--replace is about the snapshot of --save: give --save NAME");
    }
    KVBED_ASSIGN_OR_RETURN(named_, NameStore(options_.store));
    if (named_.spec.kind == StoreKind::kMemory) {
      return Status::InvalidArgument(
          "memory: holds nothing when the command starts: give slab:DIR");
    }
    const StoreAccess access = options_.save ? StoreAccess::kWrite : StoreAccess::kRead;
    if (options_.save) KVBED_RETURN_IF_ERROR(ValidateSnapshotName(*options_.save));
    auto opened = OpenNamed(named_, access, 0);
    if (opened.status().code() == StatusCode::kCorruption) {
      Refuse(kExitFailedCheck, opened.status().message());
      return Status::Ok();
    }
    KVBED_RETURN_IF_ERROR(opened.status());
    store_ = std::move(*opened);
    KVBED_RETURN_IF_ERROR(CheckHoldsSnapshots(*store_));
    if (named_.spec.snapshot.empty()) {
      return Status::InvalidArgument(fmt::format("--store {} names no snapshot: add #NAME; {}",
                                                 options_.store.spec, SnapshotNames(*store_)));
    }
    auto manifest = ReadSnapshot(*store_, named_.spec.snapshot);
    if (!manifest.ok()) {
      if (ExitCodeForSnapshot(manifest.status()) != kExitFailedCheck) return manifest.status();
      Refuse(kExitFailedCheck, fmt::format("snapshot {} is damaged: {}", named_.spec.snapshot,
                                           manifest.status().message()));
      return Status::Ok();
    }
    manifest_ = std::move(*manifest);
    if (options_.save) {
      KVBED_RETURN_IF_ERROR(CheckNameIsFree(*store_, *options_.save, options_.replace));
      WarnOfUnreadable(*store_, outcome_.report.warnings);
    }
    if (options_.ledger_file) {
      KVBED_ASSIGN_OR_RETURN(Ledger ledger, ReadLedger(*options_.ledger_file));
      ledger_.emplace(std::move(ledger));
    }
    if (options_.report_fd) sender_.emplace(static_cast<int>(*options_.report_fd));
    return Status::Ok();
  }

  Status Load() {
    const NumericEnvironment& stored = manifest_.environment;
    ModelOptions model;
    model.model = options_.model;
    model.dtype = options_.dtype.value_or(manifest_.geometry.dtype);
    // The snapshot's own, so that its numeric environment is met where this machine can.
    model.kernels = options_.kernels.value_or(stored.kernel_set);
    if (model.kernels == "native" && HasNativeArithmetic(model.dtype, stored.isa)) {
      model.isa = stored.isa;
    }
    model.threads = options_.threads.value_or(
        std::min<uint32_t>(stored.threads, static_cast<uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN))));
    model.prefill_chunk = options_.prefill_chunk.value_or(std::max(1u, stored.prefill_chunk));
    KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(model));
    KVBED_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(std::move(opened), model));
    model_.emplace(std::move(loaded));
    RunReport& report = outcome_.report;
    report.load_ns = model_->load_ns;
    report.warnings.insert(report.warnings.end(), model_->files.warnings.begin(),
                           model_->files.warnings.end());
    report.model = DescribeModel(*model_, manifest_.geometry);
    report.environment = model_->engine.environment();
    report.header.seed = manifest_.sampler.seed;
    return Status::Ok();
  }

  void Refuse(int exit_code, std::string why) {
    outcome_.refusal = std::move(why);
    outcome_.refusal_exit_code = exit_code;
  }
  bool Refused() const { return !outcome_.refusal.empty(); }

  // A snapshot of something else is not restored at all.
  void CheckIsOfThisModel() {
    std::vector<std::string> differences;
    const ModelDigests& here = model_->digests;
    if (here.weights != manifest_.model.weights) differences.push_back("weights");
    if (here.config != manifest_.model.config) {
      differences.push_back(model_->engine.rope_identity() != manifest_.rope_identity
                                ? fmt::format("config (RoPE parameters; here theta {})",
                                              model_->engine.config().rope_theta)
                                : "config");
    }
    if (here.tokenizer != manifest_.model.tokenizer) differences.push_back("tokenizer");
    if (model_->engine.dtype() != manifest_.geometry.dtype) {
      differences.push_back(fmt::format("dtype ({}, snapshot {})",
                                        DTypeName(model_->engine.dtype()),
                                        DTypeName(manifest_.geometry.dtype)));
    }
    if (options_.block_tokens && *options_.block_tokens != manifest_.geometry.block_tokens) {
      differences.push_back(fmt::format("block tokens ({}, snapshot {})", *options_.block_tokens,
                                        manifest_.geometry.block_tokens));
    }
    const bool same_model = here == manifest_.model;
    if (!differences.empty()) {
      Refuse(
          kExitNoVerdict,
          fmt::format("snapshot {} was not made {}: {} {}{}", manifest_.name,
                      same_model ? "with these options" : "with this model",
                      fmt::join(differences, ", "), differences.size() == 1 ? "differs" : "differ",
                      same_model ? std::string()
                                 : fmt::format("; it was made with {}, here is {}",
                                               manifest_.model_name, model_->files.name)));
      return;
    }
    if (!ledger_) return;
    match_ = MatchLedger(*ledger_, manifest_);
    if (match_.foreign.empty()) return;
    Refuse(
        kExitNoVerdict,
        fmt::format("ledger {} can't judge snapshot {}: it is of another {} (it was written for "
                    "snapshot {})",
                    *options_.ledger_file, manifest_.name, match_.foreign, ledger_->snapshot_name));
  }

  // Before the weights are read, so that a size that can't be used is told at once.
  Status MakeRoom() {
    PoolOptions pool_options;
    pool_options.pool_bytes = options_.pool_bytes;
    KVBED_ASSIGN_OR_RETURN(pool_, MakePool(manifest_.geometry, pool_options,
                                           manifest_.cached_tokens + options_.new_tokens));
    outcome_.report.pool_bytes = pool_->memory().size();
    if (!options_.save) return Status::Ok();
    // The full blocks are in the store already.
    const KvGeometry& geometry = manifest_.geometry;
    const uint64_t blocks = geometry.BlocksFor(manifest_.cached_tokens + options_.new_tokens);
    return CheckRoom(*store_, blocks - manifest_.cached_tokens / geometry.block_tokens,
                     geometry.record_bytes());
  }

  Status RestoreSnapshot() {
    // Memory fresh from the system is zero; poison tells "not copied" from "zeroes were stored".
    pool_->PoisonAll();
    Sequence sequence(
        *pool_, {manifest_.model.Fingerprint(), manifest_.rope_identity, manifest_.sequence_id});
    RestoreSummary summary;
    summary.pid = ::getpid();
    {
      KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                             store_->OpenChannel({named_.settings.iodepth, pool_->memory()}));
      KVBED_ASSIGN_OR_RETURN(summary.restore,
                             Restore(*store_, channel, manifest_, sequence, RestoreOptions{}));
    }
    outcome_.report.store = store_->info();
    KVBED_ASSIGN_OR_RETURN(Decoding decoding,
                           Decoding::Resume(*model_, std::move(sequence), manifest_, 0));
    decoding_.emplace(std::move(decoding));
    if (!summary.restore.whole() && options_.on_miss == OnMiss::kRecompute) {
      KVBED_RETURN_IF_ERROR(decoding_->RecomputeLost());
      summary.recomputed = true;
    }
    outcome_.report.restore = std::move(summary);
    return Status::Ok();
  }

  bool GoesOn() const {
    const RestoreSummary& summary = *outcome_.report.restore;
    return summary.restore.whole() || summary.recomputed;
  }

  Status DecodeOn() {
    if (sender_) {
      KVBED_RETURN_IF_ERROR(sender_->SendKv(ResumeStage::kRestorePoint, decoding_->sequence()));
      decoding_->SetObserver([this](std::span<const float> logits, TokenId picked) {
        return sender_->SendStep(logits, picked);
      });
    }
    const bool comparable =
        ledger_ && ledger_->environment.GivesTheBitsOf(outcome_.report.environment);
    if (ledger_) digests_.push_back({ledger_->kv_at_snapshot, DigestKv(decoding_->sequence())});
    const uint64_t ledger_steps = ledger_ ? ledger_->steps.size() : 0;
    const uint64_t first = std::min(options_.new_tokens, ledger_steps);
    KVBED_RETURN_IF_ERROR(decoding_->Decode(first, "resume"));
    if (comparable && first == ledger_steps && first > 0) {
      digests_.push_back({ledger_->kv_at_end, DigestKv(decoding_->sequence())});
    }
    KVBED_RETURN_IF_ERROR(decoding_->Decode(options_.new_tokens - first, "resume"));
    if (sender_) {
      KVBED_RETURN_IF_ERROR(sender_->SendKv(ResumeStage::kEnd, decoding_->sequence()));
    }
    RunReport& report = outcome_.report;
    report.restore->prefill_tokens_after_restore = model_->engine.counters().prefill_tokens;
    const auto resumed = std::span(decoding_->tokens()).subspan(manifest_.token_ids.size());
    report.resumed = ViewTokens(resumed, model_->files);
    report.resumed_text = DecodeText(resumed, model_->files);
    report.growth = decoding_->growth();
    report.prefill_ns = decoding_->prefill_ns();
    report.decode_ns = decoding_->decode_ns();
    return Status::Ok();
  }

  void Judge() {
    RunReport& report = outcome_.report;
    const RestoreReport& restore = report.restore->restore;
    report.bytes = ledger_ && GoesOn() ? JudgeBytesByDigests(restore, manifest_.geometry, digests_)
                                       : JudgeBytesByManifest(restore, true);
    for (const Finding& finding : match_.findings) {
      report.bytes->status = VerdictStatus::kDiffers;
      report.bytes->findings.push_back(finding);
    }
    report.logits = LogitsVerdict{};
    report.tokens = TokensVerdict{};
    if (!ledger_ || !GoesOn() || ledger_->steps.empty()) {
      report.logits->reason = !GoesOn()  ? "the restore failed, so nothing was resumed"
                              : !ledger_ ? "no --ledger: only the stored bytes were checked"
                                         : "the ledger has no steps (snapshot --expect N)";
      report.tokens->reason = report.logits->reason;
      return;
    }
    const TraceComparison steps = CompareTraces(LogitsTrace(ledger_->steps), 0, decoding_->trace());
    report.logits =
        JudgeLogits(steps, StepCounts::kMayDiffer, ledger_->environment, report.environment);
    report.tokens =
        JudgeTokens(steps, StepCounts::kMayDiffer, ledger_->environment, report.environment);
  }

  // Only a run without a finding is worth going on from.
  Status Save() {
    if (ExitCodeOf(outcome_.report) != kExitOk) {
      outcome_.report.not_saved_reason =
          fmt::format("{}: only a run without a finding is worth going on from", *options_.save);
      return Status::Ok();
    }
    KVBED_ASSIGN_OR_RETURN(TakenSnapshot taken,
                           TakeSnapshot(*store_, named_, *decoding_,
                                        {.name = *options_.save,
                                         .replace = options_.replace,
                                         .at_decode_call = options_.new_tokens}));
    outcome_.report.saved = std::move(taken.report);
    return Status::Ok();
  }

  const ResumeCommandOptions& options_;
  Outcome outcome_;
  NamedStore named_;
  std::unique_ptr<BlockStore> store_;
  Manifest manifest_;
  std::optional<Ledger> ledger_;
  LedgerMatch match_;
  std::optional<LoadedModel> model_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<Decoding> decoding_;
  std::vector<KvDigestPair> digests_;
  std::optional<ResumeSender> sender_;
};

Result<int> Run(const ResumeCommandOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model);
  kept.push_back(options.ledger_file.value_or(""));
  kept.push_back(PathOfSpec(options.store.spec));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  KVBED_ASSIGN_OR_RETURN(const Outcome outcome, ResumeJob(options).Run());
  if (!outcome.refusal.empty()) {
    Complain(outcome.refusal);
    return outcome.refusal_exit_code;
  }
  const RunReport& report = outcome.report;
  if (!options.report_fd) {
    Json json = RunJson(report);
    json["env"] = ReportEnvironmentJson(report);
    KVBED_RETURN_IF_ERROR(EmitResult(options.output, RunText(report), json));
  }
  return ExitCodeOf(report);
}

}  // namespace

void AddResumeCommand(CommandLine& line) {
  ResumeCommandOptions& options = line.Own<ResumeCommandOptions>();
  OptionSet set = line.AddCommand("resume", "restore a snapshot, verify it, and decode on");
  set.Group("Resume");
  set.Parsed("-n,--new-tokens", "N",
             fmt::format("tokens to decode on after the snapshot, 0 only restores [{}]",
                         options.new_tokens),
             options.new_tokens, ParseTokenCountOrZero);
  set.Text("--ledger", "FILE", "compare with the digests that `snapshot --ledger` wrote",
           options.ledger_file);
  set.Text("--save", "NAME", "snapshot the grown sequence for the next turn: writes what changed",
           options.save);
  set.Flag("--replace", options.replace, "replace a snapshot of --save's name");
  set.Parsed("--on-miss", "stop|recompute",
             "what a record that fails its checks leads to; exit code 1 in both cases [stop]",
             options.on_miss, ParseOnMiss);
  set.Group("Model");
  set.Required(
      set.Text("-m,--model", "MODEL", "the model that the snapshot was made with", options.model));
  set.Parsed("--dtype", "bf16|fp32", "must be the snapshot's [the snapshot's]", options.dtype,
             ParseDType);
  set.Text("--kernels", "SET", "set of compute kernels [the snapshot's]", options.kernels);
  const auto number = [&set](const std::string& name, const std::string& help,
                             std::optional<uint32_t>& value) {
    return set.Parsed(name, "N", help, value, [name](const std::string& text) -> Result<uint32_t> {
      KVBED_ASSIGN_OR_RETURN(const uint64_t count, ParseTokenCount(text));
      if (count <= 1 << 20) return static_cast<uint32_t>(count);
      return Status::InvalidArgument(fmt::format("{} {} is above {}", name, text, 1 << 20));
    });
  };
  number("--threads", "compute threads [the snapshot's]", options.threads);
  number("--prefill-chunk", "tokens of one prefill call [the snapshot's]", options.prefill_chunk);
  number("--block-tokens", "must be the snapshot's [the snapshot's]", options.block_tokens);
  set.Parsed("--pool-bytes", "SIZE",
             "memory for KV records, as in 1GiB (k, M, G are powers of 1000) [what the run needs]",
             options.pool_bytes,
             [](const std::string& text) { return ParseByteSize(text, "--pool-bytes"); });
  set.Required(AddStoreOptions(set, options.store, StoreKinds::kKept));
  AddOutputOptions(set, options.output);
  set.Hide(number("--report-fd", "descriptor that `run --fresh-process` reads", options.report_fd));
  set.Footer(
      "Drift, what a recomputed cache differs by, is no part of the verdict and isn't measured "
      "here:\n"
      "kvbed run and kvbed drift do.\n\n"
      "Exit codes: 0 whole (and equal to the ledger); 1 a record failed a check or the run "
      "differs;\n"
      "2 usage; 3 the snapshot is of another model, or no verdict; 4 I/O error or unusable "
      "input.\n\n"
      "Example:\n"
      "  kvbed resume -m toy:8m --store slab:/data/kv#s1 -n 64 --ledger s1.json --save s2");
  line.SetFunction("resume", [&options] { return Run(options); });
}

}  // namespace kvbed
