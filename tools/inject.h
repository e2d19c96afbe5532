// Damage done on purpose to a stored snapshot, through the store's own files, so that anyone can
// see the verdict fail. It knows files and offsets, not formats.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

enum class Injection {
  kNone,
  kFlip,      // one bit of one record
  kSwap,      // two records change places
  kStale,     // the tail block's earlier state in the place of its newer one
  kTruncate,  // the file ends in the middle of a record
  kSkip,      // the restore copies nothing; not done to files
  kShift,     // one record's bytes lie a sector too far on
};

Result<Injection> ParseInjection(const std::string& text);

struct FlipTarget {
  size_t block = 0;
  uint64_t byte = 0;  // of its record
  uint32_t bit = 0;
};

struct InjectionTarget {
  std::span<const RecordLocation> blocks;    // in token order
  std::optional<RecordLocation> older_tail;  // for kStale
  FlipTarget flip;                           // for kFlip
  uint64_t seed = 1;                         // chooses the block otherwise
};

// Damages the files and syncs them. Returns what was done, for people. Invalid argument when the
// snapshot has too few blocks for it.
Result<std::string> InjectDamage(Injection injection, const InjectionTarget& target);

}  // namespace kvbed
