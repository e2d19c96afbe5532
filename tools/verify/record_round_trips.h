// Round trips of seeded records through one store: put as snapshots, dropped, restored into
// poisoned memory in this or a fresh process, decoded on, and compared bit for bit with the run
// that stayed in memory. It knows no model and no particular store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/store_spec.h"
#include "offload/kv_geometry.h"
#include "offload/status.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_log.h"
#include "tools/verify/store_opener.h"

namespace kvbed {

// One cell of the matrix: what is stored, and when.
struct RecordTrip {
  std::string name;  // "gqa_8_2/bf16/block_16/mid_block"
  KvGeometry geometry;
  uint64_t prompt_tokens = 0;    // cached in one go
  uint64_t snapshot_tokens = 0;  // cached when the snapshot is taken
};

// Geometries x dtypes x block sizes x where the snapshot is taken.
std::vector<RecordTrip> RecordTrips(VerifyProfile profile);

struct TripPlace {
  std::string prefix;  // of the cases' names: "roundtrip/records/slab"
  StoreSpec spec;
  StoreSettings settings;
  bool fresh_process = false;
  bool removes = false;  // the snapshots, at the end: the store is a user's
  StoreOpener open = OpenAsItIs;
  // The store may round: what comes back is told as drift, and nothing is compared bit for bit.
  bool lossy = false;
  std::optional<double> fail_above;  // the largest |d| that a lossy one may have
};

// Runs the trips that the log wants, as cases PREFIX/same/TRIP or PREFIX/fresh/TRIP. All of them
// share one store. An error: the store can't be opened, or has no room.
Status RunRecordTrips(const TripPlace& place, const std::vector<RecordTrip>& trips, CaseLog& log);

}  // namespace kvbed
