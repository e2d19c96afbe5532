#include "offload/fault_plan.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace kvbed {
namespace {

constexpr std::array<std::pair<FaultKind, std::string_view>, 15> kNames{{
    {FaultKind::kBitFlip, "bit_flip"},
    {FaultKind::kShortTransfer, "short_transfer"},
    {FaultKind::kTornWrite, "torn_write"},
    {FaultKind::kMisdirectedRead, "misdirected_read"},
    {FaultKind::kMisdirectedWrite, "misdirected_write"},
    {FaultKind::kStaleRecord, "stale_record"},
    {FaultKind::kLostWrites, "lost_writes"},
    {FaultKind::kReorderedWrites, "reordered_writes"},
    {FaultKind::kFailedSync, "failed_sync"},
    {FaultKind::kEio, "eio"},
    {FaultKind::kEnospc, "enospc"},
    {FaultKind::kEagain, "eagain"},
    {FaultKind::kEintr, "eintr"},
    {FaultKind::kDelay, "delay"},
    {FaultKind::kKill, "kill"},
}};

}  // namespace

std::string_view FaultKindName(FaultKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

Result<FaultKind> ParseFaultKind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return Status::InvalidArgument(fmt::format("'{}' is not a fault", name));
}

bool FaultCanStrike(FaultKind kind, FaultTarget operation) {
  const bool data = operation == FaultTarget::kRead || operation == FaultTarget::kWrite;
  switch (kind) {
    case FaultKind::kBitFlip:
    case FaultKind::kShortTransfer: return data;
    case FaultKind::kMisdirectedRead: return operation == FaultTarget::kRead;
    case FaultKind::kTornWrite:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kStaleRecord: return operation == FaultTarget::kWrite;
    case FaultKind::kFailedSync: return operation == FaultTarget::kSync;
    case FaultKind::kEnospc:
      return operation != FaultTarget::kRead && operation != FaultTarget::kUnlink;
    case FaultKind::kEagain:
    case FaultKind::kEintr: return data || operation == FaultTarget::kSync;
    case FaultKind::kLostWrites:
    case FaultKind::kReorderedWrites:
    case FaultKind::kEio:
    case FaultKind::kDelay:
    case FaultKind::kKill: return true;
  }
  return false;
}

FaultScript::FaultScript(FaultPlan plan)
    : plan_(std::move(plan)), seen_(plan_.faults.size()), random_(plan_.seed) {}

bool FaultScript::Matches(const Fault& fault, FaultTarget operation) {
  return (fault.target == FaultTarget::kAny || fault.target == operation) &&
         FaultCanStrike(fault.kind, operation);
}

bool FaultScript::IsDue(size_t i) {
  const Fault& fault = plan_.faults[i];
  const uint64_t number = seen_[i]++;
  return number >= fault.first && number - fault.first < fault.count;
}

const Fault* FaultScript::Struck(const Fault* fault) {
  if (fault != nullptr) ++struck_;
  if (fault != nullptr && fault->kind == FaultKind::kKill) ::kill(::getpid(), SIGKILL);
  return fault;
}

uint64_t FaultScript::Choose(uint64_t bound) {
  KVBED_CHECK(bound > 0);
  return random_() % bound;
}

}  // namespace kvbed
