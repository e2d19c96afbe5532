#include "backends/store_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace kvbed {
namespace {

// Whether a put that this fault strikes reports success and leaves wrong data behind.
bool Lasts(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBitFlip:
    case FaultKind::kShortTransfer:
    case FaultKind::kTornWrite:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kStaleRecord:
    case FaultKind::kLostWrites:
    case FaultKind::kReorderedWrites: return true;
    default: return false;
  }
}

}  // namespace

void StoreFaults::Spoil(const RecordId& id, uint64_t record_bytes, FaultKind kind,
                        uint64_t amount) {
  KVBED_CHECK(FaultCanStrike(kind, FaultTarget::kWrite) && Lasts(kind));
  const std::lock_guard lock(mutex_);
  known_[id] = record_bytes;
  if (const auto fault = Settle({.kind = kind, .amount = amount}, id, record_bytes)) {
    Keep(id, *fault);
  }
}

uint64_t StoreFaults::struck() const {
  const std::lock_guard lock(mutex_);
  return script_.struck();
}

std::optional<RecordFault> StoreFaults::OnPut(const RecordId& id, uint64_t record_bytes) {
  const std::lock_guard lock(mutex_);
  known_[id] = record_bytes;
  const Fault* struck = script_.Next(FaultTarget::kWrite);
  if (struck == nullptr) return std::nullopt;
  const auto fault = Settle(*struck, id, record_bytes);
  if (!fault || !Lasts(fault->kind)) return fault;
  Keep(id, *fault);
  return std::nullopt;  // the put itself goes well
}

std::optional<RecordFault> StoreFaults::OnGet(const RecordId& id, uint64_t record_bytes) {
  const std::lock_guard lock(mutex_);
  const Fault* struck = script_.Next(FaultTarget::kRead);
  if (const auto damaged = damage_.find(id); damaged != damage_.end()) return damaged->second;
  return struck == nullptr ? std::nullopt : Settle(*struck, id, record_bytes);
}

Status StoreFaults::OnChange(FaultTarget target, const char* what) {
  std::optional<Fault> struck;
  {
    const std::lock_guard lock(mutex_);
    if (const Fault* fault = script_.Next(target)) struck = *fault;
  }
  if (!struck) return Status::Ok();
  if (struck->kind == FaultKind::kDelay) {
    std::this_thread::sleep_for(std::chrono::microseconds(struck->amount));
    return Status::Ok();
  }
  const std::string message = fmt::format("{}: injected {}", what, FaultKindName(struck->kind));
  return struck->kind == FaultKind::kEnospc ? Status::OutOfSpace(message)
                                            : Status::IoError(message);
}

void StoreFaults::Know(const RecordId& id, uint64_t record_bytes) {
  const std::lock_guard lock(mutex_);
  known_[id] = record_bytes;
}

std::optional<RecordFault> StoreFaults::Settle(const Fault& fault, const RecordId& id,
                                               uint64_t record_bytes) {
  RecordFault settled{.kind = fault.kind, .amount = fault.amount, .other = {}};
  settled.choice = script_.Choose(record_bytes * 8);
  switch (fault.kind) {
    case FaultKind::kBitFlip:
      if (fault.amount > 0) settled.choice = (fault.amount - 1) % (record_bytes * 8);
      break;
    case FaultKind::kShortTransfer:
    case FaultKind::kTornWrite: {
      const uint64_t half = record_bytes / 2 / kSectorBytes * kSectorBytes;
      settled.amount = std::min(fault.amount == 0 ? half : fault.amount, record_bytes - 1);
      break;
    }
    case FaultKind::kStaleRecord: settled.other = Older(id, record_bytes); break;
    case FaultKind::kMisdirectedRead:
    case FaultKind::kMisdirectedWrite: settled.other = Neighbour(id, record_bytes); break;
    default: break;
  }
  return settled;
}

void StoreFaults::Keep(const RecordId& id, const RecordFault& fault) {
  if (fault.kind != FaultKind::kMisdirectedWrite) {
    damage_[id] = fault;
    return;
  }
  // The data went over a neighbour; their own place was never written.
  if (fault.other) damage_[*fault.other] = {.kind = FaultKind::kMisdirectedRead, .other = id};
  damage_[id] = {.kind = FaultKind::kStaleRecord, .other = {}};
}

std::optional<RecordId> StoreFaults::Neighbour(const RecordId& id, uint64_t record_bytes) {
  std::vector<RecordId> others;
  for (const auto& [known, size] : known_) {
    if (size == record_bytes && known != id) others.push_back(known);
  }
  if (others.empty()) return std::nullopt;
  return others[script_.Choose(others.size())];
}

std::optional<RecordId> StoreFaults::Older(const RecordId& id, uint64_t record_bytes) const {
  const auto here = known_.lower_bound(id);
  if (here == known_.begin()) return std::nullopt;
  const auto& [older, size] = *std::prev(here);
  if (older.key != id.key || size != record_bytes) return std::nullopt;
  return older;
}

}  // namespace kvbed
