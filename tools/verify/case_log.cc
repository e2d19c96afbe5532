#include "tools/verify/case_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "offload/bytes.h"
#include "offload/check.h"
#include "offload/clock.h"
#include "offload/digest.h"
#include "tools/interrupt.h"

namespace kvbed {

bool CaseLog::Wants(std::string_view name) const {
  return !stopped() && name.starts_with(options_.only);
}

bool CaseLog::WantsBelow(std::string_view prefix) const {
  return !stopped() && (options_.only.starts_with(prefix) || prefix.starts_with(options_.only));
}

CaseResult CaseLog::Start(std::string name, CaseKind kind) const {
  CaseResult result;
  result.kind = kind;
  // 48 bits: a JSON reader that knows only doubles keeps them.
  result.seed = (Xxh3_64(AsBytes(name)) ^ options_.seed * 0x9E3779B97F4A7C15) >> 16;
  result.replay = fmt::format("{} --case {}", options_.replay_prefix, name);
  result.name = std::move(name);
  result.wall_ns = MonotonicNs();
  return result;
}

void CaseLog::Finish(CaseResult result) {
  KVBED_CHECK(std::none_of(cases_.begin(), cases_.end(),
                           [&](const CaseResult& one) { return one.name == result.name; }));
  KVBED_CHECK((result.status == CaseStatus::kPass) == result.reason.empty());
  result.wall_ns = MonotonicNs() - result.wall_ns;
  cases_.push_back(std::move(result));
  if (options_.on_done) options_.on_done(cases_.back());
}

bool CaseLog::stopped() const { return Interrupted(); }

}  // namespace kvbed
