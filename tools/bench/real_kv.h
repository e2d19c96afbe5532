// A model, a prompt of one context size, and the K and V that the engine made of it, kept in memory
// as the source of what is offloaded, and timed: what a restore saves is exactly this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/block_pool.h"
#include "offload/sequence.h"
#include "offload/status.h"
#include "tools/bench/kv_source.h"
#include "tools/bench/measurement.h"
#include "tools/session.h"

namespace kvbed {

class RealKv final : public KvSource {
 public:
  // Prefills `prompt` into memory of its own, once. `model` must outlive it.
  static Result<std::unique_ptr<RealKv>> Make(LoadedModel& model, std::vector<TokenId> prompt,
                                              uint32_t block_tokens);

  void Fill(Sequence& sequence, uint64_t round) const override;

  // The identity of a sequence whose cache the engine can go on with.
  SequenceIdentity IdentityOf(uint64_t sequence_id) const;
  const LoadedModel& model() const { return model_; }
  const std::vector<TokenId>& prompt() const { return prompt_; }
  TokenId pending() const { return pending_; }
  const Recomputed& first() const { return first_; }

  // Once more, into each of `sequences`, which must be empty: one prefill after the other, then one
  // decode call.
  Result<Recomputed> Recompute(std::span<Sequence> sequences);

  // The first decode call on sequences that hold the prompt, all in one: ns. Its logits must be
  // those of the in-memory cache, bit for bit; same_logits() says so afterwards.
  Result<uint64_t> DecodeFirst(std::span<Sequence> sequences);
  bool same_logits() const { return same_logits_; }
  uint64_t prefill_tokens() const { return model_.engine.counters().prefill_tokens; }

 private:
  RealKv(LoadedModel& model, std::vector<TokenId> prompt)
      : model_(model), prompt_(std::move(prompt)), logits_(model.engine.config().vocab) {}

  LoadedModel& model_;
  const std::vector<TokenId> prompt_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<Sequence> sequence_;
  std::vector<float> logits_;
  std::vector<float> first_logits_;  // of the first decode call on the cache in memory
  TokenId pending_ = 0;
  Recomputed first_;
  bool same_logits_ = true;
};

}  // namespace kvbed
