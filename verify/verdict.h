// The verdicts on a restored run: control, bytes, logits, tokens, each equal, differs or not
// assessable with the reason. Drift is no verdict (drift.h); exit codes are the command's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/finding.h"
#include "offload/numeric_environment.h"
#include "offload/offloader.h"
#include "verify/kv_digest.h"
#include "verify/kv_image.h"
#include "verify/logits_trace.h"

namespace kvbed {

enum class VerdictStatus : uint8_t { kEqual, kDiffers, kNotAssessable };
std::string_view VerdictStatusName(VerdictStatus status);  // "equal", "differs", "not_assessable"

// Whether the cached run gives the same bits each time: without that no other verdict means much.
struct ControlVerdict {
  VerdictStatus status = VerdictStatus::kNotAssessable;
  std::string reason;  // what differed first, or why there is no verdict
};

struct BytesVerdict {
  VerdictStatus status = VerdictStatus::kNotAssessable;
  uint64_t compared_bytes = 0;
  // Nullopt where nothing was compared, and where digests alone tell that bits differ.
  std::optional<uint64_t> differing_bits;
  std::vector<Finding> findings;
  std::string reason;
};

struct LogitsVerdict {
  VerdictStatus status = VerdictStatus::kNotAssessable;
  uint64_t steps = 0;           // that both runs have
  uint64_t expected_steps = 0;  // of the run that is compared with
  uint64_t differing_steps = 0;
  std::optional<uint64_t> first_differing_step;
  std::optional<uint64_t> differing_bits;
  std::string reason;
};

struct TokensVerdict {
  VerdictStatus status = VerdictStatus::kNotAssessable;
  uint64_t steps = 0;
  uint64_t expected_steps = 0;
  uint64_t differing_steps = 0;
  std::optional<uint64_t> first_differing_step;
  std::string reason;
};

// Two cached runs of the same tokens in one process.
ControlVerdict JudgeControl(const KvComparison& kv, uint64_t wanted_bytes,
                            const TraceComparison& trace);

// What the restore found and what the comparison with the cached run found, of which `wanted_bytes`
// were to be compared (KvImage::ComparedBytesFor, for each moment at which they are). A finding or
// a differing bit is "differs", also when nothing could be compared after it; a record that could
// not be read, or a comparison that didn't see every byte, is "not assessable" unless something
// differs.
BytesVerdict JudgeBytes(const RestoreReport& restore, const KvComparison& kv,
                        uint64_t wanted_bytes);

// The same against digests that were written down (a ledger); `actual` are those of the restored
// run. Pairs of expected and actual.
struct KvDigestPair {
  KvDigest expected;
  KvDigest actual;
};
BytesVerdict JudgeBytesByDigests(const RestoreReport& restore, const KvGeometry& geometry,
                                 std::span<const KvDigestPair> digests);

// The whole restore against the manifest's digests alone. Not assessable when it didn't verify.
BytesVerdict JudgeBytesByManifest(const RestoreReport& restore, bool verified);

enum class StepCounts {
  kMustAgree,  // two runs of the same length: a missing step is a difference
  kMayDiffer,  // a ledger of another length: what both have is compared
};

// `expected` and `actual` are the environments of the two runs: bits of logits are only comparable
// when they are equal.
LogitsVerdict JudgeLogits(const TraceComparison& trace, StepCounts counts,
                          const NumericEnvironment& expected, const NumericEnvironment& actual);

// Equal tokens are equal in any environment; different ones in another environment prove nothing.
TokensVerdict JudgeTokens(const TraceComparison& trace, StepCounts counts,
                          const NumericEnvironment& expected, const NumericEnvironment& actual);

}  // namespace kvbed
