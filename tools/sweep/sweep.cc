// kvbed sweep: what the disk under a store gives at each I/O size, queue depth and engine, and the
// knee: the depth from which on more of it only adds latency.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/byte_size.h"
#include "backends/disk_space.h"
#include "offload/clock.h"
#include "tools/bench/row_writer.h"
#include "tools/block_device.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/store_access.h"
#include "tools/sweep/sweep_plan.h"
#include "tools/sweep/sweep_row.h"
#include "tools/sweep/sweep_run.h"
#include "tools/sweep/sweep_table.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr const char* kSweepFooter =
    "The store's spec names the place: blocks of random bytes, every 4 KiB page unique, go to and\n"
    "from a file of sweep's own in the store's folder, which is removed at the end. The store "
    "isn't\n"
    "opened and need not exist. The file is written once before, so that writes are overwrites;\n"
    "each point has a warm-up; writes end with fdatasync inside the clock. All combinations of "
    "the\n"
    "lists are measured, reads first. Memory: the largest block times the largest depth.\n"
    "\n"
    "The knee of a block size is the smallest depth with 95 % of the peak. A store's block size "
    "is\n"
    "its record: 372,736 bytes for smollm2-135m (--bs 372736), 2,101,248 for llama3-8b.\n"
    "\n"
    "Examples:\n"
    "  kvbed sweep --store slab:/data/kv\n"
    "  kvbed sweep --store slab:/data/kv --bs 64k-4m*2 --iodepth 1,4,16,64 --ioengine "
    "io_uring,psync\n"
    "  kvbed sweep --store slab:/data/kv --bs 4k --iodepth 1-256*2 --order random --rw read\n"
    "  kvbed sweep --store slab:/data/kv --bs 1m --direct required,off --registered on,off -r 5\n"
    "  kvbed sweep --store slab:/data/kv --dry-run\n"
    "Exit codes: 1 a row's bytes prove that something else was measured, 2 usage, 3 unpublishable\n"
    "under --strict, 4 an I/O error, too little space.";

struct SweepOptions {
  std::string store;
  std::vector<uint64_t> bs_bytes = {64 << 10,   128 << 10, 256 << 10, 512 << 10,
                                    1024 << 10, 2 << 20,   4 << 20};
  std::vector<uint64_t> iodepths = {1, 4, 16, 64};
  std::vector<std::string> engines = {"auto"};
  std::vector<std::string> directs = {"required"};
  std::vector<std::string> registered = {"on"};
  std::vector<std::string> ops = {"read", "write"};
  std::string order = "sequential";
  uint64_t bytes = uint64_t{256} << 20;
  uint32_t repetitions = 3;
  uint64_t seed = 1;
  bool fio = false;
  bool strict = false;
  bool dry_run = false;
  std::optional<std::string> label;
  OutputOptions output;
  std::optional<std::string> out_file;

  SweepOptions() { output.format = OutputFormat::kMarkdown; }
};

Result<StoreSpec> PlaceOf(const SweepOptions& options) {
  if (options.store.empty()) {
    return Status::InvalidArgument("sweep needs --store, e.g. --store slab:/data/kv");
  }
  KVBED_ASSIGN_OR_RETURN(StoreSpec spec, ParseStoreSpec(options.store));
  KVBED_RETURN_IF_ERROR(CheckIsOurs(spec, "sweep"));
  if (spec.kind == StoreKind::kMemory) {
    return Status::InvalidArgument(
        "sweep measures a disk, and memory: has none: give a store with a folder, as in "
        "slab:/data/kv");
  }
  if (!spec.snapshot.empty()) {
    return Status::InvalidArgument(
        fmt::format("sweep takes a store, not a snapshot: {}", options.store));
  }
  if (spec.sync == SyncMode::kNone) {
    return Status::InvalidArgument("sweep's writes always end with fdatasync: leave sync=none out");
  }
  return spec;
}

// The engine that `asked` comes to here. An error where it can't be had.
Result<SweepEngine> EngineOf(IoEngine asked) {
  KVBED_ASSIGN_OR_RETURN(const auto io, OpenIo(asked));
  KVBED_ASSIGN_OR_RETURN(const auto queue, io->OpenQueue({.iodepth = 1}));
  return SweepEngine{asked, queue->info().engine};
}

// The spec's own options win over the command's lists.
Result<SweepLists> ListsOf(const SweepOptions& options, const StoreSpec& spec) {
  SweepLists lists;
  lists.bs_bytes = options.bs_bytes;
  lists.iodepths = options.iodepths;
  lists.bytes = options.bytes;
  if (spec.iodepth) lists.iodepths = {*spec.iodepth};
  std::vector<IoEngine> engines;
  for (const std::string& name : options.engines) {
    KVBED_ASSIGN_OR_RETURN(const IoEngine engine, ParseIoEngine(name));
    engines.push_back(engine);
  }
  if (spec.ioengine) engines = {*spec.ioengine};
  for (IoEngine engine : engines) {
    KVBED_ASSIGN_OR_RETURN(const SweepEngine found, EngineOf(engine));
    lists.engines.push_back(found);
  }
  for (const std::string& name : options.directs) {
    KVBED_ASSIGN_OR_RETURN(const DirectMode mode, ParseDirectMode(name));
    lists.directs.push_back(mode);
  }
  if (spec.direct) lists.directs = {*spec.direct};
  for (const std::string& name : options.registered) {
    lists.registered.push_back(name == "on" ? Registered::kOn : Registered::kOff);
  }
  for (const std::string& name : options.ops) {
    lists.ops.push_back(name == "read" ? SweepOp::kRead : SweepOp::kWrite);
  }
  return lists;
}

Result<SweepSettings> SettingsOf(const SweepOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const StoreSpec spec, PlaceOf(options));
  KVBED_ASSIGN_OR_RETURN(const SweepLists lists, ListsOf(options, spec));
  SweepSettings settings;
  settings.spec = spec.ToString();
  settings.path = spec.path;
  KVBED_ASSIGN_OR_RETURN(settings.plan, MakeSweepPlan(lists));
  settings.order =
      options.order == "random" ? BlockOrderKind::kRandom : BlockOrderKind::kSequential;
  settings.repetitions = options.repetitions;
  settings.seed = options.seed;
  settings.fio = options.fio;
  settings.label = options.label;
  return settings;
}

Json PlanJson(const SweepSettings& settings) {
  const SweepPlan& plan = settings.plan;
  const SweepTraffic traffic = TrafficOf(plan, settings.repetitions, settings.fio);
  const auto free_bytes = AvailableBytes(NearestExisting(settings.path));
  Json out;
  out["schema"] = "kvbed-sweep-plan/1";
  out["store"] = settings.spec;
  out["groups"] = plan.groups.size();
  out["points"] = plan.points();
  out["passes"] = plan.points() * (1 + settings.repetitions);
  out["read_bytes"] = traffic.read_bytes;
  out["written_bytes"] = traffic.written_bytes;
  out["disk_bytes"] = plan.disk_bytes();
  out["memory_bytes"] = plan.memory_bytes;
  SetOrReason(out, "free_bytes", free_bytes.ok() ? std::optional(*free_bytes) : std::nullopt,
              free_bytes.ok() ? "" : free_bytes.status().message());
  return out;
}

std::string PlanText(const Json& plan) {
  const auto number = [&](const char* name) {
    return plan[name].is_null() ? std::string("?") : Thousands(plan[name].get<uint64_t>());
  };
  return fmt::format(
      "{} points in {} groups, {} passes with the warm-ups\n"
      "reads   {} bytes\n"
      "writes  {} bytes, the filling of the files included\n"
      "disk    {} bytes, of {} free\n"
      "memory  {} bytes\n"
      "Nothing was made or measured (--dry-run).\n",
      number("points"), number("groups"), number("passes"), number("read_bytes"),
      number("written_bytes"), number("disk_bytes"), number("free_bytes"), number("memory_bytes"));
}

class SweepCommand {
 public:
  SweepCommand(const SweepOptions& options, const SweepSettings& settings)
      : options_(options),
        settings_(settings),
        writer_(options.output, options.out_file),
        table_(options.output.format == OutputFormat::kMarkdown ? SweepTableStyle::kMarkdown
                                                                : SweepTableStyle::kText,
               Subject()),
        context_{CommandLineOfThisProcess(), UnixNs(), Json()} {}

  Result<int> Run() {
    const Status stopped = MeasureAll();
    if (IsTable() && !writer_.empty()) KVBED_RETURN_IF_ERROR(writer_.Add({}, table_.End()));
    KVBED_RETURN_IF_ERROR(writer_.Finish());
    if (IsInterrupted(stopped)) {
      return stopped.WithContext(
          fmt::format("{} of {} groups of points are measured and kept, the rest is not",
                      groups_done_, settings_.plan.groups.size()));
    }
    KVBED_RETURN_IF_ERROR(stopped);
    if (failed_check_) return kExitFailedCheck;
    if (failed_io_) return kExitUnusable;
    return options_.strict && !publishable_ ? kExitNoVerdict : kExitOk;
  }

 private:
  std::string Subject() const {
    return fmt::format("{} bytes a pass or bs x depth, {}, seed {}", Thousands(options_.bytes),
                       options_.order, options_.seed);
  }

  bool IsTable() const {
    return options_.output.format == OutputFormat::kText ||
           options_.output.format == OutputFormat::kMarkdown;
  }

  Status MeasureAll() {
    KVBED_ASSIGN_OR_RETURN(const auto run, SweepRun::Open(settings_));
    for (const SweepGroup& group : settings_.plan.groups) {
      KVBED_ASSIGN_OR_RETURN(const SweepGroupResult result, MeasureGroup(*run, group));
      KVBED_RETURN_IF_ERROR(Emit(result));
      ++groups_done_;
    }
    return Status::Ok();
  }

  // The bar is gone before a row is printed.
  Result<SweepGroupResult> MeasureGroup(SweepRun& run, const SweepGroup& group) {
    const SweepPlan& plan = settings_.plan;
    Progress bar(fmt::format("group {} of {}", groups_done_ + 1, plan.groups.size()),
                 plan.iodepths.size() * (1 + settings_.repetitions), "passes");
    uint64_t passes = 0;
    return run.Measure(group, [&] { bar.Update(passes++); });
  }

  Status Emit(const SweepGroupResult& group) {
    EnvironmentQuery query;
    query.path = settings_.path;
    query.huge_page_bytes = group.huge_page_bytes;
    query.seed = settings_.seed;
    context_.env = EnvironmentJson(ReadEnvironment(query));
    SweepRows rows = MakeSweepRows(settings_, group, context_);
    failed_check_ |= rows.failed_check;
    failed_io_ |= rows.failed_io;
    publishable_ &= rows.publishable;
    const std::string shown = Shown(rows.rows);
    return writer_.Add(rows.rows, shown);
  }

  // The group as a format for people shows it.
  std::string Shown(const std::vector<Json>& rows) {
    if (IsTable()) return table_.Group(rows);
    if (options_.output.format != OutputFormat::kCsv) return "";
    std::string lines = writer_.empty() ? SweepCsvColumns().CsvHead() : "";
    for (const Json& row : rows) lines += SweepCsvColumns().CsvLine(row);
    return lines;
  }

  const SweepOptions& options_;
  const SweepSettings& settings_;
  RowWriter writer_;
  SweepTable table_;
  SweepRowContext context_;
  uint64_t groups_done_ = 0;
  bool failed_check_ = false;
  bool failed_io_ = false;
  bool publishable_ = true;
};

Result<int> RunSweep(const SweepOptions& options) {
  KeptPlaces kept = {PathOfSpec(options.store)};
  if (options.out_file) {
    KVBED_RETURN_IF_ERROR(CheckOutputFile("--out", *options.out_file, OutputKind::kAny, kept));
    kept.push_back(*options.out_file);
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  KVBED_ASSIGN_OR_RETURN(const SweepSettings settings, SettingsOf(options));
  if (options.dry_run) {
    const Json plan = PlanJson(settings);
    OutputOptions output = options.output;
    const bool table =
        output.format == OutputFormat::kMarkdown || output.format == OutputFormat::kCsv;
    if (table) output.format = OutputFormat::kText;  // it is none
    KVBED_RETURN_IF_ERROR(EmitResult(output, PlanText(plan), plan));
  }
  KVBED_RETURN_IF_ERROR(CheckSweepFits(settings));
  if (options.dry_run) return kExitOk;
  return SweepCommand(options, settings).Run();
}

// An option whose value is a list of some of `allowed`.
void AddChoices(OptionSet& set, const std::string& name, const std::string& help,
                std::vector<std::string>& value, const std::vector<std::string>& allowed) {
  set.Parsed(name, fmt::format("{}", fmt::join(allowed, ",")), help, value,
             [allowed](const std::string& text) { return ParseChoices(text, allowed); });
}

}  // namespace

void AddSweepCommand(CommandLine& line) {
  SweepOptions& options = line.Own<SweepOptions>();
  OptionSet set =
      line.AddCommand("sweep", "measure a store's disk by I/O size, queue depth and engine");
  set.Group("What: each is a list, and all combinations are measured");
  set.Parsed("--bs", "LIST", "bytes of one I/O: 64k,1m or 64k-4m*2 (k = 1024) [64k-4m*2]",
             options.bs_bytes, ParseBlockSizes);
  set.Parsed("--iodepth", "LIST", "I/Os in flight: 16 or 1,4,16,64 or 1-64*2 [1,4,16,64]",
             options.iodepths, ParseDepths);
  AddChoices(set, "--ioengine", "I/O engines; auto takes io_uring where it is allowed [auto]",
             options.engines, {"auto", "io_uring", "psync"});
  AddChoices(set, "--direct",
             "direct I/O, past the page cache; off is a labelled baseline [required]",
             options.directs, {"required", "optional", "off"});
  AddChoices(set, "--registered",
             "memory and file registered with io_uring; psync has nothing to register [on]",
             options.registered, {"on", "off"});
  AddChoices(set, "--rw", "directions [read,write]", options.ops, {"read", "write"});
  set.Group("How");
  set.Parsed("--bytes", "SIZE",
             "bytes of one pass, at least the block times the largest depth [256MiB]",
             options.bytes, [](const std::string& text) { return ParseByteSize(text, "--bytes"); });
  set.OneOf("--order", "order of the blocks; random visits each once, seeded [sequential]",
            options.order, {"sequential", "random"});
  set.Number("-r,--repetitions", "timed passes of a point after a warm-up [3]", options.repetitions,
             1, 10000);
  set.Number("--seed", "seed of the data and of a random order [1]", options.seed, 0, UINT64_MAX);
  set.Flag("--fio", options.fio, "after each pass, fio with the same shape: takes twice the time");
  set.Flag("--strict", options.strict, "exit with 3 when a row can't be published");
  set.Flag("--dry-run", options.dry_run, "say how many points, bytes and how much space, and stop");
  set.Text("--label", "TEXT", "a name for these rows", options.label);
  set.Group("Store");
  set.Text("-s,--store", "SPEC",
           "slab:DIR, rocksdb:DIR or files:DIR: the place that is measured; the spec's iodepth=, "
           "ioengine= and direct= win over the lists",
           options.store);
  AddOutputOptions(set, options.output, TableFormats::kTaken);
  set.Text("--out", "FILE", "append each row to FILE as a line of JSON", options.out_file);
  set.Footer(kSweepFooter);
  line.SetFunction("sweep", [&options] { return RunSweep(options); });
}

}  // namespace kvbed
