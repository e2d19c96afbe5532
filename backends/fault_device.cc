#include "backends/fault_device.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace kvbed {
namespace {

constexpr int kGone = ENODEV;  // what every operation says after a power cut or a crash

FaultTarget TargetOf(IoOp op) {
  switch (op) {
    case IoOp::kRead: return FaultTarget::kRead;
    case IoOp::kWrite: return FaultTarget::kWrite;
    case IoOp::kDatasync: return FaultTarget::kSync;
  }
  return FaultTarget::kAny;
}

std::string_view NameOf(const File& file) {
  const std::string_view path = file.path();
  return path.substr(path.rfind('/') + 1);
}

std::string SyncLine(const DeviceCall& call) {
  return fmt::format("fdatasync {}", NameOf(*call.file));
}

// Where in the call's data the byte is that an aimed fault is about, 0 for a fault that isn't
// aimed; nothing when it isn't in there, or the bit that is to flip isn't.
std::optional<uint64_t> AimIn(const DeviceCall& call, const Fault& fault) {
  uint64_t at = 0;
  if (fault.place) {
    if (NameOf(*call.file) != fault.place->file || fault.place->offset < call.offset) return {};
    at = fault.place->offset - call.offset;
  } else if (!fault.mark.empty()) {
    if (call.op != IoOp::kWrite) return {};
    const std::byte* const found =
        std::search(call.data, call.data + call.length_bytes, fault.mark.begin(), fault.mark.end());
    at = static_cast<uint64_t>(found - call.data);
  }
  const bool flips = fault.kind == FaultKind::kBitFlip && fault.amount > 0;
  const uint64_t last = at + (flips ? (fault.amount - 1) / 8 : 0);
  if (fault.is_aimed() && last >= call.length_bytes) return {};
  return at;
}

// The errno of a fault that just fails, 0 for every other.
int ErrnoOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kEio:
    case FaultKind::kFailedSync: return EIO;
    case FaultKind::kEnospc: return ENOSPC;
    case FaultKind::kEagain: return EAGAIN;
    case FaultKind::kEintr: return EINTR;
    case FaultKind::kLostWrites:
    case FaultKind::kReorderedWrites: return kGone;
    default: return 0;
  }
}

void FlipBit(MutableBytes bytes, uint64_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

// Another place in the same file, inside it where there is one: behind this one or before it.
uint64_t OtherPlace(const DeviceCall& call, uint64_t distance_bytes) {
  const uint64_t shift = RoundUp(distance_bytes == 0 ? call.length_bytes : distance_bytes,
                                 call.file->alignment_bytes());
  struct stat info {};
  const bool known = ::fstat(call.file->fd(), &info) == 0;
  const uint64_t size_bytes = known ? static_cast<uint64_t>(info.st_size) : 0;
  const bool behind_fits = call.offset + shift + call.length_bytes <= size_bytes;
  return !behind_fits && call.offset >= shift ? call.offset - shift : call.offset + shift;
}

}  // namespace

FaultDevice::FaultDevice(FaultPlan plan) : FaultDevice(std::move(plan), Options{}) {}

FaultDevice::FaultDevice(FaultPlan plan, Options options)
    : options_(options), script_(std::move(plan)) {}

FaultDevice::~FaultDevice() { KVBED_CHECK(in_flight_ == 0); }

void FaultDevice::PowerCut(FaultKind how) {
  const std::lock_guard lock(mutex_);
  CutPower(how);
  RollBackWhenQuiet();
}

void FaultDevice::CrashAfter(uint64_t count) {
  const std::lock_guard lock(mutex_);
  operations_max_ = operations_ + count;
}

void FaultDevice::Play(FaultPlan plan) {
  const std::lock_guard lock(mutex_);
  script_ = FaultScript(std::move(plan));
  trace_.clear();
}

Status FaultDevice::power_cut_status() const {
  const std::lock_guard lock(mutex_);
  return power_cut_status_;
}

bool FaultDevice::dead() const {
  const std::lock_guard lock(mutex_);
  return dead_;
}

uint64_t FaultDevice::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

uint64_t FaultDevice::struck() const {
  const std::lock_guard lock(mutex_);
  return script_.struck();
}

std::vector<std::string> FaultDevice::Trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

void FaultDevice::ClearTrace() {
  const std::lock_guard lock(mutex_);
  trace_.clear();
}

FaultDevice::Attempt FaultDevice::Begin(const DeviceCall& asked, bool delayed) {
  const std::lock_guard lock(mutex_);
  Attempt attempt;
  attempt.call = asked;
  attempt.asked = asked;
  ++in_flight_;
  if (!CountOperation()) {
    attempt.answer = -kGone;
    return attempt;
  }
  const auto is_aimed_here = [&](const Fault& one) { return AimIn(asked, one).has_value(); };
  const Fault* fault = delayed ? nullptr : script_.Next(TargetOf(asked.op), is_aimed_here);
  if (fault != nullptr && fault->kind == FaultKind::kDelay) {
    --in_flight_;
    --operations_;
    attempt.delay_ns = std::max<uint64_t>(fault->amount, 1) * 1000;
    return attempt;
  }
  if (asked.op == IoOp::kDatasync) trace_.push_back(SyncLine(asked));
  Status status;
  if (fault != nullptr) status = Spoil(*fault, attempt);
  if (status.ok() && options_.power_cuts && !dead_) status = OpenTicket(attempt);
  if (!status.ok()) attempt.answer = -EIO;
  const bool skips = asked.op == IoOp::kDatasync && !options_.syncs;
  if (skips && !attempt.answer.has_value()) attempt.answer = 0;
  return attempt;
}

int64_t FaultDevice::End(Attempt& attempt, int64_t result) {
  const std::lock_guard lock(mutex_);
  const DeviceCall& asked = attempt.asked;
  if (attempt.ticket.has_value()) {
    if (asked.op == IoOp::kDatasync) {
      unsynced_.SyncEnds(*attempt.ticket, result == 0);
    } else {
      unsynced_.ChangeEnds(*attempt.ticket, true);
    }
  }
  if (dead_) {
    result = -kGone;
  } else {
    result = SpoilResult(attempt, result);
  }
  if (asked.op == IoOp::kDatasync) {
    if (result < 0) trace_.push_back(SyncLine(asked) + " failed");
  } else {
    const std::string place =
        fmt::format("{} {} {}+{}", asked.op == IoOp::kWrite ? "write" : "read", NameOf(*asked.file),
                    asked.offset, result < 0 ? 0 : result);
    trace_.push_back(result < 0 ? place + " failed" : place);
  }
  KVBED_CHECK(in_flight_ > 0);
  --in_flight_;
  RollBackWhenQuiet();
  return result;
}

int FaultDevice::Enter(FaultTarget target, std::string_view line) {
  uint64_t delay_us = 0;
  {
    const std::lock_guard lock(mutex_);
    int error = CountOperation() ? 0 : kGone;
    const Fault* fault = error == 0 ? script_.Next(target) : nullptr;
    if (error == 0 && !line.empty()) trace_.emplace_back(line);
    if (fault != nullptr) {
      error = ErrnoOf(fault->kind);
      if (error == kGone) CutPower(fault->kind);
      if (fault->kind == FaultKind::kDelay) delay_us = fault->amount;
    }
    if (error != 0) {
      if (!line.empty()) trace_.push_back(fmt::format("{} failed", line));
      RollBackWhenQuiet();
      return error;
    }
    ++in_flight_;
  }
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  return 0;
}

void FaultDevice::Leave(std::string_view line, bool ok) {
  const std::lock_guard lock(mutex_);
  if (!ok && !line.empty()) trace_.push_back(fmt::format("{} failed", line));
  KVBED_CHECK(in_flight_ > 0);
  --in_flight_;
  RollBackWhenQuiet();
}

bool FaultDevice::CountOperation() {
  if (operations_ >= operations_max_) dead_ = true;
  if (dead_) return false;
  ++operations_;
  return true;
}

void FaultDevice::CutPower(FaultKind how) {
  KVBED_CHECK(how == FaultKind::kLostWrites || how == FaultKind::kReorderedWrites);
  if (dead_) return;
  dead_ = true;
  cut_ = how;
}

void FaultDevice::RollBackWhenQuiet() {
  if (!cut_.has_value() || in_flight_ > 0) return;
  std::function<uint64_t(uint64_t)> choose;
  if (*cut_ == FaultKind::kReorderedWrites) {
    choose = [this](uint64_t bound) { return script_.Choose(bound); };
  }
  power_cut_status_ = unsynced_.RollBack(choose);
  cut_.reset();
}

Status FaultDevice::Spoil(const Fault& fault, Attempt& attempt) {
  DeviceCall& call = attempt.call;
  if (const int error = ErrnoOf(fault.kind); error != 0) {
    if (error == kGone) CutPower(fault.kind);
    attempt.answer = -error;
    return Status::Ok();
  }
  const auto substitute = [&attempt, &call]() -> Status {
    KVBED_ASSIGN_OR_RETURN(attempt.substitute, AlignedBuffer::Allocate(call.length_bytes));
    std::memcpy(attempt.substitute.bytes().data(), call.data, call.length_bytes);
    call.data = attempt.substitute.bytes().data();
    return Status::Ok();
  };
  switch (fault.kind) {
    case FaultKind::kBitFlip:
      attempt.flip = call.op == IoOp::kRead;
      attempt.flip_number = fault.amount;
      if (fault.amount > 0) attempt.flip_number += 8 * AimIn(attempt.asked, fault).value_or(0);
      if (call.op == IoOp::kWrite) {
        KVBED_RETURN_IF_ERROR(substitute());
        FlipBit({call.data, call.length_bytes}, BitOf(attempt.flip_number, call.length_bytes));
      }
      break;
    case FaultKind::kShortTransfer: {
      const uint64_t amount = fault.amount == 0 ? call.length_bytes / 2 : fault.amount;
      attempt.claim_bytes = static_cast<int64_t>(std::min(amount, call.length_bytes));
      // A direct file takes whole alignment units only; what it moved beyond the claim doesn't
      // count.
      call.length_bytes =
          RoundUp(std::min(amount, call.length_bytes), call.file->alignment_bytes());
      break;
    }
    case FaultKind::kTornWrite: {
      const uint64_t amount = fault.amount == 0 ? call.length_bytes / 2 : fault.amount;
      const uint64_t torn_at = std::min(amount, call.length_bytes) / kSectorBytes * kSectorBytes;
      KVBED_ASSIGN_OR_RETURN(const std::vector<std::byte> old_bytes,
                             BytesBeside(*call.file, call.offset, call.length_bytes));
      KVBED_RETURN_IF_ERROR(substitute());
      std::memcpy(call.data + torn_at, old_bytes.data() + torn_at, call.length_bytes - torn_at);
      break;
    }
    case FaultKind::kMisdirectedRead:
    case FaultKind::kMisdirectedWrite: call.offset = OtherPlace(call, fault.amount); break;
    case FaultKind::kStaleRecord: attempt.answer = static_cast<int64_t>(call.length_bytes); break;
    default: break;
  }
  return Status::Ok();
}

uint64_t FaultDevice::BitOf(uint64_t number, uint64_t length_bytes) {
  const uint64_t bits = length_bytes * 8;
  return number == 0 ? script_.Choose(bits) : (number - 1) % bits;
}

Status FaultDevice::OpenTicket(Attempt& attempt) {
  const DeviceCall& call = attempt.call;
  if (call.op == IoOp::kDatasync) {
    attempt.ticket = unsynced_.SyncBegins(*call.file);
  } else if (call.op == IoOp::kWrite && !attempt.answer.has_value()) {
    KVBED_ASSIGN_OR_RETURN(attempt.ticket,
                           unsynced_.WriteBegins(*call.file, call.offset, call.length_bytes));
  }
  return Status::Ok();
}

int64_t FaultDevice::SpoilResult(const Attempt& attempt, int64_t result) {
  if (result <= 0) return result;
  const DeviceCall& asked = attempt.asked;
  if (attempt.flip) {
    FlipBit({asked.data, static_cast<size_t>(result)},
            BitOf(attempt.flip_number, static_cast<uint64_t>(result)));
  }
  if (attempt.claim_bytes >= 0 && attempt.claim_bytes < result) {
    if (asked.op == IoOp::kRead) {
      // What wasn't read must not happen to be right.
      std::memset(asked.data + attempt.claim_bytes, 0xDB,
                  static_cast<size_t>(result - attempt.claim_bytes));
    }
    result = attempt.claim_bytes;
  }
  return result;
}

}  // namespace kvbed
