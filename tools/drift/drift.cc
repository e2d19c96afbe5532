// kvbed drift: what a recomputed cache differs by from the cached one, under each of some factors.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/drift/drift_json.h"
#include "tools/drift/drift_run.h"
#include "tools/drift/drift_text.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/option_values.h"
#include "tools/output.h"

namespace kvbed {
namespace {

constexpr const char* kDriftFooter =
    "An arm makes a cache by prefill in chunks and -n less one decode calls, then runs the same\n"
    "tokens once more in one call without a cache, and compares every K and V element bit for bit\n"
    "and every greedy token. With torch's kernels, as with those of ordinary engines, the two\n"
    "differ: a sum over many rows is taken in another order than one over a single row, so last\n"
    "bits differ and grow from layer to layer. That is rounding and never corruption: what a "
    "store\n"
    "did is the bytes verdict of `kvbed run`. The native kernels sum each row in one order, "
    "whatever\n"
    "runs beside it: their recomputed cache is the cached one, bit for bit.\n"
    "\n"
    "The base is the longest context, the first chunk, thread count and set of kernels; each "
    "other\n"
    "arm changes one of these. Arms with another chunk, thread count or set of kernels decode the\n"
    "tokens that the base picked, so that \"same as base\" says what that factor alone does to "
    "the\n"
    "cache. \"Begins\" is the shortest context of the list at which anything differs with the "
    "base's\n"
    "kernels, and the first position there.\n"
    "  same %      bit-identical elements; prompt and decode positions also apart\n"
    "  max |d|     largest difference; max ulp: how many values of the dtype further\n"
    "  flips       greedy tokens that the recompute would pick otherwise, each with both logits "
    "and\n"
    "              the gap between its top two: a gap of a few steps of the dtype is a near tie\n"
    "A position p picks the token of position p + 1. With --first-op each arm's two passes are\n"
    "compared operation by operation too: a product of one row and one of many are where the sums\n"
    "of ordinary kernels part. Its times don't count.\n"
    "\n"
    "Memory: K and V three times, and the activations of the longest context in one call. Each\n"
    "other chunk, thread count and set of kernels reads the weights again.\n"
    "\n"
    "Exit codes: 0 measured, however much it is; 1 above --fail-above; 2 usage; 4 I/O error,\n"
    "resource, or unusable input.\n"
    "\n"
    "Examples:\n"
    "  kvbed drift -m model.gguf --prompt-file book.txt -c 88-256+8 --prefill-chunk 1,64,256 \\\n"
    "    --threads 1,2\n"
    "  kvbed drift -m toy:8m -c 1k -n 64 --dtype fp32 -o json\n"
    "  kvbed drift -m model.gguf --prompt-file book.txt -c 128 --first-op\n"
    "  kvbed drift -m toy:8m -c 128 -n 1 --prefill-chunk 512,64   (prefill alone: -n 1)\n"
    "  kvbed drift -m model.gguf --prompt-file book.txt -c 4k --fail-above 0   (must be the same)\n"
    "  kvbed drift -m model.gguf --prompt-file book.txt -c 88-256+8 --kernels torch";

struct DriftCommandOptions {
  DriftOptions drift;
  OutputOptions output;
};

// Counts from 1 to `most`, each once.
auto CountsOf(std::string option, const char* example, uint64_t most) {
  return [option, example, most](const std::string& text) -> Result<std::vector<uint32_t>> {
    const auto parsed = ParseTokenCounts(text);
    if (!parsed.ok() || std::any_of(parsed->begin(), parsed->end(),
                                    [most](uint64_t count) { return count > most; })) {
      return Status::InvalidArgument(fmt::format(
          "{} takes numbers from 1 to {}, as in {}, not '{}'", option, most, example, text));
    }
    std::vector<uint32_t> counts;
    for (uint64_t count : *parsed) {
      const auto one = static_cast<uint32_t>(count);
      if (std::find(counts.begin(), counts.end(), one) == counts.end()) counts.push_back(one);
    }
    return counts;
  };
}

// Names of sets of kernels, each once. Which there are, the engine knows.
Result<std::vector<std::string>> ParseKernels(const std::string& text) {
  std::vector<std::string> sets;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    if (one != "native" && one != "torch") {
      return Status::InvalidArgument(
          fmt::format("--kernels takes native, torch, or both as in native,torch, not '{}'", text));
    }
    if (std::find(sets.begin(), sets.end(), one) == sets.end()) sets.push_back(std::move(one));
  }
  return sets;
}

Result<std::optional<double>> ParseLimit(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error == std::errc() && stop == end && value >= 0 && value < 100) return std::optional(value);
  return Status::InvalidArgument(fmt::format(
      "--fail-above takes the percent of K and V elements that may differ, from 0 (none) "
      "to less than 100, as in 0 or 2.5, not '{}'",
      text));
}

Result<int> RunDriftCommand(const DriftCommandOptions& options) {
  KeptPlaces kept = FilesOfModel(options.drift.model.model);
  kept.push_back(options.drift.prompt.prompt_file.value_or(""));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  KVBED_ASSIGN_OR_RETURN(const DriftRun run, RunDrift(options.drift));
  Json json = DriftRunJson(run);
  EnvironmentQuery query;
  query.seed = run.header.seed;
  query.model_fingerprint = run.model.digests->Fingerprint().ToHex();
  json["env"] = EnvironmentJson(ReadEnvironment(query));
  OutputOptions output = options.output;
  std::string shown;
  switch (output.format) {
    case OutputFormat::kText: shown = DriftText(run); break;
    case OutputFormat::kMarkdown: shown = DriftMarkdown(run); break;
    case OutputFormat::kCsv: shown = DriftCsv(run); break;
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines: break;
  }
  if (!shown.empty()) output.format = OutputFormat::kText;  // it is not JSON
  KVBED_RETURN_IF_ERROR(EmitResult(output, shown, json));
  return json.at("status") == "ok" ? kExitOk : kExitFailedCheck;
}

}  // namespace

void AddDriftCommand(CommandLine& line) {
  DriftCommandOptions& options = line.Own<DriftCommandOptions>();
  DriftOptions& drift = options.drift;
  OptionSet set = line.AddCommand(
      "drift", "measure what a recomputed cache differs by from the cached one, and why");
  set.Group("Factors: the first of a list is the base's, and each arm changes one");
  set.Parsed("-c,--ctx", "LIST",
             "prompt tokens: 4k, or 1k,4k, or 88-256+8 (k = 1024); the prompt is cut or repeated "
             "[the prompt's length]; the longest is the base's",
             drift.ctx_tokens, ParseTokenCounts);
  set.Parsed("--prefill-chunk", "LIST", "tokens of one prefill call: 512, or 1,64,256 [512]",
             drift.prefill_chunks, CountsOf("--prefill-chunk", "1,64,256", 1 << 20));
  set.Parsed("--threads", "LIST", "compute threads: 2, or 1,2 [as many as this process may run on]",
             drift.threads, CountsOf("--threads", "1,2", 1024));
  set.Parsed("--kernels", "LIST",
             "sets of compute kernels: native (kvbed's own), torch (libtorch's) [the default one, "
             "then the other where this build has it; with --fail-above the default one alone]",
             drift.kernels, ParseKernels);
  set.Group("Drift");
  AddNewTokensOption(set, drift.new_tokens);
  set.Parsed("--fail-above", "PERCENT",
             "exit with 1 when in an arm more than so many percent of the K and V elements differ; "
             "0: all must be the same [drift is no failure]",
             drift.fail_above_pct, ParseLimit);
  set.Flag("--first-op", drift.first_op,
           "name the first operation of the forward pass whose output differs, and in how many "
           "rows it came in both");
  set.Number("--seed", "seed of a toy's prompt [1]", drift.seed, 0, UINT64_MAX);
  AddModelSourceOptions(set, drift.model);
  AddPromptSourceOptions(set, drift.prompt);
  AddPoolOptions(set, drift.pool);
  AddOutputOptions(set, options.output, TableFormats::kTaken);
  set.Footer(kDriftFooter);
  line.SetFunction("drift", [&options] { return RunDriftCommand(options); });
}

}  // namespace kvbed
