// What run, snapshot, resume and generate share: a loaded model, its engine, a pool for so many
// tokens, and a decoding that goes on token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model/model_files.h"
#include "engine/sampler.h"
#include "offload/block_pool.h"
#include "offload/manifest.h"
#include "offload/model_digests.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/prompt.h"
#include "verify/logits_trace.h"

namespace kvbed {

// A model's files, opened, before its weights are read: what a prompt and a pool need.
struct OpenedModel {
  ModelFiles files;
  uint64_t open_ns = 0;
};
Result<OpenedModel> OpenModelFiles(const ModelOptions& options);

struct LoadedModel {
  ModelFiles files;
  ModelDigests digests;
  Engine engine;
  uint64_t load_ns = 0;  // opening included
};

// `perturb_decode_call` as in EngineOptions.
Result<LoadedModel> LoadModel(OpenedModel model, const ModelOptions& options,
                              uint64_t perturb_decode_call = 0);

// Opens an engine with other threads, prefill chunk or kernels in the place of the one there is,
// whose weights go first. Gives the ns that it took; after an error the model has no engine.
Result<uint64_t> ReopenEngine(LoadedModel& model, const ModelOptions& options);

// A pool for `tokens` tokens, or of --pool-bytes when that suffices; a usage error that names both
// sizes when it doesn't, out of space when memory doesn't suffice.
Result<std::unique_ptr<BlockPool>> MakePool(const KvGeometry& geometry, const PoolOptions& options,
                                            uint64_t tokens);

// Prompt and pool of a command that generates, found before the weights are read, so that a prompt
// or a size that can't be used is told at once.
struct Workload {
  Prompt prompt;
  KvGeometry geometry;
  std::unique_ptr<BlockPool> pool;
};
struct WorkloadOptions {
  const ModelOptions& model;
  const PromptOptions& prompt;
  const PoolOptions& pool;
  uint64_t seed = 0;
  uint64_t more_tokens = 0;  // to be cached after the prompt
  uint64_t copies = 1;       // of K and V in memory, the pool's included
};
Result<Workload> PrepareWorkload(const ModelFiles& model, const WorkloadOptions& options);

// "0 -> 5 prefill", "5 -> 6 decode": how a call changed the number of cached tokens.
struct CacheGrowth {
  uint64_t before = 0;
  uint64_t after = 0;
  bool decode = false;
};

// One sequence being decoded: its cache, its tokens (the last one pending: picked, not yet cached),
// the sampler, and what each step gave.
class Decoding {
 public:
  // A new sequence. Logits are kept whole in the trace up to `kept_logits_bytes_max`.
  static Result<Decoding> Start(LoadedModel& model, BlockPool& pool, const SamplerState& sampler,
                                uint64_t kept_logits_bytes_max);
  // One that goes on from a restored sequence; the manifest must have a pending token.
  static Result<Decoding> Resume(LoadedModel& model, Sequence sequence, const Manifest& manifest,
                                 uint64_t kept_logits_bytes_max);

  // Is told of each decode call; an error ends the decoding.
  using Observer = std::function<Status(std::span<const float> logits, TokenId picked)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

  // Runs the prompt and picks the first token.
  Status Prefill(std::span<const TokenId> prompt);
  // Runs the tokens again whose cache was lost: those from the end of the cache to the pending one.
  // Picks nothing.
  Status RecomputeLost();
  // So many decode calls: each caches the pending token and picks the next one.
  Status Decode(uint64_t calls, const char* label);

  Sequence& sequence() { return sequence_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint64_t prompt_tokens() const { return prompt_tokens_; }
  const std::vector<CacheGrowth>& growth() const { return growth_; }
  // Step 0 is the prefill's for a new sequence, the first decode call's for a resumed one.
  const LogitsTrace& trace() const { return trace_; }
  uint64_t prefill_ns() const { return prefill_ns_; }
  const std::vector<uint64_t>& decode_ns() const { return decode_ns_; }

  // A manifest of this decoding as it is now, to be offloaded under `name`.
  Manifest Describe(const std::string& name) const;

 private:
  Decoding(LoadedModel& model, Sequence sequence, Sampler sampler, uint64_t kept_logits_bytes_max);
  // Prefill of `tokens` with a progress line.
  Status RunPrefill(std::span<const TokenId> tokens);

  LoadedModel* model_;
  Sequence sequence_;
  Sampler sampler_;
  std::vector<TokenId> tokens_;
  uint64_t prompt_tokens_ = 0;
  std::vector<float> logits_;  // of the newest step
  std::vector<CacheGrowth> growth_;
  LogitsTrace trace_;
  Observer observer_;
  uint64_t prefill_ns_ = 0;
  std::vector<uint64_t> decode_ns_;
};

}  // namespace kvbed
