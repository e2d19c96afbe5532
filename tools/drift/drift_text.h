// Drift for people: a table of the arms, where drift begins, and the tokens that flip, on a
// terminal or as Markdown; and the same with each arm's layers as CSV.
#pragma once

#include <string>

#include "offload/kv_geometry.h"
#include "tools/drift/drift_report.h"
#include "tools/drift/drift_run.h"

namespace kvbed {

// "position 131: " a" 12 instead of " the" 13; ...", with both logits and the top-2 gap.
std::string FlipText(const DriftReport& drift, size_t index, DType dtype);

// "27.61", "100", "-" for no elements; ">99.99" and never "100" for less than all.
std::string IdenticalPercent(const DriftPart& part);

// "context 88", "prefill chunk 64", "2 threads", "torch kernels", "base".
std::string ArmName(const DriftArm& arm);

// What an arm that exceeds the limit gets as its reason.
std::string LimitText(const DriftArmResult& result, double limit_pct);

// The text is short; Markdown has the layers of the base and all flips too.
std::string DriftText(const DriftRun& run);
std::string DriftMarkdown(const DriftRun& run);

// A line for each arm ("all") and for each of its layers.
std::string DriftCsv(const DriftRun& run);

}  // namespace kvbed
