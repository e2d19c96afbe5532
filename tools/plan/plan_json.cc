#include "tools/plan/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/csv_field.h"
#include "tools/plan/plan_answer.h"

namespace kvbed {
namespace {

constexpr const char* kNoDisk = "no bandwidth is known: --disk-gb-per-s or --from";
constexpr const char* kNoPrefill = "no prefill rate is known: --prefill-tok-per-s or --from";

std::string NoPrefill(const Plan& plan) {
  const std::string& why = plan.request.no_prefill_reason;
  return why.empty() ? kNoPrefill : why;
}

std::string KindOf(const PlanVariant& variant) {
  return std::string(AttentionKindName(AttentionKindOf(variant.shape)));
}

void SetKvHeads(Json& out, const ModelShape& shape) {
  SetOrReason(out, "kv_heads",
              shape.latent ? std::nullopt : std::optional(uint64_t{shape.kv_heads}),
              "latent rows have no heads");
}

void SetTime(Json& out, const char* name, std::optional<double> seconds, std::string_view absent) {
  const auto ns = seconds ? WholeNs(*seconds) : std::nullopt;
  SetOrReason(out, name, ns, seconds ? "292 years or more" : absent);
}

Json RateJson(const std::optional<SourcedValue>& rate, std::string_view absent) {
  Json out;
  SetOrReason(out, "value", rate ? std::optional(rate->value) : std::nullopt, absent);
  out["source"] = rate ? Json(rate->source) : Json();
  if (!rate) out["source_reason"] = std::string(absent);
  return out;
}

Json WindowJson(const SlidingWindow& window) {
  return {{"tokens", window.tokens}, {"layers", window.layers}};
}

Json ShapeJson(const Plan& plan) {
  const PlanVariant& own = plan.own();
  const ModelShape& shape = own.shape;
  Json out;
  out["name"] = shape.name;
  out["source"] = shape.source;
  out["model_type"] = shape.model_type;
  out["variant"] = KindOf(own);
  out["layers"] = shape.layers;
  out["heads"] = shape.heads;
  SetKvHeads(out, shape);
  SetOrReason(out, "head_dim",
              shape.latent ? std::nullopt : std::optional(uint64_t{shape.head_dim}),
              "latent rows have no heads");
  out["hidden"] = shape.hidden;
  out["intermediate"] = shape.intermediate;
  out["vocab"] = shape.vocab;
  out["max_position"] = shape.max_position;
  if (shape.window) out["sliding_window"] = WindowJson(*shape.window);
  out["parameters"] = own.parameters;
  out["weight_dtype"] = std::string(DTypeName(plan.request.weight_dtype));
  out["weight_bytes"] = own.weight_bytes;
  out["kv_dtype"] = std::string(DTypeName(plan.request.kv_dtype));
  out["kv_bytes_per_token"] = own.kv_bytes_per_token / own.split.replicas;
  out["kv_bytes_per_token_formula"] = KvFormula(shape, plan.request.kv_dtype);
  out["tp"] = own.split.ranks;
  out["rank_kv_heads"] = own.split.rank_kv_heads;
  out["kv_replicas"] = own.split.replicas;
  out["disk_gb_per_s"] = RateJson(plan.request.disk_gb_per_s, kNoDisk);
  out["prefill_tok_per_s"] = RateJson(plan.request.prefill_tok_per_s, NoPrefill(plan));
  return out;
}

Json RowJson(const Plan& plan, const PlanVariant& variant, const PlanRow& row) {
  Json out;
  out["shape"] = plan.request.shape.name;
  out["variant"] = KindOf(variant);
  out["own"] = variant.own;
  SetKvHeads(out, variant.shape);
  out["kv_dtype"] = std::string(DTypeName(plan.request.kv_dtype));
  out["weight_dtype"] = std::string(DTypeName(plan.request.weight_dtype));
  out["tp"] = plan.request.tp;
  out["ctx_tokens"] = row.ctx_tokens;
  out["users"] = row.users;
  out["kv_bytes_per_token"] = variant.kv_bytes_per_token;
  out["kv_bytes"] = row.kv_bytes;
  out["rank_kv_bytes"] = row.rank_kv_bytes;
  out["weight_bytes"] = variant.weight_bytes;
  out["ratio"] = row.ratio;
  SetTime(out, "restore_ns", row.restore_s, kNoDisk);
  SetTime(out, "prefill_ns", row.prefill_s, NoPrefill(plan));
  SetOrReason(out, "break_even_gb_per_s", row.break_even_gb_per_s, NoPrefill(plan));
  SetOrReason(out, "break_even_tok_per_s", row.break_even_tok_per_s, kNoDisk);
  SetOrReason(out, "claim_gb_per_s", row.claim_gb_per_s, "no --claim-seconds");
  SetOrReason(out, "users_in_memory", row.users_in_memory, "no --memory");
  SetOrReason(out, "users_on_disk", row.users_on_disk, "no --disk");
  return out;
}

std::string CsvText(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? CsvField(value.get<std::string>()) : value.dump();
}

}  // namespace

std::optional<uint64_t> WholeNs(double seconds) {
  const double ns = seconds * 1e9;
  if (!(ns < 9.2e18)) return std::nullopt;
  return static_cast<uint64_t>(ns + 0.5);
}

void AddPlans(Json& result, const std::vector<Plan>& plans) {
  Json shapes = Json::array(), rows = Json::array();
  std::string answer;
  for (const Plan& plan : plans) {
    shapes.push_back(ShapeJson(plan));
    for (const PlannedVariant& planned : plan.variants) {
      for (const PlanRow& row : planned.rows) {
        rows.push_back(RowJson(plan, planned.variant, row));
      }
    }
    answer += (answer.empty() ? "" : " ") + PlanAnswer(plan);
  }
  result["shapes"] = std::move(shapes);
  result["rows"] = std::move(rows);
  result["answer"] = std::move(answer);
}

std::string PlanCsv(const Json& result) {
  std::vector<std::string> names;
  for (const auto& [name, value] : result.at("rows").at(0).items()) {
    if (!name.ends_with("_reason")) names.push_back(name);
  }
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const Json& row : result.at("rows")) {
    std::vector<std::string> fields;
    for (const std::string& name : names) fields.push_back(CsvText(row.at(name)));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

}  // namespace kvbed
