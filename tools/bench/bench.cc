// kvbed bench: throughput of offload and restore per context size, beside fio's of the same moment.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "offload/clock.h"
#include "tools/bench/bench_row.h"
#include "tools/bench/bench_table.h"
#include "tools/bench/cell_run.h"
#include "tools/bench/row_writer.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/exit_code.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/progress.h"

namespace kvbed {
namespace {

constexpr const char* kFooter =
    "KV data are synthetic: seeded, every 4 KiB page unique. Records with the default 16 tokens:\n"
    "  smollm2-135m  372,736 bytes  (30 layers, 3 KV heads, head_dim 64, bf16); 1 GiB is -c 46k\n"
    "  llama3-8b   2,101,248 bytes  (32 layers, 8 KV heads, head_dim 128, bf16); 1 GiB is -c 8k\n"
    "Each repetition: offload into slots that were written before, until the data are durable; "
    "fio\n"
    "with the same bytes; restore into poisoned memory, verified; fio again. Figures are medians,\n"
    "ratios those of pairs. The store's snapshot and fio's files are removed at the end.\n"
    "\n"
    "Examples:\n"
    "  kvbed bench --shape smollm2-135m -c 46k --store slab:/data/kv\n"
    "  kvbed bench --shape llama3-8b -c 1k-32k*2 --store slab:/data/kv -o jsonl --out rows.jsonl\n"
    "Exit codes: 1 a row failed verification or its byte ratio, 3 unpublishable under --strict,\n"
    "4 an I/O error.";

struct BenchOptions {
  std::vector<std::string> shapes;
  std::optional<std::string> model;
  std::vector<uint64_t> ctx = {8192};
  DType dtype = DType::kBf16;
  uint32_t block_tokens = 16;
  std::vector<std::string> stores;
  StoreOptions tuning;
  uint32_t repetitions = 5;
  uint64_t seed = 1;
  bool no_fio = false;
  bool keep = false;
  bool strict = false;
  std::optional<std::string> label;
  OutputOptions output;
  std::optional<std::string> out_file;
};

Result<std::vector<BenchCell>> Cells(const BenchOptions& options) {
  if (options.model) {
    return Status::InvalidArgument(
        "bench runs without a model: give --shape smollm2-135m, --shape llama3-8b or --shape "
        "CONFIG.json instead of -m");
  }
  if (options.shapes.empty()) {
    return Status::InvalidArgument(
        fmt::format("bench needs --shape {} or CONFIG.json", fmt::join(BenchShapeNames(), ", ")));
  }
  if (options.stores.empty()) {
    return Status::InvalidArgument("bench needs --store, e.g. --store slab:/data/kv");
  }
  std::vector<BenchCell> cells;
  for (const std::string& spec : options.stores) {
    StoreOptions store = options.tuning;
    store.spec = spec;
    KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(store));
    if (!named.spec.snapshot.empty()) {
      return Status::InvalidArgument(fmt::format("bench takes a store, not a snapshot: {}", spec));
    }
    for (const std::string& shape_name : options.shapes) {
      KVBED_ASSIGN_OR_RETURN(const BenchShape shape, FindBenchShape(shape_name));
      for (uint64_t ctx_tokens : options.ctx) {
        BenchCell cell;
        cell.shape = shape;
        cell.geometry = shape.Geometry(options.dtype, options.block_tokens);
        cell.ctx_tokens = ctx_tokens;
        cell.store = named;
        cell.repetitions = options.repetitions;
        cell.seed = options.seed;
        cell.fio = !options.no_fio;
        cell.keep = options.keep;
        cell.label = options.label;
        KVBED_RETURN_IF_ERROR(cell.geometry.Validate());
        // All of them now: not after hours of the cells before.
        KVBED_RETURN_IF_ERROR(CheckCellFits(cell));
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

// The row as a format for people shows it.
std::string Shown(OutputFormat format, const Json& row, bool first) {
  switch (format) {
    case OutputFormat::kText: return (first ? "" : "\n") + BenchRowText(row);
    case OutputFormat::kMarkdown:
      return (first ? BenchMarkdownHead() : "") + BenchMarkdownLine(row);
    case OutputFormat::kCsv: return (first ? BenchCsvHead() : "") + BenchCsvLine(row);
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines: break;
  }
  return "";
}

Result<BenchRow> RunCell(const BenchCell& cell) {
  const BenchRowContext context{CommandLineOfThisProcess(), UnixNs()};
  std::optional<Progress> bar;
  KVBED_ASSIGN_OR_RETURN(
      const Measurement measurement, MeasureCell(cell, [&](uint64_t done, uint64_t total) {
        if (!bar)
          bar.emplace(fmt::format("{} {}", cell.shape.name, cell.ctx_tokens), total, "steps");
        bar->Update(done);
      }));
  return MakeBenchRow(measurement, context);
}

Result<int> Run(const BenchOptions& options) {
  KeptPlaces kept = options.shapes;
  for (const std::string& spec : options.stores) kept.push_back(PathOfSpec(spec));
  if (options.out_file) {
    KVBED_RETURN_IF_ERROR(CheckOutputFile("--out", *options.out_file, OutputKind::kAny, kept));
    kept.push_back(*options.out_file);
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  KVBED_ASSIGN_OR_RETURN(const std::vector<BenchCell> cells, Cells(options));
  RowWriter writer(options.output, options.out_file);
  bool failed_check = false, failed_io = false, unpublishable = false;
  Status stopped;
  for (const BenchCell& cell : cells) {
    const auto row = RunCell(cell);
    if (!row.ok()) {
      stopped = row.status();
      break;
    }
    const std::string shown = Shown(options.output.format, row->json, writer.empty());
    KVBED_RETURN_IF_ERROR(writer.Add({&row->json, 1}, shown));
    failed_check |= row->failed_check;
    failed_io |= row->failed_io;
    unpublishable |= !row->publishable;
  }
  KVBED_RETURN_IF_ERROR(writer.Finish());
  KVBED_RETURN_IF_ERROR(stopped);
  if (failed_check) return kExitFailedCheck;
  if (failed_io) return kExitUnusable;
  return options.strict && unpublishable ? kExitNoVerdict : kExitOk;
}

}  // namespace

void AddBenchCommand(CommandLine& line) {
  BenchOptions& options = line.Own<BenchOptions>();
  OptionSet set = line.AddCommand(
      "bench", "measure offload and restore throughput per context size, beside fio");
  set.Group("What");
  set.Texts("--shape", "NAME|config.json",
            fmt::format("KV shape: {}, or a model's config.json; several are run one by one",
                        fmt::join(BenchShapeNames(), ", ")),
            options.shapes);
  set.Hide(set.Text("-m,--model", "MODEL", "", options.model));
  set.Parsed("-c,--ctx", "LIST", "context sizes in tokens: 46k, or 1k,4k, or 1k-128k*2 [8k]",
             options.ctx, ParseTokenCounts);
  set.Parsed("--dtype", "bf16|fp32", "dtype of KV [bf16]", options.dtype, ParseDType);
  set.Number("--block-tokens", "tokens of one KV block [16]", options.block_tokens, 1, 1 << 16);
  set.Group("How");
  set.Number("-r,--repetitions", "timed repetitions after a warm-up [5]", options.repetitions, 1,
             10000);
  set.Number("--seed", "seed of the KV data [1]", options.seed, 0, UINT64_MAX);
  set.Flag("--no-fio", options.no_fio, "leave fio out");
  set.Flag("--keep", options.keep, "leave the snapshot and fio's files in the store's folder");
  set.Flag("--strict", options.strict, "exit with 3 when a row can't be published");
  set.Text("--label", "TEXT", "a name for these rows", options.label);
  set.Group("Store");
  set.Texts("-s,--store", "SPEC",
            "slab:DIR, rocksdb:DIR, files:DIR or memory:; several are run one by one",
            options.stores);
  AddStoreTuningOptions(set, options.tuning);
  AddOutputOptions(set, options.output, TableFormats::kTaken);
  set.Text("--out", "FILE", "append each row to FILE as a line of JSON", options.out_file);
  set.Footer(kFooter);
  line.SetFunction("bench", [&options] { return Run(options); });
}

}  // namespace kvbed
