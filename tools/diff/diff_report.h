// The result of `kvbed diff` as text and as kvbed-diff/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/diff/diff_side.h"
#include "tools/result_json.h"
#include "verify/kv_damage.h"
#include "verify/kv_diff.h"

namespace kvbed {

struct DiffOutcome {
  uint64_t tokens = 0;  // compared
  KvDiffReport report;
  std::optional<KvDamage> damage;
};

std::string DiffText(const DiffSide& a, const DiffSide& b, const DiffOutcome& outcome);

// {source, kind, dtype, layers, ...} of one side.
Json DiffSideJson(const DiffSide& side);
// Adds identical_pct, first, layers, damage and the like to `result`.
void AddDiffOutcome(Json& result, const DiffOutcome& outcome);
// The same fields as null, with the reason.
void AddNoDiffOutcome(Json& result, std::string_view reason);

// "K of layer 3, KV head 0, token 17, dim 5: A 0x3f80 (1), B 0x3f81 (1.0078125)"
std::string FirstDifferenceText(const KvDiffReport& report);

}  // namespace kvbed
