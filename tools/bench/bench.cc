// kvbed bench: throughput of offload and restore per context size, beside fio's of the same moment.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "offload/clock.h"
#include "tools/bench/bench_row.h"
#include "tools/bench/bench_table.h"
#include "tools/bench/bench_text.h"
#include "tools/bench/cell_run.h"
#include "tools/bench/cell_space.h"
#include "tools/bench/dry_run.h"
#include "tools/bench/load_options.h"
#include "tools/bench/load_shape.h"
#include "tools/bench/real_kv.h"
#include "tools/bench/row_writer.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/given_value.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/prompt.h"
#include "tools/session.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

constexpr const char* kFooter =
    "With -m the KV data are a model's, prefilled here at each context, and each row says what a\n"
    "restore is worth: the time to the first token when restored, copied from memory, in memory "
    "and\n"
    "computed again. With --shape they are synthetic: seeded, every 4 KiB page unique. A context\n"
    "that --pool-bytes doesn't hold is moved in rounds. Records with the default 16 tokens:\n"
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
    "  kvbed bench --shape llama3-8b -c 128k --pool-bytes 2GiB --store slab:/data/kv\n"
    "  kvbed bench --shape llama3-8b -c 8k --prefill-tok-per-s 9000,vendor --store slab:/data/kv\n"
    "  kvbed bench --shape llama3-8b -c 8k --working-set 64GiB --aged --store slab:/data/kv\n"
    "  kvbed bench --shape llama3-8b -c 8k --mix 0.5 --profile steady --store slab:/data/kv\n"
    "  kvbed bench --shape llama3-8b -c 8k --cache cold --store 'files:/data/f?direct=off'\n"
    "  kvbed bench -m MODEL -c 1k-8k*2 --store slab:/data/kv --store files:/data/f\n"
    "Conditions: --working-set and --aged make the store hold what a used one does, --mix "
    "offloads\n"
    "beside the restores, --cache warm|cold with direct=off are baselines of the page cache and\n"
    "never publishable, --profile steady goes on until the device is in a steady state.\n"
    "A cell that ends early (Ctrl-C, a full disk) ends the run: rows that are done are kept, the\n"
    "one under way is marked failed, and the others are named.\n"
    "\n"
    "Exit codes: 1 a row failed verification or its byte ratio, 3 unpublishable under --strict,\n"
    "4 an I/O error.";

struct BenchOptions {
  std::vector<std::string> shapes;
  ModelOptions model;
  PromptOptions prompt;
  std::vector<uint64_t> ctx;  // empty: the profile's
  uint32_t block_tokens = 16;
  std::vector<std::string> stores;
  StoreOptions tuning;
  LoadOptions load;
  std::optional<SourcedValue> prefill;
  uint64_t seed = 1;
  bool dry_run = false;
  bool keep = false;
  bool strict = false;
  std::optional<std::string> label;
  OutputOptions output;
  std::optional<std::string> out_file;

  BenchOptions() { output.format = OutputFormat::kMarkdown; }
};

Result<std::optional<SourcedValue>> ParsePrefillRate(const std::string& text) {
  KVBED_ASSIGN_OR_RETURN(SourcedValue rate, ParseGivenValue("--prefill-tok-per-s", text));
  return std::optional(std::move(rate));
}

// What is measured: cells by context, and the stores of each.
struct BenchPlan {
  std::vector<BenchCell> cells;
  std::optional<OpenedModel> model;  // of -m
};

bool HasModel(const BenchOptions& options) { return !options.model.model.empty(); }

Status CheckWhat(const BenchOptions& options) {
  if (HasModel(options) == !options.shapes.empty()) {
    return Status::InvalidArgument(
        fmt::format("bench needs a model (-m MODEL) or --shape {}, or CONFIG.json, and not both",
                    fmt::join(ShapeNames(), ", ")));
  }
  if (options.stores.empty()) {
    return Status::InvalidArgument("bench needs --store, e.g. --store slab:/data/kv");
  }
  return CheckLoadOptions(options.load, HasModel(options));
}

Result<std::vector<BenchShape>> ShapesOf(const BenchOptions& options, BenchPlan& plan) {
  std::vector<BenchShape> shapes;
  for (const std::string& name : options.shapes) {
    KVBED_ASSIGN_OR_RETURN(BenchShape shape, FindBenchShape(name));
    shapes.push_back(std::move(shape));
  }
  if (!HasModel(options)) return shapes;
  KVBED_ASSIGN_OR_RETURN(plan.model, OpenModelFiles(options.model));
  shapes.push_back({plan.model->files.name, plan.model->files.config, {}});
  return shapes;
}

Result<std::vector<NamedStore>> StoresOf(const BenchOptions& options) {
  std::vector<NamedStore> stores;
  for (const std::string& spec : options.stores) {
    StoreOptions store = options.tuning;
    store.spec = spec;
    KVBED_ASSIGN_OR_RETURN(NamedStore named, NameStore(store));
    KVBED_RETURN_IF_ERROR(CheckIsOurs(named.spec, "bench"));
    if (!named.spec.snapshot.empty()) {
      return Status::InvalidArgument(fmt::format("bench takes a store, not a snapshot: {}", spec));
    }
    stores.push_back(std::move(named));
  }
  return stores;
}

Result<KvSplit> SplitOf(const BenchShape& shape, const BenchOptions& options) {
  if (HasModel(options)) return KvSplit{.ranks = 1, .rank_kv_heads = shape.config.kv_heads};
  return SplitKv(shape.sizes, options.load.tp);
}

Result<BenchPlan> Plan(const BenchOptions& options) {
  KVBED_RETURN_IF_ERROR(CheckWhat(options));
  BenchPlan plan;
  KVBED_ASSIGN_OR_RETURN(const std::vector<NamedStore> stores, StoresOf(options));
  KVBED_ASSIGN_OR_RETURN(const std::vector<BenchShape> shapes, ShapesOf(options, plan));
  for (const BenchShape& shape : shapes) {
    KVBED_ASSIGN_OR_RETURN(const KvSplit split, SplitOf(shape, options));
    for (uint64_t ctx_tokens : options.ctx.empty() ? DefaultContexts(options.load) : options.ctx) {
      KVBED_RETURN_IF_ERROR(shape.CheckContext(ctx_tokens));
      for (const NamedStore& store : stores) {
        BenchCell cell;
        cell.shape = shape;
        cell.geometry = shape.RankGeometry(options.model.dtype, options.block_tokens, split);
        cell.ctx_tokens = ctx_tokens;
        cell.store = store;
        cell.seed = options.seed;
        cell.kv_replicas = split.replicas;
        cell.from_model = plan.model.has_value();
        cell.prefill = options.prefill;
        cell.keep = options.keep;
        cell.label = options.label;
        KVBED_RETURN_IF_ERROR(cell.geometry.Validate());
        KVBED_RETURN_IF_ERROR(ApplyLoadOptions(options.load, cell));
        // All of them now: not after hours of the cells before.
        KVBED_RETURN_IF_ERROR(ShapeCell(cell).status());
        KVBED_RETURN_IF_ERROR(CheckGivenPrefill(cell));
        if (!options.dry_run) KVBED_RETURN_IF_ERROR(CheckCellFits(cell));
        plan.cells.push_back(std::move(cell));
      }
    }
  }
  return plan;
}

// What it would move and where, and whether there is room for it.
Status PrintDryRun(const BenchPlan& plan, OutputOptions output) {
  const bool table =
      output.format == OutputFormat::kMarkdown || output.format == OutputFormat::kCsv;
  if (table) output.format = OutputFormat::kText;  // it is none
  const Json json = BenchPlanJson(plan.cells);
  KVBED_RETURN_IF_ERROR(EmitResult(output, BenchPlanText(json), json));
  for (const BenchCell& cell : plan.cells) KVBED_RETURN_IF_ERROR(CheckCellFits(cell));
  return Status::Ok();
}

// A model's K and V at one context size after another.
class ModelKv {
 public:
  static Result<std::unique_ptr<ModelKv>> Load(OpenedModel model, const BenchOptions& options) {
    KVBED_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(std::move(model), options.model));
    return std::unique_ptr<ModelKv>(new ModelKv(std::move(loaded), options));
  }

  Result<RealKv*> At(uint64_t ctx_tokens) {
    if (kv_ != nullptr && kv_->prompt().size() == ctx_tokens) return kv_.get();
    kv_.reset();
    PromptOptions prompt = options_.prompt;
    prompt.ctx = ctx_tokens;
    if (!prompt.prompt && !prompt.prompt_file && !prompt.prompt_ids && model_.files.tokenizer) {
      prompt.prompt = BenchText(options_.seed, kTextBytes);
    }
    KVBED_ASSIGN_OR_RETURN(
        Prompt resolved, ResolvePrompt(prompt, model_.files, options_.seed, kPromptBytesPerToken));
    KVBED_ASSIGN_OR_RETURN(kv_,
                           RealKv::Make(model_, std::move(resolved.ids), options_.block_tokens));
    return kv_.get();
  }

 private:
  static constexpr uint64_t kTextBytes = 16384;  // repeated where the context is longer
  ModelKv(LoadedModel model, const BenchOptions& options)
      : options_(options), model_(std::move(model)) {}

  const BenchOptions& options_;
  LoadedModel model_;
  std::unique_ptr<RealKv> kv_;
};

// The row as a format for people shows it.
std::string Shown(OutputFormat format, const Json& row, bool first) {
  switch (format) {
    case OutputFormat::kText: return (first ? "" : "\n") + BenchRowText(row);
    case OutputFormat::kMarkdown:
      return (first ? BenchEnvironmentLine(row) + "\n" + BenchColumns().MarkdownHead() : "") +
             BenchColumns().MarkdownLine(row);
    case OutputFormat::kCsv:
      return (first ? BenchColumns().CsvHead() : "") + BenchColumns().CsvLine(row);
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines: break;
  }
  return "";
}

// The rows of one shape and store, by growing context.
class Contexts {
 public:
  std::optional<SmallerContext> Before(const BenchCell& cell) const {
    const auto found = last_.find(KeyOf(cell));
    if (found == last_.end() || found->second.ctx_tokens >= cell.ctx_tokens) return std::nullopt;
    return found->second;
  }
  void Note(const Measurement& measurement) {
    const auto worth = WorthOf(measurement);
    if (!worth) return;
    last_[KeyOf(measurement.cell)] = {measurement.cell.ctx_tokens, *worth};
  }

 private:
  static std::string KeyOf(const BenchCell& cell) {
    return cell.shape.name + " " + cell.store.spec.ToString();
  }
  std::map<std::string, SmallerContext> last_;
};

struct MeasuredCell {
  BenchRow row;
  Status failure;  // what ended it early
};

Result<MeasuredCell> RunCell(BenchCell cell, const std::unique_ptr<ModelKv>& model,
                             Contexts& contexts) {
  BenchRowContext context{CommandLineOfThisProcess(), UnixNs(), contexts.Before(cell)};
  if (model) {
    KVBED_ASSIGN_OR_RETURN(cell.real, model->At(cell.ctx_tokens));
  }
  std::optional<Progress> bar;
  KVBED_ASSIGN_OR_RETURN(
      const Measurement measurement, MeasureCell(cell, [&](uint64_t done, uint64_t total) {
        if (!bar)
          bar.emplace(fmt::format("{} {}", cell.shape.name, cell.ctx_tokens), total, "steps");
        bar->Update(done);
      }));
  contexts.Note(measurement);
  return MeasuredCell{MakeBenchRow(measurement, context), measurement.failure};
}

struct BenchOutcome {
  bool failed_check = false;
  bool failed_io = false;
  bool unpublishable = false;

  int ExitCode(bool strict) const {
    if (failed_check) return kExitFailedCheck;
    if (failed_io) return kExitUnusable;
    return strict && unpublishable ? kExitNoVerdict : kExitOk;
  }
};

std::string NameOfCell(const BenchCell& cell) {
  return fmt::format("{} tokens of {} in {}", cell.ctx_tokens, cell.shape.name,
                     cell.store.spec.ToString());
}

// Below a table, whose rows have no room for it: what keeps them from being published.
Status FinishRows(const RowWriter& writer, const std::string& notes) {
  if (writer.format() == OutputFormat::kMarkdown && !notes.empty()) {
    KVBED_RETURN_IF_ERROR(Print("\nFailed or not publishable:\n\n" + notes));
  }
  return writer.Finish();
}

// One line that names what was not measured: the cell that was under way, and those behind it.
Status StoppedAt(const std::vector<BenchCell>& cells, size_t at, const Status& cause) {
  std::vector<std::string> names;
  for (size_t i = at; i < cells.size(); ++i) names.push_back(NameOfCell(cells[i]));
  return cause.WithContext(fmt::format("not done: {} ({} of {} rows are done)",
                                       fmt::join(names, ", "), at, cells.size()));
}

// Rows that are done are kept, whatever ends the run. A cell that ends early ends it: a disk that
// is full or fails gives no figures that mean anything.
Result<BenchOutcome> RunCells(const std::vector<BenchCell>& cells,
                              const std::unique_ptr<ModelKv>& model, RowWriter& writer) {
  BenchOutcome outcome;
  Contexts contexts;
  std::string notes;
  for (size_t i = 0; i < cells.size() && !outcome.failed_io; ++i) {
    const auto cell = RunCell(cells[i], model, contexts);
    if (!cell.ok()) {
      KVBED_RETURN_IF_ERROR(FinishRows(writer, notes));
      return StoppedAt(cells, i, cell.status());
    }
    const std::string shown = Shown(writer.format(), cell->row.json, writer.empty());
    KVBED_RETURN_IF_ERROR(writer.Add({&cell->row.json, 1}, shown));
    outcome.failed_check |= cell->row.failed_check;
    outcome.failed_io |= cell->row.failed_io;
    outcome.unpublishable |= !cell->row.publishable;
    notes += BenchMarkdownNote(cell->row.json);
    if (cell->row.failed_check) {
      Complain(fmt::format("failed: {}: {}", NameOfCell(cells[i]),
                           cell->row.json.at("reasons").at(0).get<std::string>()));
    }
    if (!cell->failure.ok()) Complain(StoppedAt(cells, i, cell->failure).message());
  }
  KVBED_RETURN_IF_ERROR(FinishRows(writer, notes));
  return outcome;
}

Result<int> Run(const BenchOptions& options) {
  KeptPlaces kept = options.shapes;
  if (HasModel(options)) kept.push_back(options.model.model);
  if (options.prompt.prompt_file) kept.push_back(*options.prompt.prompt_file);
  for (const std::string& spec : options.stores) kept.push_back(PathOfSpec(spec));
  if (options.out_file) {
    KVBED_RETURN_IF_ERROR(CheckOutputFile("--out", *options.out_file, OutputKind::kAny, kept));
    kept.push_back(*options.out_file);
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  KVBED_ASSIGN_OR_RETURN(BenchPlan plan, Plan(options));
  if (options.dry_run) {
    KVBED_RETURN_IF_ERROR(PrintDryRun(plan, options.output));
    return kExitOk;
  }
  std::unique_ptr<ModelKv> model;
  if (plan.model) {
    KVBED_ASSIGN_OR_RETURN(model, ModelKv::Load(std::move(*plan.model), options));
  }
  RowWriter writer(options.output, options.out_file);
  KVBED_ASSIGN_OR_RETURN(const BenchOutcome outcome, RunCells(plan.cells, model, writer));
  return outcome.ExitCode(options.strict);
}

}  // namespace

void AddBenchCommand(CommandLine& line) {
  BenchOptions& options = line.Own<BenchOptions>();
  OptionSet set = line.AddCommand(
      "bench", "measure offload and restore throughput per context size, beside fio");
  set.Group("What");
  set.Texts(
      "--shape", "NAME|config.json",
      "KV shape: a known model's, as in llama3-8b (kvbed plan --help lists them), or that of a "
      "config.json; several are run one by one",
      options.shapes);
  set.Text("-m,--model", "MODEL",
           "GGUF file, Hugging Face directory, or toy:8m, toy:62m: real K and V",
           options.model.model);
  set.Parsed("-c,--ctx", "LIST",
             "context sizes in tokens: 46k, or 1k,4k, or 1k-128k*2 [8k; ci: 1k]", options.ctx,
             ParseTokenCounts);
  set.Parsed("--dtype,--kv-dtype", "bf16|fp32|fp8|int8", "dtype of KV [bf16]", options.model.dtype,
             ParseStoredDType);
  set.Number("--block-tokens", "tokens of one KV block [16]", options.block_tokens, 1, 1 << 16);
  set.Text("-f,--prompt-file", "FILE", "the model's text [a seeded one of kvbed's own]",
           options.prompt.prompt_file);
  set.Text("--kernels", "native|torch", "the model's compute kernels [native where the CPU allows]",
           options.model.kernels);
  set.Text("--isa", "NAME", "instruction set of the native kernels [the fastest]",
           options.model.isa);
  set.Number("--threads", "the model's threads [as many as this process may run on]",
             options.model.threads, 1, 1024);
  set.Parsed("--prefill-tok-per-s", "N[,SOURCE]",
             "compare restores with this prefill rate, marked as given", options.prefill,
             ParsePrefillRate);
  AddLoadOptions(set, options.load);
  set.Number("--seed", "seed of the KV data [1]", options.seed, 0, UINT64_MAX);
  set.Flag("--dry-run", options.dry_run,
           "say what would be moved and how much disk it needs, and stop");
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
