// The measurement of `kvbed drift`: each arm's cached run, its recompute, and their drift. It
// prints nothing but progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/op_trace.h"
#include "offload/numeric_environment.h"
#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/drift/drift_report.h"
#include "tools/prompt.h"
#include "tools/result_json.h"
#include "verify/drift_arms.h"

namespace kvbed {

struct DriftOptions {
  ModelOptions model;  // but kernels, threads and prefill_chunk, which are lists
  PoolOptions pool;
  PromptOptions prompt;              // but ctx
  std::vector<uint64_t> ctx_tokens;  // empty: the prompt's length
  std::vector<uint32_t> prefill_chunks = {512};
  std::vector<uint32_t> threads = {0};
  // Empty: the default set, and without a limit all others that there are.
  std::vector<std::string> kernels;
  uint64_t new_tokens = 32;
  uint64_t seed = 1;
  std::optional<double> fail_above_pct;
  bool first_op = false;  // compare the output of each operation too
};

struct DriftArmResult {
  DriftArm arm;  // with the thread count that was in effect
  NumericEnvironment environment;
  DriftReport drift;
  // The arm's cache against the base's, of the same tokens: what the factor alone changes. None for
  // the base and for other contexts.
  std::optional<KvDrift> against_base;
  std::optional<OpComparison> operations;  // of the cached run and the recompute
  std::vector<TokenId> decoded_ids;  // run by the decode calls: those that the base's run picked,
                                     // or for another context this one's
  uint64_t prefill_ns = 0;
  uint64_t decode_ns = 0;  // of all calls
  uint64_t recompute_ns = 0;
};

// Whether more than so many percent of the K and V elements differ.
bool Exceeds(const DriftArmResult& result, double limit_pct);

struct DriftRun {
  ResultHeader header;
  ModelDescription model;
  NumericEnvironment environment;  // of the base
  std::vector<std::string> warnings;
  Prompt prompt;  // of the longest context
  uint64_t new_tokens = 0;
  std::optional<double> fail_above_pct;
  std::vector<DriftArmResult> arms;  // the base first
  DriftBegin begin;
  uint64_t load_ns = 0;  // of all engines
  uint64_t total_ns = 0;
};

Result<DriftRun> RunDrift(const DriftOptions& options);

}  // namespace kvbed
