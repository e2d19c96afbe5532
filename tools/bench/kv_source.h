// Where a benchmark's K and V come from.
#pragma once

#include <cstdint>

#include "offload/kv_geometry.h"
#include "offload/sequence.h"

namespace kvbed {

class KvSource {
 public:
  virtual ~KvSource() = default;
  // Fills the payload of each of the sequence's blocks; another `round` gives other bytes where the
  // source can. Rows that hold no token are zero.
  virtual void Fill(Sequence& sequence, uint64_t round) const = 0;
};

// Zeroes the rows from `tokens_used` on in every head's K and V.
void ZeroUnusedRows(MutableBytes payload, const KvGeometry& geometry, uint32_t tokens_used);

// Share of the 4 KiB pages of the sequence's payloads that equal an earlier one, in percent.
double DuplicatePagePercent(Sequence& sequence);

}  // namespace kvbed
