#include "verify/drift_arms.h"

#include <algorithm>

#include "offload/check.h"

namespace kvbed {
namespace {

bool Differs(const DriftPart& part) { return part.identical != part.elements; }

void TakeSmallest(std::optional<uint64_t>& smallest, uint64_t value) {
  smallest = std::min(smallest.value_or(value), value);
}

}  // namespace

std::string_view DriftFactorName(DriftFactor factor) {
  switch (factor) {
    case DriftFactor::kBase: return "base";
    case DriftFactor::kContext: return "ctx_tokens";
    case DriftFactor::kPrefillChunk: return "prefill_chunk";
    case DriftFactor::kThreads: return "threads";
    case DriftFactor::kKernels: return "kernels";
  }
  return "?";
}

std::optional<DriftValue> DriftArm::value() const {
  switch (factor) {
    case DriftFactor::kBase: return std::nullopt;
    case DriftFactor::kContext: return settings.ctx_tokens;
    case DriftFactor::kPrefillChunk: return uint64_t{settings.prefill_chunk};
    case DriftFactor::kThreads: return uint64_t{settings.threads};
    case DriftFactor::kKernels: return settings.kernels;
  }
  return std::nullopt;
}

std::vector<DriftArm> PlanDriftArms(const DriftLists& lists) {
  KVBED_CHECK(!lists.ctx_tokens.empty() && !lists.prefill_chunks.empty());
  KVBED_CHECK(!lists.threads.empty() && !lists.kernels.empty());
  std::vector<uint64_t> contexts = lists.ctx_tokens;
  std::sort(contexts.begin(), contexts.end());
  const DriftSettings base = {contexts.back(), lists.prefill_chunks.front(), lists.threads.front(),
                              lists.kernels.front()};
  std::vector<DriftArm> arms = {{DriftFactor::kBase, base}};
  const auto add = [&](DriftFactor factor, const auto& change) {
    DriftArm arm = {factor, base};
    change(arm.settings);
    const bool there = std::any_of(arms.begin(), arms.end(), [&](const DriftArm& one) {
      return one.settings == arm.settings;
    });
    if (!there) arms.push_back(std::move(arm));
  };
  for (uint64_t tokens : contexts) {
    add(DriftFactor::kContext, [&](DriftSettings& arm) { arm.ctx_tokens = tokens; });
  }
  for (uint32_t chunk : lists.prefill_chunks) {
    add(DriftFactor::kPrefillChunk, [&](DriftSettings& arm) { arm.prefill_chunk = chunk; });
  }
  for (uint32_t threads : lists.threads) {
    add(DriftFactor::kThreads, [&](DriftSettings& arm) { arm.threads = threads; });
  }
  for (const std::string& kernels : lists.kernels) {
    add(DriftFactor::kKernels, [&](DriftSettings& arm) { arm.kernels = kernels; });
  }
  return arms;
}

DriftBegin FindDriftBegin(std::span<const ContextDrift> contexts) {
  DriftBegin begin;
  begin.contexts = contexts.size();
  for (const ContextDrift& one : contexts) {
    TakeSmallest(begin.shortest, one.ctx_tokens);
    if (Differs(one.kv.prompt())) TakeSmallest(begin.prompt_ctx_tokens, one.ctx_tokens);
    if (Differs(one.kv.decode())) TakeSmallest(begin.decode_ctx_tokens, one.ctx_tokens);
    if (!one.kv.first_position && !one.first_flip) continue;
    ++begin.differing;
    if (begin.ctx_tokens && *begin.ctx_tokens <= one.ctx_tokens) continue;
    begin.ctx_tokens = one.ctx_tokens;
    begin.layer = one.kv.first_layer;
    begin.position = one.kv.first_position;
    if (one.first_flip) TakeSmallest(begin.position, *one.first_flip);
  }
  return begin;
}

}  // namespace kvbed
