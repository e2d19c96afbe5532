#include "tools/plan/plan_answer.h"

#include <fmt/format.h>

#include "tools/plan/plan_wording.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

// Bytes of KV for each token of the context; fewer than a token's own where a window is full.
double BytesPerContextToken(const PlanRow& row) {
  return static_cast<double>(row.kv_bytes) / static_cast<double>(row.ctx_tokens);
}

std::string RestoreText(const Plan& plan) {
  const SourcedValue& disk = *plan.request.disk_gb_per_s;
  return fmt::format("a restore takes {} at {} GB/s ({})", Seconds(*plan.answer.restore_s),
                     ThreeDigits(disk.value), disk.source);
}

std::string PrefillText(const Plan& plan) {
  const SourcedValue& prefill = *plan.request.prefill_tok_per_s;
  return fmt::format("a prefill takes {} at {} tokens/s ({})", Seconds(*plan.answer.prefill_s),
                     ThreeDigits(prefill.value), prefill.source);
}

std::string BreakEvenOfRate(const Plan& plan) {
  return fmt::format("{} GB/s for each 1,000 tokens/s of prefill",
                     ThreeDigits(BytesPerContextToken(plan.answer) * 1000 / 1e9));
}

std::string VerdictText(const PlanRow& row) {
  const double restore = *row.restore_s, prefill = *row.prefill_s;
  if (restore < prefill) {
    return fmt::format("the SSD helps, {} saved, {} times as fast", Seconds(prefill - restore),
                       ThreeDigits(prefill / restore));
  }
  if (restore == prefill) return "the SSD neither helps nor harms";
  return fmt::format("the SSD doesn't help, {} lost, computing again is {} times as fast",
                     Seconds(restore - prefill), ThreeDigits(restore / prefill));
}

std::string FromBothRates(const Plan& plan) {
  return fmt::format("{} and {}: {}; the break-even bandwidth is {} GB/s.", RestoreText(plan),
                     PrefillText(plan), VerdictText(plan.answer),
                     ThreeDigits(*plan.answer.break_even_gb_per_s));
}

std::string FromDiskAlone(const Plan& plan) {
  const std::string& why = plan.request.no_prefill_reason;
  return fmt::format(
      "{}; no prefill rate is known ({}--prefill-tok-per-s), so the prefill takes {}/R s at R "
      "tokens/s: the SSD helps where R is below {} tokens/s, and the break-even bandwidth is {}.",
      RestoreText(plan), why.empty() ? "" : why + "; give ", Thousands(plan.answer.ctx_tokens),
      ThreeDigits(*plan.answer.break_even_tok_per_s), BreakEvenOfRate(plan));
}

std::string FromPrefillAlone(const Plan& plan) {
  return fmt::format(
      "{}; no bandwidth is known (--disk-gb-per-s or --from), so the restore takes {:.4g}/B s at B "
      "GB/s: the SSD helps where B is above the break-even bandwidth, {} GB/s.",
      PrefillText(plan), static_cast<double>(plan.answer.kv_bytes) / 1e9,
      ThreeDigits(*plan.answer.break_even_gb_per_s));
}

std::string FromNoRate(const Plan& plan) {
  return fmt::format(
      "a restore takes {:.4g}/B s at B GB/s and a prefill {}/R s at R tokens/s; neither rate is "
      "known (--disk-gb-per-s or --from, --prefill-tok-per-s), so the SSD helps where B is above "
      "the break-even bandwidth, {}.",
      static_cast<double>(plan.answer.kv_bytes) / 1e9, Thousands(plan.answer.ctx_tokens),
      BreakEvenOfRate(plan));
}

std::string Body(const Plan& plan) {
  const bool disk = plan.request.disk_gb_per_s.has_value();
  const bool prefill = plan.request.prefill_tok_per_s.has_value();
  if (disk && prefill) return FromBothRates(plan);
  if (disk) return FromDiskAlone(plan);
  return prefill ? FromPrefillAlone(plan) : FromNoRate(plan);
}

}  // namespace

std::string PlanAnswer(const Plan& plan) {
  return fmt::format(
      "For {} tokens of {} ({} of {} KV{}) {}", Thousands(plan.answer.ctx_tokens),
      plan.request.shape.name, Gigabytes(plan.answer.kv_bytes), DTypeName(plan.request.kv_dtype),
      plan.request.tp > 1 ? fmt::format(" on {} ranks", plan.request.tp) : "", Body(plan));
}

}  // namespace kvbed
