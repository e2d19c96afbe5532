// The arms of a drift measurement and their layers as lines of CSV, with whole numbers.
#include <fmt/format.h>

#include "tools/drift/drift_text.h"

namespace kvbed {
namespace {

constexpr const char* kCsvHead =
    "factor,value,ctx_tokens,prefill_chunk,threads,kernels,layer,elements,identical,identical_pct,"
    "max_abs,max_ulp,non_finite,k_identical_pct,k_max_abs,k_max_ulp,v_identical_pct,v_max_abs,"
    "v_max_ulp,prompt_identical_pct,prompt_max_abs,prompt_max_ulp,decode_identical_pct,"
    "decode_max_abs,decode_max_ulp,k_abs_max,first_layer,first_position,positions_compared,flips,"
    "base_identical_pct\n";

std::string CsvMeasures(const DriftPart& part) {
  return fmt::format("{},{},{}", part.identical_pct(), part.max_abs, part.max_ulp);
}

template <class Number>
std::string CsvOrEmpty(const std::optional<Number>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::string CsvValue(const DriftArm& arm) {
  const std::optional<DriftValue> value = arm.value();
  if (!value) return {};
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, *value);
}

DriftPart Together(const DriftPart& one, const DriftPart& other) {
  DriftPart sum = one;
  sum.Add(other);
  return sum;
}

// `layer` is "all" or a number, whose K, V, prompt and decode positions the parts are.
std::string CsvStart(const DriftArm& arm, const std::string& layer, const DriftPart& k,
                     const DriftPart& v, const DriftPart& prompt, const DriftPart& decode) {
  const DriftSettings& settings = arm.settings;
  const DriftPart all = Together(k, v);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}", DriftFactorName(arm.factor),
                     CsvValue(arm), settings.ctx_tokens, settings.prefill_chunk, settings.threads,
                     settings.kernels, layer, all.elements, all.identical, CsvMeasures(all),
                     all.non_finite, CsvMeasures(k), CsvMeasures(v),
                     fmt::format("{},{}", CsvMeasures(prompt), CsvMeasures(decode)));
}

}  // namespace

std::string DriftCsv(const DriftRun& run) {
  std::string text = kCsvHead;
  for (const DriftArmResult& result : run.arms) {
    const KvDrift& kv = result.drift.kv;
    const auto base = result.against_base
                          ? std::optional(result.against_base->total().identical_pct())
                          : std::nullopt;
    text += fmt::format("{},{},{},{},{},{},{}\n",
                        CsvStart(result.arm, "all", kv.k(), kv.v(), kv.prompt(), kv.decode()),
                        kv.k_abs_max, CsvOrEmpty(kv.first_layer), CsvOrEmpty(kv.first_position),
                        result.drift.positions, result.drift.flips.size(), CsvOrEmpty(base));
    for (const LayerDrift& layer : kv.layers) {
      text += CsvStart(result.arm, std::to_string(layer.layer), layer.k(), layer.v(),
                       Together(layer.k_prompt, layer.v_prompt),
                       Together(layer.k_decode, layer.v_decode));
      text += ",,,,,,\n";  // of the arm as a whole
    }
  }
  return text;
}

}  // namespace kvbed
