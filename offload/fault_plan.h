// What goes wrong, when, and from which seed: the script that the faulty I/O and the faulty store
// play. It doesn't know files or records; who plays it says what an operation is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// What a device writes whole or not at all: where a torn write ends.
inline constexpr uint64_t kSectorBytes = 512;

enum class FaultKind : uint8_t {
  kBitFlip,           // one bit of the data: number `amount` - 1 (0: chosen by the seed)
  kShortTransfer,     // only `amount` bytes (0: half) are moved in one go; the device says so
  kTornWrite,         // the first `amount` bytes (0: half, by sectors) arrive, success is reported
  kMisdirectedRead,   // the data of another place (`amount` bytes away, 0: the neighbour) come back
  kMisdirectedWrite,  // the data land at another place, success is reported
  kStaleRecord,       // a write is dropped, success is reported; the old data stay
  kLostWrites,        // at a power cut, writes since the last sync are gone
  kReorderedWrites,   // at a power cut, a seeded subset of the writes since the last sync is there
  kFailedSync,        // EIO from a sync; what it should have made durable may be gone
  kEio,
  kEnospc,
  kEagain,
  kEintr,
  kDelay,  // completes `amount` microseconds later
  kKill,   // the process is killed right before it (SIGKILL), whatever is in flight
};

enum class FaultTarget : uint8_t {
  kAny,
  kRead,
  kWrite,
  kSync,
  kOpen,
  kRename,
  kUnlink,
  kAllocate,  // a change of a file's length or reservation
};

std::string_view FaultKindName(FaultKind kind);  // "bit_flip", "short_transfer", ...
Result<FaultKind> ParseFaultKind(std::string_view name);

// Whether this kind makes sense for an operation: a bit flips in reads and writes, not in renames.
bool FaultCanStrike(FaultKind kind, FaultTarget operation);

// A byte of a file, by the file's name without its folder.
struct FaultPlace {
  std::string file;
  uint64_t offset = 0;
  bool operator==(const FaultPlace&) const = default;
};

struct Fault {
  FaultKind kind = FaultKind::kBitFlip;
  FaultTarget target = FaultTarget::kAny;
  uint64_t first = 0;   // skips this many matching operations
  uint64_t count = 1;   // then strikes this many; kForever never stops
  uint64_t amount = 0;  // see the kind
  // Aimed: only transfers that cover this byte count, or only writes whose data hold these bytes. A
  // bit flip's amount counts from there.
  std::optional<FaultPlace> place{};
  std::vector<std::byte> mark{};
  bool is_aimed() const { return place.has_value() || !mark.empty(); }
  bool operator==(const Fault&) const = default;
};

inline constexpr uint64_t kForever = UINT64_MAX;

struct FaultPlan {
  uint64_t seed = 1;
  std::vector<Fault> faults{};
  bool operator==(const FaultPlan&) const = default;
};

// Plays one plan: says for each operation which fault strikes it. Not thread-safe.
class FaultScript {
 public:
  explicit FaultScript(FaultPlan plan);

  // The first fault of the plan that strikes this operation, or null. Every fault whose target
  // matches, and whose kind can strike it, counts the operation; an aimed one only where
  // `is_aimed_here` says so of it.
  template <class IsAimedHere>
  const Fault* Next(FaultTarget operation, const IsAimedHere& is_aimed_here) {
    const Fault* strike = nullptr;
    for (size_t i = 0; i < plan_.faults.size(); ++i) {
      const Fault& fault = plan_.faults[i];
      if (!Matches(fault, operation) || (fault.is_aimed() && !is_aimed_here(fault))) continue;
      if (IsDue(i) && strike == nullptr) strike = &fault;
    }
    return Struck(strike);
  }
  const Fault* Next(FaultTarget operation) {
    return Next(operation, [](const Fault&) { return false; });
  }

  uint64_t struck() const { return struck_; }
  // Seeded choice below `bound` (> 0).
  uint64_t Choose(uint64_t bound);

 private:
  static bool Matches(const Fault& fault, FaultTarget operation);
  // Counts an operation for fault `i`.
  bool IsDue(size_t i);
  const Fault* Struck(const Fault* fault);

  FaultPlan plan_;
  std::vector<uint64_t> seen_;
  uint64_t struck_ = 0;
  std::mt19937_64 random_;
};

}  // namespace kvbed
