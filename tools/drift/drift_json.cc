#include "tools/drift/drift_json.h"

#include <nlohmann/json.hpp>

#include "tools/drift/drift_text.h"
#include "tools/restore_json.h"

namespace kvbed {
namespace {

Json FlipJson(const DriftReport& drift, size_t index) {
  const TokenFlip& flip = drift.flips[index];
  Json out;
  out["position"] = flip.position;
  out["cached_id"] = flip.cached_id;
  out["cached_text"] = drift.cached_texts[index];
  out["cached_logit"] = flip.cached_logit;
  out["cached_logit_of_recomputed_id"] = flip.cached_logit_of_recomputed_id;
  out["recomputed_id"] = flip.recomputed_id;
  out["recomputed_text"] = drift.recomputed_texts[index];
  out["recomputed_logit"] = flip.recomputed_logit;
  out["recomputed_logit_of_cached_id"] = flip.recomputed_logit_of_cached_id;
  SetOrReason(out, "top2_gap", flip.top2_gap, "a logit is not finite");
  SetOrReason(out, "gap_steps", flip.gap_steps, "a logit is not finite");
  return out;
}

Json DriftPartJson(const DriftPart& part) {
  return {{"elements", part.elements},
          {"identical", part.identical},
          {"identical_pct", part.identical_pct()},
          {"max_abs", part.max_abs},
          {"max_ulp", part.max_ulp},
          {"non_finite", part.non_finite}};
}

// What begins where: null when nothing does.
void SetFirsts(Json& out, const KvDrift& kv) {
  const char* const none = "no element differs";
  SetOrReason(out, "first_layer", std::optional<uint64_t>(kv.first_layer), none);
  SetOrReason(out, "first_position", kv.first_position, none);
  SetOrReason(out, "first_decode_position", kv.first_decode_position,
              "no element of a decode position differs");
}

Json AgainstBaseJson(const KvDrift& kv) {
  Json out = DriftPartJson(kv.total());
  SetFirsts(out, kv);
  return out;
}

void AddSettings(Json& out, const DriftSettings& settings) {
  out["ctx_tokens"] = settings.ctx_tokens;
  out["prefill_chunk"] = settings.prefill_chunk;
  out["threads"] = settings.threads;
  out["kernels"] = settings.kernels;
}

void SetValue(Json& out, const DriftArm& arm) {
  const std::optional<DriftValue> value = arm.value();
  if (!value) return SetNull(out, "value", "what all other arms change one factor of");
  std::visit([&](const auto& one) { out["value"] = one; }, *value);
}

void SetOperations(Json& out, const std::optional<OpComparison>& operations) {
  if (!operations) return SetNull(out, "operations", "not asked for (--first-op)");
  Json& json = out["operations"];
  json["compared"] = operations->operations;
  json["same_before"] = operations->same_before;
  if (!operations->first) return SetNull(json, "first", "all outputs are the same");
  const FirstOp& first = *operations->first;
  json["first"]["op"] = first.op;
  SetOrReason(json["first"], "layer", std::optional<uint64_t>(first.layer),
              "the operation belongs to no layer");
  json["first"].update({{"columns", first.columns},
                        {"position", first.position},
                        {"cached_rows", first.cached_rows},
                        {"recomputed_rows", first.recomputed_rows},
                        {"differing_positions", first.differing},
                        {"compared_positions", first.compared}});
}

Json ArmJson(const DriftArmResult& result, const DriftRun& run) {
  Json out;
  out["factor"] = std::string(DriftFactorName(result.arm.factor));
  SetValue(out, result.arm);
  AddSettings(out, result.arm.settings);
  out["numeric_environment"] = NumericEnvironmentJson(result.environment);
  out["cached_tokens"] = result.arm.settings.ctx_tokens + result.decoded_ids.size();
  out.update(DriftJson(result.drift));
  if (result.against_base) {
    out["against_base"] = AgainstBaseJson(*result.against_base);
  } else {
    SetNull(out, "against_base",
            result.arm.factor == DriftFactor::kBase ? "it is the base"
                                                    : "another context has other tokens");
  }
  SetOperations(out, result.operations);
  out["decoded_ids"] = result.decoded_ids;
  SetOrReason(
      out, "exceeds_limit",
      run.fail_above_pct ? std::optional(Exceeds(result, *run.fail_above_pct)) : std::nullopt,
      "no --fail-above");
  out["timings"] = {{"prefill_ns", result.prefill_ns},
                    {"decode_ns", result.decode_ns},
                    {"recompute_ns", result.recompute_ns}};
  return out;
}

Json BeginJson(const DriftBegin& begin) {
  const char* const none = "nothing differs at any context of the list";
  Json out;
  SetOrReason(out, "ctx_tokens", begin.ctx_tokens, none);
  SetOrReason(out, "position", begin.position, none);
  SetOrReason(out, "layer", std::optional<uint64_t>(begin.layer),
              begin.ctx_tokens ? "only a token differs" : none);
  SetOrReason(out, "prompt_ctx_tokens", begin.prompt_ctx_tokens, "no prompt position differs");
  SetOrReason(out, "decode_ctx_tokens", begin.decode_ctx_tokens, "no decode position differs");
  out["contexts"] = begin.contexts;
  out["differing_contexts"] = begin.differing;
  return out;
}

}  // namespace

Json DriftJson(const DriftReport& drift) {
  Json out;
  out["status"] = "measured";
  const DriftPart total = drift.kv.total();
  out["kernels"] = drift.kernels;
  out["identical_pct"] = total.identical_pct();
  out["elements"] = total.elements;
  out["identical"] = total.identical;
  out["max_abs"] = total.max_abs;
  out["max_abs_decode"] = drift.kv.decode().max_abs;
  out["max_ulp"] = total.max_ulp;
  out["k_abs_max"] = drift.kv.k_abs_max;
  SetFirsts(out, drift.kv);
  out["prompt_positions"] = DriftPartJson(drift.kv.prompt());
  out["decode_positions"] = DriftPartJson(drift.kv.decode());
  out["k"] = DriftPartJson(drift.kv.k());
  out["v"] = DriftPartJson(drift.kv.v());
  out["layers"] = Json::array();
  for (const LayerDrift& layer : drift.kv.layers) {
    out["layers"].push_back({{"layer", layer.layer},
                             {"k_identical_pct", layer.k().identical_pct()},
                             {"v_identical_pct", layer.v().identical_pct()},
                             {"k_max_abs", layer.k().max_abs},
                             {"v_max_abs", layer.v().max_abs},
                             {"k_max_ulp", layer.k().max_ulp},
                             {"v_max_ulp", layer.v().max_ulp},
                             {"k_prompt", DriftPartJson(layer.k_prompt)},
                             {"k_decode", DriftPartJson(layer.k_decode)},
                             {"v_prompt", DriftPartJson(layer.v_prompt)},
                             {"v_decode", DriftPartJson(layer.v_decode)}});
  }
  out["flips"] = Json::array();
  for (size_t i = 0; i < drift.flips.size(); ++i) out["flips"].push_back(FlipJson(drift, i));
  out["positions_compared"] = drift.positions;
  out["positions_left_out"] = drift.positions_left_out;
  const bool known = !drift.flips.empty() || drift.positions_left_out == 0;
  SetOrReason(out, "tokens_match", known ? std::optional(drift.flips.empty()) : std::nullopt,
              "the logits of some positions were not kept");
  return out;
}

Json DriftRunJson(const DriftRun& run) {
  Json out = MakeResult(run.header);
  out["model"] = ModelJson(run.model);
  out["numeric_environment"] = NumericEnvironmentJson(run.environment);
  out["warnings"] = run.warnings;
  SetOrReason(out["prompt"], "text", run.prompt.text, "the prompt was given as ids");
  out["prompt"]["ids"] = run.prompt.ids;
  out["prompt"]["tokens"] = run.prompt.ids.size();
  out["new_tokens"] = run.new_tokens;
  SetOrReason(out, "fail_above_pct", run.fail_above_pct, "not asked for: drift is no failure");
  AddSettings(out["base"], run.arms.front().arm.settings);
  out["begins"] = BeginJson(run.begin);
  out["arms"] = Json::array();
  for (const DriftArmResult& result : run.arms) {
    out["arms"].push_back(ArmJson(result, run));
    if (!run.fail_above_pct || !Exceeds(result, *run.fail_above_pct)) continue;
    AddFailure(out, LimitText(result, *run.fail_above_pct));
  }
  out["timings"] = {{"load_ns", run.load_ns}, {"total_ns", run.total_ns}};
  return out;
}

}  // namespace kvbed
