#include "tools/diff/diff_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/console.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

std::string BitsText(KvElement element, uint32_t bits) {
  return fmt::format("0x{:0{}x}", bits, 2 * KvElementBytes(element));
}

std::string ValueText(KvElement element, uint32_t bits) {
  const auto value = KvElementValue(element, bits);
  return value ? fmt::format("{} ({:.9g})", BitsText(element, bits), *value)
               : BitsText(element, bits);
}

// Never 100 % for what isn't equal.
std::string PercentText(const DriftPart& part) {
  const std::string text = fmt::format("{:.4f}", part.identical_pct());
  return part.identical != part.elements && text == "100.0000" ? "99.9999+" : text;
}

const char* PartName(KvPart part) { return part == KvPart::kK ? "K" : "V"; }

std::string SideText(const char* name, const DiffSide& side) {
  std::string what;
  if (const DumpDescription* dump = side.description()) {
    what = fmt::format("{}{}, {} of [{}]", dump->format,
                       dump->pattern.empty() ? "" : ", " + dump->pattern, dump->layout,
                       fmt::join(dump->tensor_shape, ", "));
    if (side.block_tokens() > 0) {
      what += ", " + Count(side.block_tokens(), "token", "tokens") + " a block";
    }
    if (!dump->not_compared.empty()) {
      what += fmt::format("; not compared: {}{}", dump->not_compared[0],
                          dump->not_compared.size() == 1
                              ? ""
                              : fmt::format(" and {} more", dump->not_compared.size() - 1));
    }
  } else {
    what = fmt::format("snapshot, {} a block, each record verified",
                       Count(side.block_tokens(), "token", "tokens"));
  }
  return fmt::format("{:<11} {}\n{:<11} {}; {}, {}\n", name, Printable(side.source()), "",
                     Printable(what), KvElementName(side.shape().element),
                     Count(side.tokens(), "token", "tokens"));
}

bool IsIdentical(const LayerDifference& layer) {
  return layer.k.identical == layer.k.elements && layer.v.identical == layer.v.elements;
}

std::string LayerTable(const KvDiffReport& report) {
  const bool values = report.element != KvElement::kByte;
  std::string text =
      fmt::format("\n  {:>5}  {:>13} {:>11} {:>11}  {:>13} {:>11} {:>11}\n", "layer",
                  "K identical %", "max |d|", "max ULP", "V identical %", "max |d|", "max ULP");
  uint64_t identical = 0;
  for (const LayerDifference& layer : report.layers) {
    if (IsIdentical(layer)) {
      ++identical;
      continue;
    }
    text += fmt::format("  {:>5}", layer.layer);
    for (const DriftPart* part : {&layer.k, &layer.v}) {
      text += fmt::format("  {:>13} {:>11} {:>11}", PercentText(*part),
                          values ? fmt::format("{:.4g}", part->max_abs) : "-",
                          values ? Thousands(part->max_ulp) : "-");
    }
    text += "\n";
  }
  if (identical > 0) {
    text += fmt::format("  {} identical\n", Count(identical, "other layer is", "other layers are"));
  }
  return text;
}

Json ValueJson(KvElement element, uint32_t bits) {
  const auto value = KvElementValue(element, bits);
  return value ? Json(*value) : Json();
}

}  // namespace

std::string FirstDifferenceText(const KvDiffReport& report) {
  const KvDifference& first = *report.first;
  return fmt::format("{} of layer {}, KV head {}, token {}, dim {}: A {}, B {}",
                     PartName(first.part), first.layer, first.head, first.token, first.dim,
                     ValueText(report.element, first.a), ValueText(report.element, first.b));
}

std::string DiffText(const DiffSide& a, const DiffSide& b, const DiffOutcome& outcome) {
  const KvDiffReport& report = outcome.report;
  const DriftPart total = report.total();
  std::string text = SideText("A", a) + SideText("B", b);
  text += fmt::format("{:<11} {}, {}, head dim {}, {}: {} elements, {} bytes each\n", "Compared",
                      Count(a.shape().layers, "layer", "layers"),
                      Count(a.shape().kv_heads, "KV head", "KV heads"), a.shape().head_dim,
                      Count(outcome.tokens, "token", "tokens"), Thousands(total.elements),
                      Thousands(report.compared_bytes));
  if (report.equal()) return text + "\nEQUAL       every bit\n";
  text += fmt::format("\n{:<11} {} of {} elements identical ({} %); {}\n", "DIFFERS",
                      Thousands(total.identical), Thousands(total.elements), PercentText(total),
                      Count(report.differing_bits, "bit differs", "bits differ"));
  text += fmt::format("{:<11} {}\n", "First", FirstDifferenceText(report));
  if (report.element == KvElement::kByte) {
    text += fmt::format("{:<11} not known: nobody said what type these bytes are\n", "Largest");
  } else {
    text += fmt::format(
        "{:<11} |d| {:.6g}, {} ULP{}\n", "Largest", total.max_abs, Thousands(total.max_ulp),
        total.non_finite == 0 ? ""
                              : fmt::format("; besides, {} with an infinity or NaN",
                                            Count(total.non_finite, "element", "elements")));
  }
  text += fmt::format(
      "{:<11} {}\n", "Damage",
      outcome.damage ? fmt::format("{}: {}", DamageName(outcome.damage->kind), outcome.damage->says)
                     : "the bytes prove none of the known kinds");
  return text + LayerTable(report);
}

Json DiffSideJson(const DiffSide& side) {
  Json out;
  out["source"] = side.source();
  const DumpDescription* dump = side.description();
  out["kind"] = dump == nullptr ? "snapshot" : dump->format;
  out["dtype"] = std::string(KvElementName(side.shape().element));
  out["layers"] = side.shape().layers;
  out["kv_heads"] = side.shape().kv_heads;
  out["head_dim"] = side.shape().head_dim;
  out["tokens"] = side.tokens();
  out["block_tokens"] = side.block_tokens() > 0 ? Json(side.block_tokens()) : Json();
  if (dump != nullptr) {
    out["key_pattern"] = TextOrNull(dump->pattern);
    out["layout"] = dump->layout;
    out["shape"] = dump->tensor_shape;
    out["not_compared"] = dump->not_compared;
  } else {
    out["snapshot"] = side.manifest()->name;
    out["model"] = side.manifest()->model_name;
    out["fingerprint"] = side.manifest()->model.Fingerprint().ToHex();
  }
  return out;
}

void AddDiffOutcome(Json& result, const DiffOutcome& outcome) {
  const KvDiffReport& report = outcome.report;
  const bool values = report.element != KvElement::kByte;
  const DriftPart total = report.total();
  const auto largest = [&](Json& object, const std::string& prefix, const DriftPart& part) {
    object[prefix + "max_abs"] = values ? Json(part.max_abs) : Json();
    object[prefix + "max_ulp"] = values ? Json(part.max_ulp) : Json();
    object[prefix + "non_finite"] = part.non_finite;
  };
  result["equal"] = report.equal();
  result["tokens"] = outcome.tokens;
  result["dtype"] = std::string(KvElementName(report.element));
  result["identical_pct"] = total.identical_pct();
  result["elements"] = total.elements;
  result["identical"] = total.identical;
  result["compared_bytes"] = report.compared_bytes;
  result["differing_bits"] = report.differing_bits;
  largest(result, "", total);
  if (!values) result["max_abs_reason"] = "nobody said what type these bytes are";
  result["first"] = nullptr;
  if (const auto& first = report.first) {
    result["first"] = {{"layer", first->layer},
                       {"kv", PartName(first->part)},
                       {"head", first->head},
                       {"token", first->token},
                       {"dim", first->dim},
                       {"a", BitsText(report.element, first->a)},
                       {"b", BitsText(report.element, first->b)},
                       {"a_value", ValueJson(report.element, first->a)},
                       {"b_value", ValueJson(report.element, first->b)}};
  }
  result["layers"] = Json::array();
  for (const LayerDifference& layer : report.layers) {
    Json one;
    one["layer"] = layer.layer;
    one["k_identical_pct"] = layer.k.identical_pct();
    one["v_identical_pct"] = layer.v.identical_pct();
    one["k_differing"] = layer.k.elements - layer.k.identical;
    one["v_differing"] = layer.v.elements - layer.v.identical;
    largest(one, "k_", layer.k);
    largest(one, "v_", layer.v);
    result["layers"].push_back(std::move(one));
  }
  result["damage"] = outcome.damage ? Json(std::string(DamageName(outcome.damage->kind))) : Json();
  if (outcome.damage) {
    result["damage_says"] = outcome.damage->says;
  } else {
    result["damage_reason"] =
        report.equal() ? "they are equal" : "the bytes prove none of the known kinds";
  }
}

void AddNoDiffOutcome(Json& result, std::string_view reason) {
  for (const char* name : {"equal", "identical_pct", "first"}) SetNull(result, name, reason);
  result["layers"] = Json::array();
  SetNull(result, "damage", reason);
}

}  // namespace kvbed
