#include "tools/drift/drift_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/console.h"
#include "tools/run_report.h"
#include "tools/text_table.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr size_t kTextFlips = 8;

enum class DriftStyle { kText, kMarkdown };

// Lines with a label before them, and tables.
class DriftPage {
 public:
  explicit DriftPage(DriftStyle style) : style_(style) {}

  void Fact(std::string_view label, std::string_view text) {
    text_ += text_style() ? fmt::format("{:<11} {}\n", label, text)
                          : fmt::format("- {}: {}\n", label, text);
  }
  // Below a fact.
  void More(std::string_view text) {
    text_ += text_style() ? fmt::format("{:<11} {}\n", "", text) : fmt::format("  - {}\n", text);
  }
  void Add(const TextTable& table) {
    text_ += "\n" + (text_style() ? table.AsText(2) : table.AsMarkdown()) + "\n";
  }
  bool text_style() const { return style_ == DriftStyle::kText; }
  std::string Take() { return std::move(text_); }

 private:
  const DriftStyle style_;
  std::string text_;
};

bool AllIdentical(const DriftPart& part) { return part.identical == part.elements; }

template <class Number>
std::string OrDash(const std::optional<Number>& value) {
  return value ? Thousands(*value) : "-";
}

std::vector<std::string> ArmRow(const DriftArmResult& result) {
  const KvDrift& kv = result.drift.kv;
  const DriftPart total = kv.total();
  return {ArmName(result.arm),
          IdenticalPercent(total),
          IdenticalPercent(kv.prompt()),
          IdenticalPercent(kv.decode()),
          fmt::format("{:.3g}", total.max_abs),
          kv.decode().elements == 0 ? "-" : fmt::format("{:.3g}", kv.decode().max_abs),
          Thousands(total.max_ulp),
          OrDash(kv.first_layer),
          OrDash(kv.first_position),
          fmt::format("{} of {}", result.drift.flips.size(), Thousands(result.drift.positions))};
}

TextTable ArmsTable(const DriftRun& run) {
  TextTable table{.titles = {"arm", "same %", "prompt %", "decode %", "max |d|", "in decode",
                             "max ulp", "from layer", "from position", "flips"},
                  .rows = {}};
  const bool against_base =
      std::any_of(run.arms.begin(), run.arms.end(),
                  [](const DriftArmResult& result) { return result.against_base.has_value(); });
  if (against_base) table.titles.emplace_back("same as base %");
  for (const DriftArmResult& result : run.arms) {
    table.rows.push_back(ArmRow(result));
    if (!against_base) continue;
    table.rows.back().push_back(result.against_base ? IdenticalPercent(result.against_base->total())
                                                    : "-");
  }
  return table;
}

TextTable LayersTable(const DriftReport& drift) {
  TextTable table{
      .titles = {"layer of the base", "K same %", "K prompt %", "K decode %", "K max |d|",
                 "K max ulp", "V same %", "V prompt %", "V decode %", "V max |d|", "V max ulp"},
      .rows = {}};
  for (const LayerDrift& layer : drift.kv.layers) {
    std::vector<std::string> row = {std::to_string(layer.layer)};
    const auto add = [&](const DriftPart& all, const DriftPart& prompt, const DriftPart& decode) {
      row.insert(row.end(),
                 {IdenticalPercent(all), IdenticalPercent(prompt), IdenticalPercent(decode),
                  fmt::format("{:.3g}", all.max_abs), Thousands(all.max_ulp)});
    };
    add(layer.k(), layer.k_prompt, layer.k_decode);
    add(layer.v(), layer.v_prompt, layer.v_decode);
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string SettingsText(const DriftSettings& settings) {
  return fmt::format("context {}, prefill chunk {}, {}, {} kernels", Thousands(settings.ctx_tokens),
                     settings.prefill_chunk, Count(settings.threads, "thread", "threads"),
                     settings.kernels);
}

std::string TokensText(const DriftRun& run) {
  const DriftBegin& begin = run.begin;
  const std::string prompt =
      begin.contexts == 1
          ? fmt::format("a prompt of {}", Count(run.prompt.ids.size(), "token", "tokens"))
          : fmt::format("{} prompts of {} to {} tokens", begin.contexts,
                        Thousands(begin.shortest.value_or(0)), Thousands(run.prompt.ids.size()));
  return fmt::format("{}, then {}; positions count from 0", prompt,
                     Count(run.new_tokens - 1, "decode call", "decode calls"));
}

std::string LayerText(const DriftBegin& begin) {
  return begin.layer ? fmt::format("layer {}", *begin.layer) : std::string("a token alone");
}

std::string BeginText(const DriftBegin& begin) {
  if (!begin.ctx_tokens) {
    return begin.contexts == 1
               ? "nowhere: all K, V and greedy tokens are the same"
               : fmt::format("nowhere: the same at all {} contexts", begin.contexts);
  }
  const std::string where =
      fmt::format("context {}, at position {} ({})", Thousands(*begin.ctx_tokens),
                  Thousands(*begin.position), LayerText(begin));
  if (begin.contexts == 1) return where;
  if (begin.ctx_tokens == begin.shortest) {
    return fmt::format("{}: the shortest of the list; {} of {} contexts differ", where,
                       begin.differing, begin.contexts);
  }
  return fmt::format("{}: shorter ones are the same; {} of {} contexts differ", where,
                     begin.differing, begin.contexts);
}

std::string ApartText(const DriftBegin& begin) {
  const auto at = [](const std::optional<uint64_t>& tokens) {
    return tokens ? "from context " + Thousands(*tokens) + " on" : std::string("at none");
  };
  return fmt::format("prompt positions differ {}, decode positions {}", at(begin.prompt_ctx_tokens),
                     at(begin.decode_ctx_tokens));
}

// The layers that hold the most and the fewest identical elements, K and V together.
std::string LayersText(const DriftReport& drift) {
  const auto total = [](const LayerDrift& layer) {
    DriftPart sum = layer.k();
    sum.Add(layer.v());
    return sum;
  };
  const auto [worst, best] =
      std::minmax_element(drift.kv.layers.begin(), drift.kv.layers.end(),
                          [&](const LayerDrift& one, const LayerDrift& other) {
                            return total(one).identical < total(other).identical;
                          });
  if (worst == drift.kv.layers.end() || AllIdentical(total(*worst))) {
    return "of the base: all are the same";
  }
  return fmt::format("of the base: {} % the same in layer {}, {} % in layer {}; largest |K| {:.3g}",
                     IdenticalPercent(total(*best)), best->layer, IdenticalPercent(total(*worst)),
                     worst->layer, drift.kv.k_abs_max);
}

// "layer 0, q_proj, [1, 576] in the cached run and [131, 576] in the recompute; position 100 is the
// first of 31 of 131 that differ; the 1 operation before it gave the same bits"
std::string FirstOpText(const OpComparison& operations) {
  if (!operations.first) {
    return fmt::format("none: the outputs of all {} are the same bits",
                       Count(operations.operations, "operation", "operations"));
  }
  const FirstOp& first = *operations.first;
  return fmt::format(
      "{}{}: [{}, {}] in the cached run, [{}, {}] in the recompute; differs at {} of {} positions, "
      "first at {}; {} before it gave the same bits",
      first.layer ? fmt::format("layer {}, ", *first.layer) : "", first.op, first.cached_rows,
      first.columns, first.recomputed_rows, first.columns, Thousands(first.differing),
      Thousands(first.compared), Thousands(first.position),
      Count(operations.same_before, "operation", "operations"));
}

void AddFirstOps(const DriftRun& run, DriftPage& page) {
  if (!run.arms.front().operations) return;
  page.Fact("First op", "the first operation whose output differs, [rows, columns]:");
  for (const DriftArmResult& result : run.arms) {
    // What differed may have been rounded away before it reached K, V and the tokens.
    const bool absorbed = result.operations->first && AllIdentical(result.drift.kv.total());
    page.More(fmt::format("{}: {}{}", ArmName(result.arm), FirstOpText(*result.operations),
                          absorbed ? "; K and V came out the same bits all the same" : ""));
  }
}

void AddFlips(const DriftRun& run, DriftPage& page) {
  uint64_t flips = 0, picks = 0, left_out = 0;
  for (const DriftArmResult& result : run.arms) {
    flips += result.drift.flips.size();
    picks += result.drift.positions;
    left_out += result.drift.positions_left_out;
  }
  page.Fact("Flips", fmt::format("{} of {} greedy tokens would be another one{}", Thousands(flips),
                                 Thousands(picks),
                                 left_out == 0 ? ""
                                               : fmt::format("; {} more were not compared, their "
                                                             "logits weren't kept",
                                                             Thousands(left_out))));
  size_t shown = 0;
  for (const DriftArmResult& result : run.arms) {
    for (size_t i = 0; i < result.drift.flips.size(); ++i) {
      if (page.text_style() && shown == kTextFlips) {
        page.More(fmt::format("and {} more: all are in -o md and -o json", flips - shown));
        return;
      }
      ++shown;
      page.More(fmt::format("{}: {}", ArmName(result.arm),
                            FlipText(result.drift, i, run.model.geometry.dtype)));
    }
  }
}

void AddLimit(const DriftRun& run, DriftPage& page) {
  if (!run.fail_above_pct) return;
  const auto exceeds = [&](const DriftArmResult& one) { return Exceeds(one, *run.fail_above_pct); };
  const auto failed = std::count_if(run.arms.begin(), run.arms.end(), exceeds);
  page.Fact("Limit", fmt::format("{}: more than {} % of the elements differ in {} of {}",
                                 failed == 0 ? "kept" : "FAIL", *run.fail_above_pct, failed,
                                 Count(run.arms.size(), "arm", "arms")));
}

std::string DriftPageOf(const DriftRun& run, DriftStyle style) {
  DriftPage page(style);
  const KvGeometry& geometry = run.model.geometry;
  const DriftArmResult& base = run.arms.front();
  page.Fact("Model",
            fmt::format("{}, {}: {} layers, {}, head dim {}", Printable(run.model.name),
                        DTypeName(geometry.dtype), geometry.layers,
                        Count(geometry.kv_heads, "KV head", "KV heads"), geometry.head_dim));
  for (const std::string& warning : run.warnings) page.More("note: " + Printable(warning));
  page.Fact("Tokens", TokensText(run));
  page.Fact("Compared",
            "the cache that prefill and decode calls made, with one uncached call over "
            "the same");
  const bool differs = std::ranges::any_of(
      run.arms, [](const DriftArmResult& one) { return !AllIdentical(one.drift.kv.total()); });
  page.More(differs ? "tokens. What differs is rounding, not corruption: sums are taken in another "
                      "order."
                    : "tokens. The two are the same bits.");
  page.Fact("Base", SettingsText(base.arm.settings));
  if (run.arms.size() > 1) page.More("Each other arm changes one of them.");
  page.Add(ArmsTable(run));
  const bool several_sets = std::ranges::any_of(
      run.arms, [](const DriftArmResult& one) { return one.arm.factor == DriftFactor::kKernels; });
  page.Fact("Begins", BeginText(run.begin) +
                          (several_sets ? fmt::format(" ({} kernels)", base.arm.settings.kernels)
                                        : std::string()));
  if (run.begin.ctx_tokens && run.begin.contexts > 1) page.More(ApartText(run.begin));
  page.Fact("Layers", LayersText(base.drift));
  AddFirstOps(run, page);
  AddFlips(run, page);
  AddLimit(run, page);
  if (!page.text_style()) page.Add(LayersTable(base.drift));
  return page.Take();
}

}  // namespace

std::string IdenticalPercent(const DriftPart& part) {
  if (part.elements == 0) return "-";
  if (AllIdentical(part)) return "100";
  const double percent = part.identical_pct();
  return percent >= 99.995 ? ">99.99" : fmt::format("{:.2f}", percent);
}

std::string FlipText(const DriftReport& drift, size_t index, DType dtype) {
  const TokenFlip& flip = drift.flips[index];
  std::string text = fmt::format(
      "position {}: {} (logit {:.6g}) instead of {} ({:.6g})", flip.position,
      ShowToken({flip.recomputed_id, drift.recomputed_texts[index]}), flip.recomputed_logit,
      ShowToken({flip.cached_id, drift.cached_texts[index]}), flip.cached_logit);
  if (flip.top2_gap == 0.0) return text + "; recomputed, the top two are equal";
  if (flip.top2_gap) {
    const double steps = flip.gap_steps.value_or(0);
    text += fmt::format("; recomputed, the top two are {:.3g} apart ({:.3g} {} of {})",
                        *flip.top2_gap, steps, steps == 1 ? "step" : "steps", DTypeName(dtype));
  }
  return text;
}

std::string ArmName(const DriftArm& arm) {
  switch (arm.factor) {
    case DriftFactor::kBase: return "base";
    case DriftFactor::kContext: return "context " + Thousands(arm.settings.ctx_tokens);
    case DriftFactor::kPrefillChunk:
      return "prefill chunk " + Thousands(arm.settings.prefill_chunk);
    case DriftFactor::kThreads: return Count(arm.settings.threads, "thread", "threads");
    case DriftFactor::kKernels: return arm.settings.kernels + " kernels";
  }
  return "?";
}

std::string LimitText(const DriftArmResult& result, double limit_pct) {
  const DriftPart total = result.drift.kv.total();
  return fmt::format("{}: {} of {} K and V elements differ ({:.4g} %), more than --fail-above {} %",
                     ArmName(result.arm), Thousands(total.elements - total.identical),
                     Thousands(total.elements), total.differing_pct(), limit_pct);
}

std::string DriftText(const DriftRun& run) { return DriftPageOf(run, DriftStyle::kText); }
std::string DriftMarkdown(const DriftRun& run) { return DriftPageOf(run, DriftStyle::kMarkdown); }

}  // namespace kvbed
