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
#include "tools/exit_code.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/restore_json.h"
#include "tools/resumed_process.h"
#include "tools/run_job.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "tools/store_access.h"
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

// A report, or the refusal of a snapshot that can't be judged here (exit code 3).
struct Outcome {
  RunReport report;
  std::string refusal;
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
    KVBED_RETURN_IF_ERROR(Load());
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
    KVBED_ASSIGN_OR_RETURN(named_, NameStore(options_.store));
    if (named_.spec.kind == StoreKind::kMemory) {
      return Status::InvalidArgument(
          "memory: holds nothing when the command starts: give slab:DIR");
    }
    const StoreAccess access = options_.save ? StoreAccess::kWrite : StoreAccess::kRead;
    KVBED_ASSIGN_OR_RETURN(store_, OpenNamed(named_, access, 0));
    if (named_.spec.snapshot.empty()) {
      return Status::InvalidArgument(fmt::format("--store {} names no snapshot: add #NAME; {}",
                                                 options_.store.spec, SnapshotNames(*store_)));
    }
    KVBED_ASSIGN_OR_RETURN(manifest_, store_->ReadManifest(named_.spec.snapshot));
    if (options_.save) {
      KVBED_RETURN_IF_ERROR(ValidateSnapshotName(*options_.save));
      KVBED_ASSIGN_OR_RETURN(const std::vector<ManifestSummary> snapshots, store_->ListManifests());
      for (const ManifestSummary& one : snapshots) {
        if (one.name != *options_.save || options_.replace) continue;
        return Status::InvalidArgument(fmt::format(
            "there is a snapshot {} already: save under another name, or --replace it", one.name));
      }
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
    model.kernels = options_.kernels.value_or(stored.kernel_set);
    // The snapshot's own, so that its numeric environment is met where this machine can.
    model.threads = options_.threads.value_or(
        std::min<uint32_t>(stored.threads, static_cast<uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN))));
    model.prefill_chunk = options_.prefill_chunk.value_or(std::max(1u, stored.prefill_chunk));
    KVBED_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(model));
    model_.emplace(std::move(loaded));
    RunReport& report = outcome_.report;
    report.load_ns = model_->load_ns;
    report.warnings = model_->files.warnings;
    report.model = DescribeModel(*model_, manifest_.geometry);
    report.environment = model_->engine.environment();
    report.header.seed = manifest_.sampler.seed;
    return Status::Ok();
  }

  // A snapshot of something else is not restored at all.
  bool Refused() {
    std::vector<std::string> differences;
    const ModelDigests& here = model_->digests;
    if (here.weights != manifest_.model.weights) differences.push_back("weights");
    if (here.config != manifest_.model.config) {
      differences.push_back(model_->engine.rope_identity() != manifest_.rope_identity
                                ? "config (RoPE parameters)"
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
    if (!differences.empty()) {
      outcome_.refusal = fmt::format(
          "snapshot {} was not made with this model: {} differ; it was made with {}, here is {}",
          manifest_.name, fmt::join(differences, ", "), manifest_.model_name, model_->files.name);
      return true;
    }
    if (ledger_) {
      match_ = MatchLedger(*ledger_, manifest_);
      if (!match_.foreign.empty()) {
        outcome_.refusal = fmt::format("ledger {} can't judge snapshot {}: {}",
                                       *options_.ledger_file, manifest_.name, match_.foreign);
        return true;
      }
    }
    return false;
  }

  Status RestoreSnapshot() {
    PoolOptions pool_options;
    pool_options.pool_bytes = options_.pool_bytes;
    KVBED_ASSIGN_OR_RETURN(pool_, MakePool(manifest_.geometry, pool_options,
                                           manifest_.cached_tokens + options_.new_tokens));
    outcome_.report.pool_bytes = pool_->memory().size();
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
    const bool comparable = ledger_ && ledger_->environment == outcome_.report.environment;
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
    if (ExitCodeOf(outcome_.report) != kExitOk) return Status::Ok();
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                           store_->OpenChannel({named_.settings.iodepth, pool_->memory()}));
    Manifest manifest = decoding_->Describe(*options_.save);
    OffloadOptions offload;
    offload.mode = options_.replace ? CommitMode::kReplace : CommitMode::kNew;
    offload.sync = named_.settings.sync == SyncMode::kFull;
    SnapshotReport saved;
    saved.name = *options_.save;
    StoreSpec spec = named_.spec;
    spec.snapshot = saved.name;
    saved.spec = spec.ToString();
    saved.at_decode_call = options_.new_tokens;
    saved.tokens = decoding_->sequence().cached_tokens();
    KVBED_ASSIGN_OR_RETURN(saved.offload,
                           Offload(*store_, channel, decoding_->sequence(), manifest, offload));
    outcome_.report.saved = std::move(saved);
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
  KVBED_RETURN_IF_ERROR(CheckSingleResultFormat(options.output));
  KVBED_ASSIGN_OR_RETURN(const Outcome outcome, ResumeJob(options).Run());
  if (!outcome.refusal.empty()) {
    fmt::print(stderr, "kvbed: {}\n", outcome.refusal);
    return kExitNoVerdict;
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
  AddNewTokensOption(set, options.new_tokens);
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
  set.Parsed("--pool-bytes", "SIZE", "memory for KV records [what the run needs]",
             options.pool_bytes,
             [](const std::string& text) { return ParseByteSize(text, "--pool-bytes"); });
  set.Required(AddStoreOptions(set, options.store));
  AddOutputOptions(set, options.output);
  set.Hide(number("--report-fd", "descriptor that `run --fresh-process` reads", options.report_fd));
  set.Footer(
      "Exit codes: 0 whole (and equal to the ledger); 1 a record failed a check or the run "
      "differs;\n"
      "2 usage; 3 the snapshot is of another model, or no verdict; 4 I/O error or unusable "
      "input.\n\n"
      "Example:\n"
      "  kvbed resume -m toy:8m --store slab:/data/kv#s1 -n 64 --ledger s1.json --save s2");
  line.SetFunction("resume", [&options] { return Run(options); });
}

}  // namespace kvbed
