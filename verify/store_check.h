// Checks a whole store at rest: every manifest, every record that one names as a restore checks
// it, and what lies beside them. Changes nothing, knows no particular store, and doesn't print.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/leftovers.h"
#include "offload/status.h"

namespace kvbed {

struct StoreCheckOptions {
  std::string snapshot;   // only this one, and nothing that lies beside it; empty: everything
  uint32_t iodepth = 16;  // records in flight; fewer where memory_bytes don't hold so many
  // For records being read and verified. One record is read at a time where it holds no more.
  uint64_t memory_bytes = uint64_t{16} << 20;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
  std::function<bool()> stop;  // true ends the check early: an I/O error that says so
};

enum class SnapshotState : uint8_t {
  kWhole,
  kDamaged,  // its manifest, or a record: damaged or missing
  kUnread,   // something could not be read for another reason than its bytes
  kNewer,    // a manifest that another version of kvbed may read
};

std::string_view SnapshotStateName(SnapshotState state);  // "whole", "damaged", "unread", "newer"

struct CheckedSnapshot {
  ManifestSummary summary;  // its status: of the manifest
  SnapshotState state = SnapshotState::kWhole;
  uint64_t damaged_records = 0;
  uint64_t missing_records = 0;
  uint64_t unread_records = 0;
  // Whether the damage is on the store: the manifest's, or a record's that was bad when it was read
  // again too. Only such a snapshot is worth dropping.
  bool lost = false;
  std::string why;  // one line for people; empty for a whole one
};

// One bad record, and every snapshot that names it.
struct RecordFinding {
  Finding finding;
  std::vector<std::string> snapshots;
};

struct UnreadRecord {
  RecordId id;
  Status status;
  std::vector<std::string> snapshots;
};

struct StoreCheck {
  // The details of more bad records than this are left out; the counts are whole.
  static constexpr size_t kFindingsMax = 1000;

  std::vector<CheckedSnapshot> snapshots;  // by name
  std::vector<RecordFinding> findings;     // the first of them
  std::vector<UnreadRecord> unread;        // the first of them
  uint64_t damaged_records = 0;
  uint64_t missing_records = 0;
  uint64_t unread_records = 0;
  Leftovers leftovers;
  Status leftovers_status;  // why they can't be told, when they can't

  uint64_t records = 0;     // read, each once however many snapshots name it
  uint64_t read_bytes = 0;  // of them
  uint64_t wall_ns = 0;     // reading and verifying records
  uint64_t verify_ns = 0;   // verifying, some of it while others were read

  bool damaged() const;   // something is damaged or missing
  bool all_read() const;  // nothing could not be read for another reason
};

// An error when the snapshots can't be listed, the one asked for isn't there (not found), or the
// channel breaks. Snapshots that another process removes or replaces meanwhile are left out.
Result<StoreCheck> CheckStore(BlockStore& store, const StoreCheckOptions& options);

}  // namespace kvbed
