// What goes wrong with the records of a faulty store: a fault plan played on puts, gets, flushes
// and commits, and the lasting damage of records that were put wrongly. It doesn't know the store
// beneath. Any thread may use it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "offload/bytes.h"
#include "offload/fault_plan.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

// What happens to one transfer of a record. Amounts and choices are settled, so that it can be
// played again.
struct RecordFault {
  FaultKind kind = FaultKind::kBitFlip;
  uint64_t amount = 0;            // bytes that arrive, or microseconds
  uint64_t choice = 0;            // which bit
  std::optional<RecordId> other;  // whose bytes come back; none: zeroes
};

class StoreFaults {
 public:
  explicit StoreFaults(FaultPlan plan = {}) : script_(std::move(plan)) {}
  StoreFaults(const StoreFaults&) = delete;
  StoreFaults& operator=(const StoreFaults&) = delete;

  // Damages a record for good, as a put that went wrong in this way would have. `kind` must be able
  // to strike a write.
  void Spoil(const RecordId& id, uint64_t record_bytes, FaultKind kind, uint64_t amount = 0);

  uint64_t struck() const;

  // For the faulty store. Put: what strikes it; lasting damage is kept and shows in the gets.
  std::optional<RecordFault> OnPut(const RecordId& id, uint64_t record_bytes);
  // Get: the record's lasting damage, else what strikes this get.
  std::optional<RecordFault> OnGet(const RecordId& id, uint64_t record_bytes);
  // Flush, commit, remove: an error, or ok.
  Status OnChange(FaultTarget target, const char* what);
  // A record of this store that a misdirected transfer may meet.
  void Know(const RecordId& id, uint64_t record_bytes);

 private:
  std::optional<RecordFault> Settle(const Fault& fault, const RecordId& id, uint64_t record_bytes);
  void Keep(const RecordId& id, const RecordFault& fault);
  std::optional<RecordId> Neighbour(const RecordId& id, uint64_t record_bytes);
  std::optional<RecordId> Older(const RecordId& id, uint64_t record_bytes) const;

  mutable std::mutex mutex_;
  FaultScript script_;
  std::map<RecordId, uint64_t> known_;  // record sizes
  std::unordered_map<RecordId, RecordFault, RecordIdHash> damage_;
};

}  // namespace kvbed
