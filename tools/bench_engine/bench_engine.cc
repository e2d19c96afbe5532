// kvbed bench-engine: how fast the engine prefills and decodes, beside what the machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "offload/clock.h"
#include "tools/bench/row_writer.h"
#include "tools/bench_engine/engine_cells.h"
#include "tools/bench_engine/engine_row.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_report.h"
#include "tools/session.h"

namespace kvbed {
namespace {

constexpr const char* kEngineFooter =
    "A prefill cell runs -r prompts of so many tokens, each from an empty cache. A decode cell\n"
    "fills a context with seeded K and V and runs -n decode calls of the batch, each of which is\n"
    "one sample; warm-ups aren't counted. tok/s is of the median sample.\n"
    "\n"
    "\"of stream\" compares the weights and the K and V that a decode call reads with what all\n"
    "threads read from memory right before and after (a pass over more than the caches hold);\n"
    "\"of peak\" compares the multiplications and additions with a product that stays in the\n"
    "caches, by the native kernels. A decode of one sequence is bound by the first, a prefill by\n"
    "the second. Token values don't matter to the time.\n"
    "\n"
    "Examples:\n"
    "  kvbed bench-engine -p 512,2048 -n 128 -c 0,2048,8192 -b 1,8,32 -m model.gguf\n"
    "  kvbed bench-engine -m model.gguf --kernels torch -o json\n"
    "  kvbed bench-engine -m model.gguf -p 512 -c 128 --isa avx2 --threads 1\n"
    "  kvbed bench-engine -m model.gguf -c 128 -b 1 --busy-threads 0,2   (does it collapse?)\n"
    "Exit codes: 0 measured; 2 usage; 4 resource, or unusable input.";

struct BenchEngineOptions {
  ModelOptions model;
  std::vector<uint64_t> prompts = {512};
  std::vector<uint64_t> contexts = {128, 2048};
  std::vector<uint64_t> batches = {1, 8};
  std::vector<uint64_t> busy_threads = {0};
  uint64_t calls = 64;
  uint64_t repetitions = 5;
  uint32_t block_tokens = 16;
  uint64_t seed = 1;
  OutputOptions output;
  std::optional<std::string> out_file;

  BenchEngineOptions() {
    model.model = "toy:62m";
    output.format = OutputFormat::kMarkdown;
  }
};

std::vector<EngineCell> CellsOf(const BenchEngineOptions& options) {
  std::vector<EngineCell> cells;
  // Alone and beside busy threads right after each other: a machine's pace changes.
  const auto add = [&](EngineCell cell) {
    for (const uint64_t busy : options.busy_threads) {
      cell.busy_threads = static_cast<uint32_t>(busy);
      cells.push_back(cell);
    }
  };
  for (const uint64_t prompt : options.prompts) {
    add({.phase = EnginePhase::kPrefill, .prompt_tokens = prompt, .samples = options.repetitions});
  }
  for (const uint64_t ctx : options.contexts) {
    for (const uint64_t batch : options.batches) {
      add({.phase = EnginePhase::kDecode,
           .ctx_tokens = ctx,
           .batch = batch,
           .samples = options.calls});
    }
  }
  return cells;
}

// All of them now, not after minutes of those before.
Status CheckCellsFit(const std::vector<EngineCell>& cells, const KvGeometry& geometry) {
  for (const EngineCell& cell : cells) {
    KVBED_RETURN_IF_ERROR(CheckMemoryFor(cell.tokens_max(),
                                         geometry.record_bytes() / geometry.block_tokens + 1,
                                         fmt::format("K and V of {} sequences of {} tokens",
                                                     cell.batch, cell.tokens_max() / cell.batch)));
  }
  return Status::Ok();
}

std::string ShownRow(OutputFormat format, const Json& row, bool first) {
  switch (format) {
    case OutputFormat::kText: return (first ? EngineHeadLine(row) : "") + EngineRowText(row);
    case OutputFormat::kMarkdown:
      return (first ? EngineHeadLine(row) + "\n" + EngineColumns().MarkdownHead() : "") +
             EngineColumns().MarkdownLine(row);
    case OutputFormat::kCsv:
      return (first ? EngineColumns().CsvHead() : "") + EngineColumns().CsvLine(row);
    default: return "";
  }
}

class BenchEngineRun {
 public:
  BenchEngineRun(const BenchEngineOptions& options, LoadedModel model)
      : options_(options), model_(std::move(model)), writer_(options.output, options.out_file) {
    context_.header = {"kvbed-engine/1", CommandLineOfThisProcess(), options.seed, UnixNs()};
    context_.block_tokens = options.block_tokens;
    context_.model = ModelJson(DescribeModel(model_, model_.engine.Geometry(options.block_tokens)));
  }

  Status Run(const std::vector<EngineCell>& cells) {
    const NumericEnvironment environment = model_.engine.environment();
    auto peaks = MachinePeaks::Open(options_.model.dtype, environment.threads, options_.model.isa);
    if (!peaks.ok() && peaks.status().code() != StatusCode::kNotSupported) return peaks.status();
    if (!peaks.ok()) context_.no_peaks_reason = peaks.status().message();
    Status stopped;
    for (const EngineCell& cell : cells) {
      stopped = RunCell(cell, peaks.ok() ? &*peaks : nullptr);
      if (!stopped.ok()) break;
    }
    KVBED_RETURN_IF_ERROR(writer_.Finish());
    return stopped;
  }

 private:
  Status RunCell(const EngineCell& cell, MachinePeaks* peaks) {
    Result<EngineMeasurement> measured = [&] {
      Progress bar(cell.phase == EnginePhase::kPrefill
                       ? fmt::format("prefill {}", cell.prompt_tokens)
                       : fmt::format("decode {} x {}", cell.ctx_tokens, cell.batch),
                   cell.samples, "samples");
      uint64_t done = 0;
      return MeasureEngineCell(model_.engine, cell, options_.block_tokens, options_.seed, peaks,
                               [&] {
                                 bar.Update(std::min(++done, cell.samples));
                                 return !Interrupted();
                               });
    }();
    KVBED_RETURN_IF_ERROR(measured.status());
    EnvironmentQuery query;
    query.seed = options_.seed;
    context_.env = EnvironmentJson(ReadEnvironment(query));
    const Json row = EngineRowJson(*measured, model_.engine, context_);
    return writer_.Add({&row, 1}, ShownRow(writer_.format(), row, writer_.empty()));
  }

  const BenchEngineOptions& options_;
  LoadedModel model_;
  RowWriter writer_;
  EngineRowContext context_;
};

Result<int> Run(const BenchEngineOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model.model);
  if (options.out_file) {
    KVBED_RETURN_IF_ERROR(CheckOutputFile("--out", *options.out_file, OutputKind::kAny, kept));
    kept.push_back(*options.out_file);
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  const std::vector<EngineCell> cells = CellsOf(options);
  KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(options.model));
  KVBED_RETURN_IF_ERROR(CheckCellsFit(
      cells, GeometryOf(opened.files.config, options.model.dtype, options.block_tokens)));
  KVBED_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(std::move(opened), options.model));
  KVBED_RETURN_IF_ERROR(BenchEngineRun(options, std::move(model)).Run(cells));
  return kExitOk;
}

// As ParseTokenCounts, and 0 in the first place: a decode may begin with an empty cache.
Result<std::vector<uint64_t>> ParseCountsAndZero(const std::string& text) {
  if (text == "0") return std::vector<uint64_t>{0};
  if (!text.starts_with("0,")) return ParseTokenCounts(text);
  KVBED_ASSIGN_OR_RETURN(std::vector<uint64_t> rest, ParseTokenCounts(text.substr(2)));
  rest.insert(rest.begin(), 0);
  return rest;
}

}  // namespace

void AddBenchEngineCommand(CommandLine& line) {
  BenchEngineOptions& options = line.Own<BenchEngineOptions>();
  OptionSet set = line.AddCommand(
      "bench-engine", "measure prefill and decode of the engine, beside what the machine can do");
  AddModelOptions(set, options.model);
  set.Group("What");
  set.Parsed("-p,--prompt-tokens", "LIST", "tokens of the prefills [512]", options.prompts,
             ParseTokenCounts);
  set.Parsed("-c,--ctx", "LIST", "cached tokens before the decode calls; may be 0 [128,2048]",
             options.contexts, ParseCountsAndZero);
  set.Parsed("-b,--batch", "LIST", "sequences that are decoded together [1,8]", options.batches,
             ParseTokenCounts);
  set.Parsed("--busy-threads", "LIST",
             "measure beside so many threads that never wait, as another program's; 0: alone [0]",
             options.busy_threads, ParseCountsAndZero);
  set.Number("-n", "decode calls of each context and batch [64]", options.calls, 1, 1 << 20);
  set.Number("-r,--repetitions", "prefills of each length [5]", options.repetitions, 1, 10000);
  set.Number("--block-tokens", "tokens of one KV block [16]", options.block_tokens, 1, 1 << 16);
  set.Number("--seed", "seed of tokens, K and V [1]", options.seed, 0, UINT64_MAX);
  AddOutputOptions(set, options.output, TableFormats::kTaken);
  set.Text("--out", "FILE", "append each row to FILE as a line of JSON", options.out_file);
  set.Footer(kEngineFooter);
  line.SetFunction("bench-engine", [&options] { return Run(options); });
}

}  // namespace kvbed
