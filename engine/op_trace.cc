#include "engine/op_trace.h"

#include <algorithm>

#include "offload/digest.h"

namespace kvbed {
namespace {

// `expected`: where it is when both passes have the same operations.
const OpTrace::Operation* FindOperation(const OpTrace& trace, const OpTrace::Operation& like,
                                        size_t expected) {
  const auto& all = trace.operations();
  const auto same = [&](const OpTrace::Operation& one) {
    return one.op == like.op && one.layer == like.layer && one.columns == like.columns;
  };
  if (expected < all.size() && same(all[expected])) return &all[expected];
  const auto found = std::ranges::find_if(all, same);
  return found == all.end() ? nullptr : &*found;
}

std::optional<FirstOp> DifferenceOf(const OpTrace::Operation& cached,
                                    const OpTrace::Operation& recomputed) {
  FirstOp first{.op = cached.op, .layer = cached.layer, .columns = cached.columns};
  const size_t positions = std::min(cached.rows.size(), recomputed.rows.size());
  for (size_t position = 0; position < positions; ++position) {
    const OpTrace::Row& ours = cached.rows[position];
    const OpTrace::Row& theirs = recomputed.rows[position];
    if (ours.rows == 0 || theirs.rows == 0) continue;
    ++first.compared;
    if (ours.digest == theirs.digest || ++first.differing > 1) continue;
    first.position = position;
    first.cached_rows = ours.rows;
    first.recomputed_rows = theirs.rows;
  }
  return first.differing > 0 ? std::optional(first) : std::nullopt;
}

}  // namespace

void OpTrace::Note(const OpOutput& output) {
  const auto same = [&](const Operation& one) {
    return one.op == output.op && one.layer == output.layer;
  };
  auto found = std::ranges::find_if(operations_, same);
  if (found == operations_.end()) {
    operations_.push_back({.op = std::string(output.op),
                           .layer = output.layer,
                           .columns = output.columns,
                           .rows = {}});
    found = std::prev(operations_.end());
  }
  const uint64_t end = output.first_position + output.rows;
  if (found->rows.size() < end) found->rows.resize(end);
  for (uint64_t row = 0; row < output.rows; ++row) {
    found->rows[output.first_position + row] = {Xxh3_64(output.Row(row)),
                                                static_cast<uint32_t>(output.rows)};
  }
}

OpComparison CompareOperations(const OpTrace& cached, const OpTrace& recomputed) {
  OpComparison comparison;
  for (size_t i = 0; i < cached.operations().size(); ++i) {
    const OpTrace::Operation& ours = cached.operations()[i];
    const OpTrace::Operation* const theirs = FindOperation(recomputed, ours, i);
    if (theirs == nullptr) continue;
    ++comparison.operations;
    if (comparison.first) continue;
    comparison.first = DifferenceOf(ours, *theirs);
    if (!comparison.first) ++comparison.same_before;
  }
  return comparison;
}

}  // namespace kvbed
