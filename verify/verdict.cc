#include "verify/verdict.h"

#include <fmt/format.h>

namespace kvbed {
namespace {

// What a restore alone says of the bytes.
BytesVerdict StartFrom(const RestoreReport& restore) {
  BytesVerdict verdict;
  verdict.status = VerdictStatus::kEqual;
  if (!restore.failed_reads.empty()) {
    verdict.status = VerdictStatus::kNotAssessable;
    verdict.reason = fmt::format("block {} could not be read: {}", restore.failed_reads[0].block,
                                 restore.failed_reads[0].status.ToString());
  }
  verdict.findings = restore.findings;
  if (!verdict.findings.empty()) {
    verdict.status = VerdictStatus::kDiffers;
    verdict.reason = verdict.findings[0].message;
  }
  return verdict;
}

void NotAssessable(BytesVerdict& verdict, std::string reason) {
  if (verdict.status != VerdictStatus::kEqual) return;
  verdict.status = VerdictStatus::kNotAssessable;
  verdict.reason = std::move(reason);
}

void Differs(BytesVerdict& verdict, std::string reason) {
  if (verdict.status != VerdictStatus::kDiffers) verdict.reason = std::move(reason);
  verdict.status = VerdictStatus::kDiffers;
}

// Why the steps that were compared don't make a whole; empty when they do.
std::string StepsMissing(const TraceComparison& trace, StepCounts counts) {
  if (counts == StepCounts::kMayDiffer || trace.reference_steps == trace.other_steps) return {};
  return fmt::format("{} steps instead of {}", trace.other_steps, trace.reference_steps);
}

// The part that the logits' and the tokens' verdict share. `differing` and `first` are the kind's.
template <class Verdict>
Verdict JudgeSteps(const TraceComparison& trace, StepCounts counts, std::string_view what,
                   uint64_t differing, const std::optional<uint64_t>& first) {
  Verdict verdict;
  verdict.steps = trace.steps;
  verdict.expected_steps = trace.reference_steps;
  verdict.differing_steps = differing;
  verdict.first_differing_step = first;
  if (first) {
    verdict.status = VerdictStatus::kDiffers;
    verdict.reason = fmt::format("{} of {} of {} steps differ, first those of step {}", what,
                                 differing, trace.steps, *first);
  } else if (std::string missing = StepsMissing(trace, counts); !missing.empty()) {
    verdict.status = VerdictStatus::kDiffers;
    verdict.reason = std::move(missing);
  } else if (trace.steps == 0) {
    verdict.reason = "no step to compare";
  } else {
    verdict.status = VerdictStatus::kEqual;
  }
  return verdict;
}

}  // namespace

std::string_view VerdictStatusName(VerdictStatus status) {
  switch (status) {
    case VerdictStatus::kEqual: return "equal";
    case VerdictStatus::kDiffers: return "differs";
    case VerdictStatus::kNotAssessable: return "not_assessable";
  }
  return "unknown";
}

ControlVerdict JudgeControl(const KvComparison& kv, uint64_t wanted_bytes,
                            const TraceComparison& trace) {
  ControlVerdict verdict;
  const auto differs = [&](std::string reason) {
    verdict.status = VerdictStatus::kDiffers;
    verdict.reason = std::move(reason);
  };
  if (trace.first_logits_step) {
    differs(fmt::format("the logits of step {}", *trace.first_logits_step));
  } else if (trace.first_token_step) {
    differs(fmt::format("the token of step {}", *trace.first_token_step));
  } else if (trace.reference_steps != trace.other_steps) {
    differs(StepsMissing(trace, StepCounts::kMustAgree));
  } else if (kv.differing_bits != 0) {
    differs(kv.first ? kv.first->message : fmt::format("{} bits of KV", kv.differing_bits));
  } else if (kv.compared_bytes != wanted_bytes) {
    verdict.reason =
        fmt::format("{} of {} bytes of KV were compared", kv.compared_bytes, wanted_bytes);
  } else if (trace.steps == 0 || wanted_bytes == 0) {
    verdict.reason = "nothing to compare";
  } else {
    verdict.status = VerdictStatus::kEqual;
  }
  return verdict;
}

BytesVerdict JudgeBytes(const RestoreReport& restore, const KvComparison& kv,
                        uint64_t wanted_bytes) {
  BytesVerdict verdict = StartFrom(restore);
  verdict.compared_bytes = kv.compared_bytes;
  if (kv.compared_bytes != 0) verdict.differing_bits = kv.differing_bits;
  if (kv.first) verdict.findings.push_back(*kv.first);
  if (kv.differing_bits != 0) {
    Differs(verdict, kv.first ? kv.first->message : std::string("K or V differ"));
  } else if (kv.compared_bytes != wanted_bytes) {
    NotAssessable(verdict, fmt::format("only {} of {} bytes of K and V could be compared",
                                       kv.compared_bytes, wanted_bytes));
  } else if (wanted_bytes == 0) {
    NotAssessable(verdict, "no K or V was compared");
  }
  return verdict;
}

BytesVerdict JudgeBytesByDigests(const RestoreReport& restore, const KvGeometry& geometry,
                                 std::span<const KvDigestPair> digests) {
  BytesVerdict verdict = StartFrom(restore);
  bool equal = true;
  for (const auto& [expected, actual] : digests) {
    if (const std::string difference = expected.DifferenceFrom(actual); !difference.empty()) {
      equal = false;
      Differs(verdict, fmt::format("the digests of K and V of {} tokens differ: {}",
                                   expected.tokens, difference));
    }
    verdict.compared_bytes += actual.tokens * geometry.kv_bytes_per_token();
  }
  if (verdict.compared_bytes == 0) NotAssessable(verdict, "no K or V was compared");
  if (verdict.compared_bytes != 0 && equal) verdict.differing_bits = 0;
  return verdict;
}

BytesVerdict JudgeBytesByManifest(const RestoreReport& restore, bool verified) {
  BytesVerdict verdict = StartFrom(restore);
  if (!verified) NotAssessable(verdict, "the records were not verified");
  if (restore.blocks == 0) NotAssessable(verdict, "the snapshot holds no K or V");
  if (verdict.status == VerdictStatus::kEqual) {
    verdict.compared_bytes = restore.kv_bytes;
    verdict.differing_bits = 0;
  }
  return verdict;
}

LogitsVerdict JudgeLogits(const TraceComparison& trace, StepCounts counts,
                          const NumericEnvironment& expected, const NumericEnvironment& actual) {
  auto verdict = JudgeSteps<LogitsVerdict>(trace, counts, "the logits",
                                           trace.differing_logits_steps, trace.first_logits_step);
  verdict.differing_bits = trace.differing_bits;
  if (!expected.GivesTheBitsOf(actual)) {
    verdict.status = VerdictStatus::kNotAssessable;
    verdict.reason = "another numeric environment: " + expected.DifferenceFrom(actual);
  }
  return verdict;
}

TokensVerdict JudgeTokens(const TraceComparison& trace, StepCounts counts,
                          const NumericEnvironment& expected, const NumericEnvironment& actual) {
  auto verdict = JudgeSteps<TokensVerdict>(trace, counts, "the tokens", trace.differing_token_steps,
                                           trace.first_token_step);
  if (!expected.GivesTheBitsOf(actual) && verdict.status == VerdictStatus::kDiffers) {
    verdict.status = VerdictStatus::kNotAssessable;
    verdict.reason += "; another numeric environment: " + expected.DifferenceFrom(actual);
  }
  return verdict;
}

}  // namespace kvbed
