// The arms of a drift measurement: a base, and one for each other value of each factor, so that two
// factors never change at once; and what the arms say together. It doesn't know the engine: what an
// arm's settings mean is the caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "verify/drift.h"

namespace kvbed {

struct DriftSettings {
  uint64_t ctx_tokens = 0;     // of the prompt
  uint32_t prefill_chunk = 0;  // tokens
  uint32_t threads = 0;        // 0: as many as the process may run on
  std::string kernels;
  bool operator==(const DriftSettings&) const = default;
};

// What an arm changes of the base.
enum class DriftFactor : uint8_t { kBase, kContext, kPrefillChunk, kThreads, kKernels };

// "base", "ctx_tokens", "prefill_chunk", "threads", "kernels"
std::string_view DriftFactorName(DriftFactor factor);

// A count, or the name of a set of kernels.
using DriftValue = std::variant<uint64_t, std::string>;

struct DriftArm {
  DriftFactor factor = DriftFactor::kBase;
  DriftSettings settings;

  std::optional<DriftValue> value() const;  // of the factor; nullopt for the base
  bool operator==(const DriftArm&) const = default;
};

// At least one value each.
struct DriftLists {
  std::vector<uint64_t> ctx_tokens;
  std::vector<uint32_t> prefill_chunks;
  std::vector<uint32_t> threads;
  std::vector<std::string> kernels;
};

// The base first: the longest context, the first chunk, thread count and set of kernels. Then the
// other contexts, ascending; the other chunks, thread counts and sets of kernels in their order. A
// value that stands twice is one arm.
std::vector<DriftArm> PlanDriftArms(const DriftLists& lists);

// What was found at one context.
struct ContextDrift {
  uint64_t ctx_tokens = 0;
  const KvDrift& kv;
  std::optional<uint64_t> first_flip;  // position of the first token that flips
};

// The context at which drift begins: the shortest at which a K or V element or a greedy token
// differs. Longer ones may be free of it again: `differing` counts.
struct DriftBegin {
  uint64_t contexts = 0;
  uint64_t differing = 0;
  std::optional<uint64_t> shortest;           // of all
  std::optional<uint64_t> ctx_tokens;         // the first that differs
  std::optional<uint64_t> position;           // there, the first that differs, from 0
  std::optional<uint32_t> layer;              // there; nullopt when only a token differs
  std::optional<uint64_t> prompt_ctx_tokens;  // the first that differs at a prompt position
  std::optional<uint64_t> decode_ctx_tokens;  // ... at a decode position
  bool operator==(const DriftBegin&) const = default;
};
DriftBegin FindDriftBegin(std::span<const ContextDrift> contexts);

}  // namespace kvbed
