#include "tools/bench/ttft_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace kvbed {
namespace {

constexpr double kPartsWithin = 0.02;

// The sample whose total is the middle one; all values of one arm come from it.
template <class Sample, class Total>
const Sample& MedianBy(const std::vector<Sample>& samples, const Total& total) {
  std::vector<const Sample*> order;
  for (const Sample& sample : samples) order.push_back(&sample);
  std::sort(order.begin(), order.end(),
            [&](const Sample* a, const Sample* b) { return total(*a) < total(*b); });
  return *order[(order.size() - 1) / 2];
}

const TtftRestore& MedianRestore(const TtftSamples& samples) {
  return MedianBy(samples.restore, [](const TtftRestore& one) { return one.total_ns; });
}

const Recomputed& MedianRecomputed(const TtftSamples& samples) {
  return MedianBy(samples.recompute,
                  [](const Recomputed& one) { return one.prefill_ns + one.first_decode_ns; });
}

uint64_t MedianNs(const std::vector<uint64_t>& samples) {
  return MedianBy(samples, [](uint64_t one) { return one; });
}

// Of all sequences, one after the other.
double PrefillTokens(const BenchCell& cell) {
  return static_cast<double>(cell.sequences) * static_cast<double>(cell.ctx_tokens);
}

uint64_t GivenPrefillNs(const BenchCell& cell) {
  return static_cast<uint64_t>(std::llround(PrefillTokens(cell) / cell.prefill->value * 1e9));
}

// 292 years, what a signed count of nanoseconds holds.
constexpr double kPrefillNsMost = 9.2e18;

bool HasRestored(const Measurement& m) { return m.ttft && !m.ttft->restore.empty(); }

Json RestoreArm(const TtftRestore& one, size_t n) {
  return {{"lookup_ns", one.lookup_ns},
          {"read_ns", one.read_ns},
          {"verify_ns", one.verify_ns},
          {"first_decode_ns", one.first_decode_ns},
          {"overlap_ns", one.overlap_ns},
          {"total_ns", one.total_ns},
          {"n", n}};
}

// The rate that was given is another machine's; its first decode call isn't known.
Json GivenArm(const Measurement& m) {
  Json arm;
  arm["prefill_ns"] = GivenPrefillNs(m.cell);
  SetNull(arm, "first_decode_ns", "a prefill rate was given, not a time to the first token");
  arm["total_ns"] = arm["prefill_ns"];
  arm["device"] = m.cell.prefill->source;
  arm["given"] = true;
  arm["tok_per_s"] = m.cell.prefill->value;
  return arm;
}

Json MeasuredArm(const Measurement& m) {
  const Recomputed& one = MedianRecomputed(*m.ttft);
  Json arm;
  arm["prefill_ns"] = one.prefill_ns;
  arm["first_decode_ns"] = one.first_decode_ns;
  arm["total_ns"] = one.prefill_ns + one.first_decode_ns;
  arm["device"] = "this machine's CPU";
  arm["given"] = false;
  arm["tok_per_s"] = PrefillTokens(m.cell) * 1e9 / static_cast<double>(one.prefill_ns);
  arm["n"] = m.ttft->recompute.size();
  return arm;
}

uint64_t MedianRestoreWallNs(const Measurement& m) {
  return MedianBy(m.restore, [](const RestoreSample& one) { return one.wall_ns; }).wall_ns;
}

}  // namespace

Status CheckGivenPrefill(const BenchCell& cell) {
  if (!cell.prefill) return Status::Ok();
  const double ns = PrefillTokens(cell) / cell.prefill->value * 1e9;
  if (ns >= 1 && ns <= kPrefillNsMost) return Status::Ok();
  return Status::InvalidArgument(fmt::format(
      "--prefill-tok-per-s {}: {} tokens take {} at this rate: is it tokens in a second?",
      cell.prefill->value, PrefillTokens(cell),
      ns < 1 ? "less than a nanosecond" : "more than 292 years"));
}

std::optional<RestoreWorth> WorthOf(const Measurement& m) {
  RestoreWorth worth;
  if (m.restore.empty()) return std::nullopt;
  if (m.cell.prefill) {
    worth.prefill_ns = worth.recompute_ns = GivenPrefillNs(m.cell);
    worth.restore_ns = MedianRestoreWallNs(m);
    return worth;
  }
  if (!HasRestored(m) || m.ttft->recompute.empty()) return std::nullopt;
  const Recomputed& recomputed = MedianRecomputed(*m.ttft);
  worth.prefill_ns = recomputed.prefill_ns;
  worth.recompute_ns = recomputed.prefill_ns + recomputed.first_decode_ns;
  worth.restore_ns = MedianRestore(*m.ttft).total_ns;
  return worth;
}

std::optional<TtftRestore> MedianTtftRestore(const Measurement& m) {
  return HasRestored(m) ? std::optional(MedianRestore(*m.ttft)) : std::nullopt;
}

std::string PartsThatDontSum(const TtftRestore& one) {
  const double sum =
      static_cast<double>(one.lookup_ns + one.read_ns + one.verify_ns + one.first_decode_ns) -
      static_cast<double>(one.overlap_ns);
  const auto total = static_cast<double>(one.total_ns);
  if (std::abs(sum - total) <= kPartsWithin * total) return "";
  return fmt::format("the parts of the time to the first token sum to {:.1f} % of its {:.3f} ms",
                     100 * sum / total, total / 1e6);
}

Json TtftJson(const Measurement& m) {
  Json out;
  const std::string reason = m.ttft_reason.empty() ? "no repetition" : m.ttft_reason;
  if (HasRestored(m)) {
    out["restore"] = RestoreArm(MedianRestore(*m.ttft), m.ttft->restore.size());
  } else {
    SetNull(out, "restore", reason);
  }
  if (m.cell.prefill) {
    out["recompute"] = GivenArm(m);
  } else if (m.ttft && !m.ttft->recompute.empty()) {
    out["recompute"] = MeasuredArm(m);
  } else {
    SetNull(out, "recompute", reason);
  }
  const auto total = [&](const char* name, std::vector<uint64_t> TtftSamples::*samples) {
    if (m.ttft && !((*m.ttft).*samples).empty()) {
      out[name] = {{"total_ns", MedianNs((*m.ttft).*samples)}, {"n", ((*m.ttft).*samples).size()}};
    } else {
      SetNull(out, name, reason);
    }
  };
  total("in_memory", &TtftSamples::in_memory_ns);
  total("ram_copy", &TtftSamples::ram_copy_ns);
  return out;
}

Json BreakEvenJson(const Measurement& m, const std::optional<SmallerContext>& previous) {
  Json out;
  const auto worth = WorthOf(m);
  if (!worth) {
    const std::string reason =
        "nothing to compare a restore with: no model runs (-m MODEL), and no --prefill-tok-per-s "
        "was given";
    for (const char* name :
         {"ctx_tokens", "bandwidth_gb_per_s", "restores_to_amortise", "seconds_saved"}) {
      SetNull(out, name, reason);
    }
    return out;
  }
  const double saved_ns =
      static_cast<double>(worth->recompute_ns) - static_cast<double>(worth->restore_ns);
  out["seconds_saved"] = saved_ns / 1e9;
  out["bandwidth_gb_per_s"] =
      static_cast<double>(m.cell.stored_bytes()) / static_cast<double>(worth->prefill_ns);
  if (saved_ns > 0 && !m.offload.empty()) {
    const uint64_t offload_ns =
        MedianBy(m.offload, [](const OffloadSample& one) { return one.durable_ns(); }).durable_ns();
    out["restores_to_amortise"] =
        static_cast<uint64_t>(std::ceil(static_cast<double>(offload_ns) / saved_ns));
  } else {
    SetNull(out, "restores_to_amortise", "a restore saves no time here");
  }
  if (!previous) {
    SetNull(out, "ctx_tokens",
            saved_ns > 0 ? "restoring is faster already here, at the smallest context"
                         : "recomputing is faster here, and no smaller context was measured");
    return out;
  }
  const double before_ns = static_cast<double>(previous->worth.recompute_ns) -
                           static_cast<double>(previous->worth.restore_ns);
  if ((before_ns > 0) == (saved_ns > 0)) {
    SetNull(out, "ctx_tokens",
            saved_ns > 0 ? "restoring is faster here and at the context before"
                         : "recomputing is faster here and at the context before");
    return out;
  }
  const double step =
      static_cast<double>(m.cell.ctx_tokens) - static_cast<double>(previous->ctx_tokens);
  out["ctx_tokens"] = static_cast<uint64_t>(std::llround(
      static_cast<double>(previous->ctx_tokens) + step * before_ns / (before_ns - saved_ns)));
  return out;
}

}  // namespace kvbed
