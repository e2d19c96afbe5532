// kvbed snapshot: prefill and decode, commit a snapshot, and write down what a resume must give.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/prompt.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "tools/store_access.h"
#include "tools/take_snapshot.h"
#include "verify/kv_digest.h"
#include "verify/ledger.h"

namespace kvbed {
namespace {

struct SnapshotCommandOptions {
  ModelOptions model;
  PoolOptions pool;
  PromptOptions prompt;
  SamplingOptions sampling;
  StoreOptions store;
  OutputOptions output;
  uint64_t new_tokens = 16;
  uint64_t expect = 0;
  std::string name;
  bool replace = false;
  std::optional<std::string> ledger_file;
};

Result<RunReport> Snapshot(const SnapshotCommandOptions& options) {
  const uint64_t start_ns = MonotonicNs();
  RunReport report;
  report.header = {"kvbed-run/1", CommandLineOfThisProcess(), options.sampling.seed, UnixNs()};
  if (options.expect > 0 && !options.ledger_file) {
    return Status::InvalidArgument("--expect writes what it finds to a ledger: give --ledger FILE");
  }
  KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options.store));
  if (named.spec.kind == StoreKind::kMemory) {
    return Status::InvalidArgument(
        "memory: is gone when the command ends: give slab:DIR, or use `kvbed run`");
  }
  if (!named.spec.snapshot.empty()) {
    return Status::InvalidArgument("--store names a snapshot: give --name NAME and no #NAME");
  }
  KVBED_RETURN_IF_ERROR(ValidateSnapshotName(options.name));
  KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(options.model));
  const uint64_t decode_calls = options.new_tokens - 1;
  KVBED_ASSIGN_OR_RETURN(
      const Workload work,
      PrepareWorkload(opened.files, {options.model, options.prompt, options.pool,
                                     options.sampling.seed, decode_calls + options.expect}));
  const Prompt& prompt = work.prompt;
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<BlockStore> store,
                         OpenNamed(named, StoreAccess::kCreate, work.geometry.record_bytes()));
  KVBED_RETURN_IF_ERROR(CheckHoldsSnapshots(*store));
  KVBED_RETURN_IF_ERROR(CheckNameIsFree(*store, options.name, options.replace));
  KVBED_RETURN_IF_ERROR(CheckRoom(*store, work.geometry.BlocksFor(prompt.ids.size() + decode_calls),
                                  work.geometry.record_bytes()));
  KVBED_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(std::move(opened), options.model));
  report.load_ns = model.load_ns;
  report.warnings = model.files.warnings;
  report.warnings.insert(report.warnings.end(), prompt.warnings.begin(), prompt.warnings.end());
  WarnOfUnreadable(*store, report.warnings);
  report.prompt_text = prompt.text;
  report.prompt = ViewTokens(prompt.ids, model.files);
  report.pool_bytes = work.pool->memory().size();
  report.model = DescribeModel(model, work.geometry);
  report.environment = model.engine.environment();

  KVBED_ASSIGN_OR_RETURN(Decoding decoding,
                         Decoding::Start(model, *work.pool, InitialSampler(options.sampling), 0));
  KVBED_RETURN_IF_ERROR(decoding.Prefill(prompt.ids));
  KVBED_RETURN_IF_ERROR(decoding.Decode(decode_calls, "decode"));
  const auto generated = std::span(decoding.tokens()).subspan(prompt.ids.size());
  report.generated = ViewTokens(generated, model.files);
  report.generated_text = DecodeText(generated, model.files);
  report.growth = decoding.growth();

  KVBED_ASSIGN_OR_RETURN(const TakenSnapshot taken, TakeSnapshot(*store, named, decoding,
                                                                 {.name = options.name,
                                                                  .replace = options.replace,
                                                                  .at_decode_call = decode_calls}));
  report.snapshot = taken.report;
  report.store = store->info();
  if (options.ledger_file) {
    Ledger ledger = LedgerOf(taken.manifest);
    ledger.store_spec = taken.report.spec;
    ledger.kv_at_snapshot = DigestKv(decoding.sequence());
    KVBED_RETURN_IF_ERROR(decoding.Decode(options.expect, "expect"));
    ledger.steps = decoding.trace().StepsFrom(options.new_tokens);
    ledger.kv_at_end = DigestKv(decoding.sequence());
    if (Status written = ReplaceFile(*options.ledger_file, EncodeLedger(ledger)); !written.ok()) {
      return written.WithContext(
          fmt::format("snapshot {} is committed, but its ledger isn't written (take it again with "
                      "--replace)",
                      options.name));
    }
  }
  report.prefill_ns = decoding.prefill_ns();
  report.decode_ns = decoding.decode_ns();
  report.huge_page_bytes = work.pool->HugePageBytes();
  report.total_ns = MonotonicNs() - start_ns;
  return report;
}

Result<int> Run(const SnapshotCommandOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model.model);
  kept.push_back(options.prompt.prompt_file.value_or(""));
  kept.push_back(PathOfSpec(options.store.spec));
  if (options.ledger_file) {
    KVBED_RETURN_IF_ERROR(
        CheckOutputFile("--ledger", *options.ledger_file, OutputKind::kRegular, kept));
    kept.push_back(*options.ledger_file);
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  KVBED_ASSIGN_OR_RETURN(const RunReport report, Snapshot(options));
  Json json = RunJson(report);
  json["env"] = ReportEnvironmentJson(report);
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, RunText(report), json));
  return kExitOk;
}

}  // namespace

void AddSnapshotCommand(CommandLine& line) {
  SnapshotCommandOptions& options = line.Own<SnapshotCommandOptions>();
  OptionSet set = line.AddCommand("snapshot", "prefill, decode and commit a snapshot to a store");
  set.Group("Snapshot");
  AddNewTokensOption(set, options.new_tokens);
  set.Required(set.Text("--name", "NAME", "the snapshot's name: 1 to 128 of A-Z a-z 0-9 . _ -",
                        options.name));
  set.Flag("--replace", options.replace, "replace a snapshot of that name");
  set.Text("--ledger", "FILE",
           "write the digests that a resume must give to FILE, outside the store; replaces FILE",
           options.ledger_file);
  set.Parsed("--expect", "N",
             "decode N more tokens in memory after the snapshot and write their ids, logits and KV "
             "digests to the ledger [0]",
             options.expect, ParseTokenCount);
  AddModelOptions(set, options.model);
  AddPromptOptions(set, options.prompt);
  AddSamplingOptions(set, options.sampling);
  AddPoolOptions(set, options.pool);
  set.Required(AddStoreOptions(set, options.store, StoreKinds::kKept));
  AddOutputOptions(set, options.output);
  set.Footer(
      "Exit codes: 0 committed; 2 usage, or the name is taken; 4 I/O error, disk full, unusable "
      "input.\n\n"
      "Example:\n"
      "  kvbed snapshot -m toy:8m -n 16 --store slab:/data/kv --name s1 --ledger s1.json --expect "
      "64");
  line.SetFunction("snapshot", [&options] { return Run(options); });
}

}  // namespace kvbed
