// The main job: the cached run with its snapshot, the control run, the restore in this or a new
// process, the comparison, and the drift. It prints nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/inject.h"
#include "tools/prompt.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "tools/store_access.h"
#include "verify/kv_image.h"

namespace kvbed {

enum class OnMiss { kStop, kRecompute };

Result<OnMiss> ParseOnMiss(const std::string& text);

struct RunOptions {
  ModelOptions model;
  PoolOptions pool;
  PromptOptions prompt;
  SamplingOptions sampling;
  StoreOptions store;
  OutputOptions output;
  uint64_t new_tokens = 32;
  std::optional<uint64_t> snapshot_at;  // decode calls before the snapshot; nullopt: half of them
  std::string name;                     // of the snapshot; empty: "run"
  bool replace = false;
  bool fresh_process = false;
  bool no_drift = false;
  Injection injection = Injection::kNone;
  OnMiss on_miss = OnMiss::kStop;
  std::string before_restore;  // shell command between snapshot and restore
  // Set by a test build only: perturbs one logit of the control run.
  bool perturb_control = false;
};

Result<RunReport> RunMainJob(const RunOptions& options);

}  // namespace kvbed
