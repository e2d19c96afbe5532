// kvbed plan: how large a model's KV cache is, and whether reading it back beats computing it
// again. Needs no model and touches no disk.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/byte_size.h"
#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/common_options.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/given_value.h"
#include "tools/option_values.h"
#include "tools/output.h"
#include "tools/plan/measured_rates.h"
#include "tools/plan/plan_json.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/plan_rows.h"
#include "tools/shape_names.h"

namespace kvbed {
namespace {

struct PlanOptions {
  std::vector<std::string> shapes;
  PlanRequest request;
  std::optional<SourcedValue> disk_gb_per_s;
  std::optional<SourcedValue> prefill_tok_per_s;
  std::optional<std::string> rows_file;
  OutputOptions output;

  PlanOptions() { output.format = OutputFormat::kMarkdown; }
};

// The names as a list of lines that a terminal of 100 columns shows whole.
std::string WrappedShapeNames() {
  constexpr size_t kColumns = 92;
  std::string text;
  size_t column = 0;
  for (const std::string& name : ShapeNames()) {
    if (!text.empty()) text += column + name.size() > kColumns ? ",\n  " : ", ";
    column = text.size() - (text.rfind('\n') + 1) + name.size();
    text += name;
  }
  return text;
}

std::string PlanFooter() {
  return fmt::format(
      "KV bytes a token = 2 (K and V) x layers x KV heads x head dim x bytes of an element. The\n"
      "break-even bandwidth is KV bytes / (tokens / prefill rate): a disk that reads faster than\n"
      "that restores a context in less time than computing it again takes. A prefill rate is "
      "taken\n"
      "as one number, though real ones fall with the context: give the one of your longest.\n"
      "Records' headers and padding are not counted (0.2 % at 128 KiB a token). GB = 10^9 bytes.\n"
      "\n"
      "Known shapes:\n  {}.\n"
      "A config.json may be of model_type llama, mistral, mixtral, qwen2, qwen3, qwen3_moe,\n"
      "deepseek_v2, deepseek_v3; others are refused by name.\n"
      "\n"
      "Examples:\n"
      "  kvbed plan --shape llama3-70b -c 4k,8k,32k,128k --users 1,8,32 --disk-gb-per-s 7 \\\n"
      "    --prefill-tok-per-s 9000,datasheet\n"
      "  kvbed plan --shape llama3-70b -c 32k --tp 4 --memory 80GiB --disk 3.84TB\n"
      "  kvbed plan --shape llama3-8b -c 128k --from rows.jsonl\n"
      "  kvbed plan --shape llama3-70b -c 112000 --claim-seconds 1.5\n"
      "Exit codes: 0 done; 2 usage; 4 a file that can't be used.",
      WrappedShapeNames());
}

// A given rate wins over a measured one.
Status AddMeasuredRates(const MeasuredRowFile& rows, PlanRequest& request) {
  const uint64_t longest = *std::max_element(request.ctx.begin(), request.ctx.end());
  KVBED_ASSIGN_OR_RETURN(MeasuredRates measured, rows.RatesFor(request.shape, longest));
  for (const std::string& note : measured.left_out) Complain(note);
  if (!request.disk_gb_per_s) request.disk_gb_per_s = std::move(measured.disk_gb_per_s);
  if (request.prefill_tok_per_s) return Status::Ok();
  request.prefill_tok_per_s = std::move(measured.prefill_tok_per_s);
  request.no_prefill_reason = std::move(measured.no_prefill_reason);
  return Status::Ok();
}

Result<std::vector<Plan>> MakePlans(const PlanOptions& options) {
  if (options.shapes.empty()) {
    return Status::InvalidArgument(
        fmt::format("plan needs --shape, e.g. --shape llama3-8b or --shape CONFIG.json; known are "
                    "{}",
                    fmt::join(ShapeNames(), ", ")));
  }
  std::optional<MeasuredRowFile> rows;
  if (options.rows_file) {
    KVBED_ASSIGN_OR_RETURN(rows, MeasuredRowFile::Read(*options.rows_file));
  }
  std::vector<Plan> plans;
  for (const std::string& name : options.shapes) {
    PlanRequest request = options.request;
    request.disk_gb_per_s = options.disk_gb_per_s;
    request.prefill_tok_per_s = options.prefill_tok_per_s;
    KVBED_ASSIGN_OR_RETURN(request.shape, FindShape(name));
    if (rows) KVBED_RETURN_IF_ERROR(AddMeasuredRates(*rows, request));
    KVBED_ASSIGN_OR_RETURN(Plan plan, MakePlan(std::move(request)));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::string PlansText(const std::vector<Plan>& plans, OutputFormat format, const Json& json) {
  if (format == OutputFormat::kCsv) return PlanCsv(json);
  std::string text;
  for (const Plan& plan : plans) {
    if (!text.empty()) text += "\n";
    text += PlanReport(plan,
                       format == OutputFormat::kMarkdown ? PlanStyle::kMarkdown : PlanStyle::kText);
  }
  return text;
}

Result<int> Run(const PlanOptions& options) {
  KeptPlaces kept = options.shapes;
  kept.push_back(options.rows_file.value_or(""));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kTaken, kept));
  const ResultHeader header{"kvbed-plan/1", CommandLineOfThisProcess(), 0, UnixNs()};
  KVBED_ASSIGN_OR_RETURN(const std::vector<Plan> plans, MakePlans(options));
  Json json = MakeResult(header);
  json["env"] = EnvironmentJson(ReadEnvironment({}));
  SetNull(json, "model", "a plan needs no model: see shapes");
  AddPlans(json, plans);
  OutputOptions output = options.output;
  const std::string text = PlansText(plans, output.format, json);
  const bool is_json =
      output.format == OutputFormat::kJson || output.format == OutputFormat::kJsonLines;
  if (!is_json) output.format = OutputFormat::kText;
  KVBED_RETURN_IF_ERROR(EmitResult(output, text, json));
  return kExitOk;
}

Result<std::vector<uint64_t>> ParseUsers(const std::string& text) {
  auto users = ParseTokenCounts(text);
  if (users.ok()) return users;
  return Status::InvalidArgument(
      fmt::format("--users takes numbers of users, as in 1,8,32 or 1-64*2, not '{}'", text));
}

auto GivenValueOf(std::string option) {
  return [option](const std::string& text) -> Result<std::optional<SourcedValue>> {
    KVBED_ASSIGN_OR_RETURN(SourcedValue rate, ParseGivenValue(option, text));
    return std::optional(std::move(rate));
  };
}

auto RoomOf(std::string option) {
  return [option](const std::string& text) -> Result<std::optional<uint64_t>> {
    KVBED_ASSIGN_OR_RETURN(const uint64_t bytes, ParseByteSize(text, option));
    return std::optional(bytes);
  };
}

void AddSizeOptions(OptionSet& set, PlanOptions& options) {
  PlanRequest& request = options.request;
  set.Group("What");
  set.Texts("--shape", "NAME|config.json",
            "a known model, or the config.json of one; several are planned one by one",
            options.shapes);
  set.Parsed("-c,--ctx", "LIST",
             "tokens of one user's context, as in 4k,8k or 1k-128k*2 (k = 1024) [4k,8k,32k,128k]",
             request.ctx, ParseTokenCounts);
  set.Parsed("--users", "LIST", "users at the same time, as in 1,8,32 [1]", request.users,
             ParseUsers);
  set.Parsed("--kv-dtype", "bf16|fp32|fp8|int8", "dtype of K and V, without scales [bf16]",
             request.kv_dtype, ParseStoredDType);
  set.Parsed("--weight-dtype", "bf16|fp32|fp8|int8", "dtype of the weights [bf16]",
             request.weight_dtype, ParseStoredDType);
  set.Number("--tp", "ranks of tensor parallelism that share the KV heads [1]", request.tp, 1,
             1 << 16);
}

void AddRateOptions(OptionSet& set, PlanOptions& options) {
  set.Group("What is known");
  set.Parsed("--disk-gb-per-s", "X[,SOURCE]", "read bandwidth, and where the number is from",
             options.disk_gb_per_s, GivenValueOf("--disk-gb-per-s"));
  set.Parsed("--prefill-tok-per-s", "N[,SOURCE]",
             "prefill rate of all ranks together, and where the number is from",
             options.prefill_tok_per_s, GivenValueOf("--prefill-tok-per-s"));
  set.Text("--from", "FILE",
           "rows of kvbed bench: their read bandwidth, and prefill rate where they have one, for "
           "what isn't given",
           options.rows_file);
  set.Parsed("--memory", "SIZE", "memory of one rank, as in 80GiB: how many users fit",
             options.request.memory_bytes, RoomOf("--memory"));
  set.Parsed("--disk", "SIZE", "room on the disk, as in 3.84TB: how many users fit",
             options.request.disk_bytes, RoomOf("--disk"));
  set.Parsed("--claim-seconds", "S[,SOURCE]", "a published restore time: the GB/s that it means",
             options.request.claim_seconds, GivenValueOf("--claim-seconds"));
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  PlanOptions& options = line.Own<PlanOptions>();
  OptionSet set = line.AddCommand(
      "plan", "say how large KV caches are and when a disk beats computing, without either");
  AddSizeOptions(set, options);
  AddRateOptions(set, options);
  AddOutputOptions(set, options.output, TableFormats::kTaken);
  set.Footer(PlanFooter());
  line.SetFunction("plan", [&options] { return Run(options); });
}

}  // namespace kvbed
