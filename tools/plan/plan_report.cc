#include "tools/plan/plan_report.h"

#include <fmt/format.h>

#include "tools/console.h"
#include "tools/plan/plan_answer.h"
#include "tools/text_table.h"
#include "tools/plan/plan_wording.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr size_t kLabelWidth = 12;

// Lines with a label before them, and tables.
class PlanPage {
 public:
  explicit PlanPage(PlanStyle style) : style_(style) {}

  // Names and sources are shown without what would steer a terminal.
  void Fact(std::string_view label, std::string_view text) {
    text_ += style_ == PlanStyle::kText
                 ? fmt::format("{:<{}}{}\n", label, kLabelWidth, Printable(text))
                 : fmt::format("- {}: {}\n", label, Printable(text));
  }
  void Add(const TextTable& table) {
    text_ += "\n";
    text_ += style_ == PlanStyle::kText ? table.AsText(2) : table.AsMarkdown();
  }
  void Title(std::string_view text) { text_ += fmt::format("\n{}\n", text); }
  void Blank() { text_ += "\n"; }
  std::string Take() { return std::move(text_); }

 private:
  PlanStyle style_;
  std::string text_;
};

template <class T, class Show>
std::string Shown(const std::optional<T>& value, Show show) {
  return value ? show(*value) : std::string("-");
}

std::string HeadsText(const ModelShape& shape) {
  if (shape.latent) {
    return fmt::format("{} heads (MLA), latent {} + rotary {} dims", shape.heads,
                       shape.latent->kv_lora_rank, shape.latent->qk_rope_head_dim);
  }
  return fmt::format("{} query and {} KV {} ({}), head dim {}", shape.heads, shape.kv_heads,
                     shape.kv_heads == 1 ? "head" : "heads",
                     AttentionKindName(AttentionKindOf(shape)), shape.head_dim);
}

std::string WeightsText(const Plan& plan) {
  const PlanVariant& own = plan.own();
  std::string text = fmt::format("{} parameters, {}: {} bytes ({}, {})", Thousands(own.parameters),
                                 DTypeName(plan.request.weight_dtype), Thousands(own.weight_bytes),
                                 Gigabytes(own.weight_bytes), Gibibytes(own.weight_bytes));
  if (own.shape.experts) text += fmt::format("; all {} experts", own.shape.experts->count);
  return text;
}

std::string KvText(const Plan& plan) {
  const PlanVariant& own = plan.own();
  const uint64_t whole = own.kv_bytes_per_token / own.split.replicas;
  return fmt::format("{} bytes a token, {}: {}", Thousands(whole), DTypeName(plan.request.kv_dtype),
                     KvFormula(own.shape, plan.request.kv_dtype));
}

std::string RanksText(const Plan& plan) {
  const KvSplit& split = plan.own().split;
  const uint64_t rank_bytes = plan.own().kv_bytes_per_token / split.ranks;
  if (plan.own().shape.latent) {
    return fmt::format("{} ranks: latent rows can't be split, so each holds all {} bytes a token",
                       split.ranks, Thousands(rank_bytes));
  }
  std::string text =
      fmt::format("{} ranks: each holds {} and {} bytes a token", split.ranks,
                  Count(split.rank_kv_heads, "KV head", "KV heads"), Thousands(rank_bytes));
  if (split.replicas > 1) {
    text += fmt::format(
        "; there are fewer KV heads than ranks, so {} ranks hold the same one, and "
        "the sizes below count it {} times",
        split.replicas, split.replicas);
  }
  return text;
}

void AddShape(const Plan& plan, PlanPage& page) {
  const ModelShape& shape = plan.own().shape;
  page.Fact("Shape", fmt::format("{} ({}): {} layers, {}", shape.name, shape.source, shape.layers,
                                 HeadsText(shape)));
  page.Fact("Weights", WeightsText(plan));
  page.Fact("KV", KvText(plan));
  if (plan.request.tp > 1) page.Fact("Ranks", RanksText(plan));
  if (shape.window) {
    page.Fact("Window",
              fmt::format("{} of {} layers keep the last {} tokens and no more",
                          shape.window->layers, shape.layers, Thousands(shape.window->tokens)));
  }
  if (shape.max_position > 0 && plan.answer.ctx_tokens > shape.max_position) {
    page.Fact("Context", fmt::format("the model was made for {} tokens: longer ones are arithmetic",
                                     Thousands(shape.max_position)));
  }
}

void AddRates(const Plan& plan, PlanPage& page) {
  if (const auto& disk = plan.request.disk_gb_per_s) {
    page.Fact("Disk", fmt::format("{} GB/s, {}", ThreeDigits(disk->value), disk->source));
  }
  if (const auto& prefill = plan.request.prefill_tok_per_s) {
    page.Fact("Prefill",
              fmt::format("{} tokens/s, {}", ThreeDigits(prefill->value), prefill->source));
  }
}

TextTable SizesTable(const Plan& plan) {
  TextTable table{.titles = {"context", "users", "KV bytes", "GB", "GiB", "x weights", "restore",
                             "prefill", "break-even GB/s"},
                  .rows = {}};
  for (const PlanRow& row : plan.variants.front().rows) {
    table.rows.push_back({Thousands(row.ctx_tokens), Thousands(row.users), Thousands(row.kv_bytes),
                          fmt::format("{:.3f}", static_cast<double>(row.kv_bytes) / 1e9),
                          fmt::format("{:.3f}", static_cast<double>(row.kv_bytes) / (1 << 30)),
                          ThreeDigits(row.ratio), Shown(row.restore_s, Seconds),
                          Shown(row.prefill_s, Seconds),
                          Shown(row.break_even_gb_per_s, ThreeDigits)});
  }
  return table;
}

// The longest context, one column for each number of users.
TextTable VariantsTable(const Plan& plan) {
  TextTable table{.titles = {"variant", "KV heads", "bytes a token", "weight bytes"}, .rows = {}};
  for (uint64_t users : plan.request.users) {
    table.titles.push_back(fmt::format("x weights, {}", Count(users, "user", "users")));
  }
  for (const PlannedVariant& planned : plan.variants) {
    const PlanVariant& variant = planned.variant;
    std::vector<std::string> fields = {
        fmt::format("{}{}", AttentionKindName(AttentionKindOf(variant.shape)),
                    variant.own ? ", as it is" : ""),
        variant.shape.latent ? "-" : Thousands(variant.shape.kv_heads),
        Thousands(variant.kv_bytes_per_token), Thousands(variant.weight_bytes)};
    for (uint64_t users : plan.request.users) {
      for (const PlanRow& row : planned.rows) {
        if (row.ctx_tokens != plan.answer.ctx_tokens || row.users != users) continue;
        fields.push_back(ThreeDigits(row.ratio));
        break;
      }
    }
    table.rows.push_back(std::move(fields));
  }
  return table;
}

TextTable FitsTable(const Plan& plan) {
  TextTable table{.titles = {"context", "users in memory", "users on disk"}, .rows = {}};
  uint64_t last_ctx = 0;
  for (const PlanRow& row : plan.variants.front().rows) {
    if (row.ctx_tokens == last_ctx) continue;
    last_ctx = row.ctx_tokens;
    table.rows.push_back({Thousands(row.ctx_tokens), Shown(row.users_in_memory, Thousands),
                          Shown(row.users_on_disk, Thousands)});
  }
  return table;
}

std::string FitsTitle(const Plan& plan) {
  std::string text = "What fits:";
  if (const auto memory = plan.request.memory_bytes) {
    const uint64_t rank_weights = (plan.own().weight_bytes - 1) / plan.request.tp + 1;
    text += fmt::format(" {} of memory{}, {} of them weights{}", Gibibytes(*memory),
                        plan.request.tp > 1 ? " a rank" : "", Gibibytes(rank_weights),
                        *memory < rank_weights ? ", which don't fit (--tp, --weight-dtype)" : "");
  }
  if (const auto disk = plan.request.disk_bytes) {
    text += fmt::format("{} {} of disk", plan.request.memory_bytes ? ";" : "", Gigabytes(*disk));
  }
  return text;
}

void AddClaims(const Plan& plan, PlanPage& page) {
  if (!plan.request.claim_seconds) return;
  page.Blank();
  for (const PlanRow& row : plan.variants.front().rows) {
    page.Fact(
        "Claim",
        fmt::format("{} tokens, {} restored in {} ({}) means {} GB/s", Thousands(row.ctx_tokens),
                    Count(row.users, "user", "users"), Seconds(plan.request.claim_seconds->value),
                    plan.request.claim_seconds->source, ThreeDigits(*row.claim_gb_per_s)));
  }
}

}  // namespace

std::string PlanReport(const Plan& plan, PlanStyle style) {
  PlanPage page(style);
  AddShape(plan, page);
  AddRates(plan, page);
  page.Add(SizesTable(plan));
  if (plan.variants.size() > 1) {
    page.Title(
        fmt::format("Variants of the model at {} tokens:", Thousands(plan.answer.ctx_tokens)));
    page.Add(VariantsTable(plan));
  }
  if (plan.request.memory_bytes || plan.request.disk_bytes) {
    page.Title(FitsTitle(plan));
    page.Add(FitsTable(plan));
  }
  AddClaims(plan, page);
  page.Blank();
  page.Fact("Answer", PlanAnswer(plan));
  return page.Take();
}

}  // namespace kvbed
