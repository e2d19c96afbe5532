// What `run`, `snapshot` and `resume` have to tell, as plain values; parts that a command doesn't
// have stay empty. run_text.cc and run_json.cc write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/block_store.h"
#include "offload/offloader.h"
#include "tools/drift/drift_report.h"
#include "tools/result_json.h"
#include "tools/session.h"
#include "verify/verdict.h"

namespace kvbed {

struct SnapshotReport {
  std::string name;
  std::string spec;             // how to name it to `kvbed resume`
  bool kept = true;             // false: in a temporary folder
  uint64_t at_decode_call = 0;  // decode calls before it
  uint64_t tokens = 0;          // cached
  OffloadReport offload;
};

struct RestoreSummary {
  int pid = 0;
  bool fresh_process = false;
  RestoreReport restore;
  uint64_t prefill_tokens_after_restore = 0;
  bool recomputed = false;  // --on-miss recompute had to
};

struct TokenView {
  TokenId id = 0;
  std::string text;  // printable; empty without a tokenizer
};
// "\" Paris\" 7042", or the id alone where there is no tokenizer.
std::string ShowToken(const TokenView& token);

struct RunReport {
  ResultHeader header;
  ModelDescription model;
  NumericEnvironment environment;
  std::vector<std::string> warnings;

  std::optional<std::string> prompt_text;
  std::vector<TokenView> prompt;
  std::vector<TokenView> generated;
  std::string generated_text;
  std::vector<TokenView> resumed;
  std::string resumed_text;
  std::vector<CacheGrowth> growth;

  std::optional<StoreInfo> store;
  uint64_t huge_page_bytes = 0;
  uint64_t pool_bytes = 0;
  std::optional<SnapshotReport> snapshot;
  std::string injected;  // what --inject did
  std::optional<RestoreSummary> restore;
  std::optional<SnapshotReport> saved;  // resume --save
  std::string not_saved_reason;         // why --save saved nothing

  std::optional<ControlVerdict> control;
  std::optional<BytesVerdict> bytes;
  std::optional<LogitsVerdict> logits;
  std::optional<TokensVerdict> tokens;
  std::optional<DriftReport> drift;
  std::string drift_skipped;             // why there is none
  std::vector<KernelsDrift> drift_arms;  // the other sets of kernels that there are

  uint64_t load_ns = 0;
  uint64_t prefill_ns = 0;
  std::vector<uint64_t> decode_ns;
  uint64_t drift_ns = 0;
  uint64_t total_ns = 0;
};

// The exit code that the verdicts call for.
int ExitCodeOf(const RunReport& report);

std::string RunText(const RunReport& report);
// kvbed-run/1; env is filled in by the caller.
Json RunJson(const RunReport& report);

// The env object of its result: this machine, the store's filesystem and disk.
Json ReportEnvironmentJson(const RunReport& report);

// The printable tokens of ids, and their bytes as text ("" without a tokenizer).
std::vector<TokenView> ViewTokens(std::span<const TokenId> ids, const ModelFiles& model);
std::string DecodeText(std::span<const TokenId> ids, const ModelFiles& model);
ModelDescription DescribeModel(const LoadedModel& model, const KvGeometry& geometry);

}  // namespace kvbed
