// kvbed run: the main job.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/run_job.h"

namespace kvbed {
namespace {

Result<int> Run(const RunOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model.model);
  kept.push_back(options.prompt.prompt_file.value_or(""));
  kept.push_back(PathOfSpec(options.store.spec));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  KVBED_ASSIGN_OR_RETURN(const RunReport report, RunMainJob(options));
  Json json = RunJson(report);
  json["env"] = ReportEnvironmentJson(report);
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, RunText(report), json));
  return ExitCodeOf(report);
}

}  // namespace

void AddRunCommand(CommandLine& line) {
  RunOptions& options = line.Own<RunOptions>();
  OptionSet set = line.AddCommand(
      "run", "the main job: prefill, snapshot, restore, resume, compare bit for bit, drift");
  set.Group("Run");
  AddNewTokensOption(set, options.new_tokens);
  set.Parsed("--snapshot-at", "K", "snapshot after K decode calls, 0 is right after prefill [n/2]",
             options.snapshot_at, ParseTokenCountOrZero);
  set.Flag("--fresh-process", options.fresh_process,
           "restore in a new process (fork and exec), the store closed here");
  set.Flag("--no-drift", options.no_drift,
           "don't recompute the cache to measure drift, on no set of kernels");
  set.Parsed("--on-miss", "stop|recompute",
             "what a record that fails its checks leads to; exit code 1 in both cases [stop]",
             options.on_miss, ParseOnMiss);
  set.Parsed(
      "--inject", "KIND",
      "damage the stored snapshot to see the verdict fail: flip (a bit), swap (two records), "
      "stale (an older tail), truncate, shift, or skip (copy nothing)",
      options.injection, ParseInjection);
  set.Text("--before-restore", "COMMAND",
           "shell command between snapshot and restore, the store closed; prints to standard error",
           options.before_restore);
  AddModelOptions(set, options.model);
  AddPromptOptions(set, options.prompt);
  AddSamplingOptions(set, options.sampling);
  AddPoolOptions(set, options.pool);
  AddStoreOptions(set, options.store, StoreKinds::kAny);
  set.Text("--name", "NAME", "keep the snapshot under this name [run, run-2, ...]", options.name);
  set.Flag("--replace", options.replace, "replace a snapshot of that name");
  AddOutputOptions(set, options.output);
#ifdef KVBED_TEST_HOOKS
  set.Flag("--test-perturb-control", options.perturb_control,
           "test build: one logit of the control run is moved by one step");
#endif
  set.Footer(
      "Without --store the snapshot goes to a fresh folder below /var/tmp and is removed at the "
      "end.\n"
      "With -n 11 there are 10 decode calls: the last token is picked, but not cached.\n\n"
      "Drift, what a recomputed cache differs by, ends the report: of the run's own kernels, and "
      "of\n"
      "the other set where this build has it, for which the weights are read once more and the "
      "run's\n"
      "tokens run through it. It is rounding, no part of the verdict, and changes no exit code: "
      "kvbed\n"
      "drift measures it under other settings.\n\n"
      "Exit codes: 0 equal; 1 a record or the resumed run failed a check; 2 usage; 3 no verdict "
      "(two\n"
      "cached runs differ); 4 I/O error, resource, or unusable input.\n\n"
      "Examples:\n"
      "  kvbed run -m model.gguf --prompt \"The capital of France is\" -n 11\n"
      "  kvbed run -m toy:8m -c 1k -n 64 --store slab:/data/kv --fresh-process --json out.json\n"
      "  kvbed run -m model.gguf --prompt-file book.txt -c 4k -n 64 --inject flip");
  line.SetFunction("run", [&options] { return Run(options); });
}

}  // namespace kvbed
