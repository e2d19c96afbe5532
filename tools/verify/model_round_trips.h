// Round trips of a model's KV through one store: the main job in small, with bytes, logits and
// tokens compared. It doesn't know which stores there are.
#pragma once

#include <cstdint>
#include <string>

#include "backends/store_spec.h"
#include "offload/kv_geometry.h"
#include "offload/status.h"
#include "tools/verify/case_log.h"

namespace kvbed {

struct ModelTrip {
  std::string name;   // of the case
  std::string model;  // as -m takes it
  DType dtype = DType::kBf16;
  uint32_t block_tokens = 16;
  uint64_t prompt_tokens = 0;
  uint64_t snapshot_tokens = 0;  // cached when the snapshot is taken
  bool fresh_process = false;
  StoreSpec spec;
  StoreSettings settings;
  bool removes = false;  // the snapshot, at the end: the store is a user's
};

// Not supported in a build that can't run models: nothing was logged then. Another error is one of
// this machine.
Status RunModelTrip(const ModelTrip& trip, CaseLog& log);

}  // namespace kvbed
