#include "tools/bench/real_kv.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "offload/clock.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"

namespace kvbed {
namespace {

// The likeliest token; the first of equals.
TokenId Likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Result<std::unique_ptr<RealKv>> RealKv::Make(LoadedModel& model, std::vector<TokenId> prompt,
                                             uint32_t block_tokens) {
  std::unique_ptr<RealKv> kv(new RealKv(model, std::move(prompt)));
  const KvGeometry geometry = model.engine.Geometry(block_tokens);
  const uint64_t blocks = geometry.BlocksFor(kv->prompt_.size() + 1);
  KVBED_RETURN_IF_ERROR(CheckMemoryFor(blocks, geometry.record_bytes(), "the model's K and V"));
  KVBED_ASSIGN_OR_RETURN(kv->pool_, BlockPool::Create(geometry, static_cast<uint32_t>(blocks)));
  kv->sequence_.emplace(*kv->pool_, kv->IdentityOf(RandomId()));
  KVBED_ASSIGN_OR_RETURN(kv->first_, kv->Recompute({&*kv->sequence_, 1}));
  return kv;
}

SequenceIdentity RealKv::IdentityOf(uint64_t sequence_id) const {
  return {model_.digests.Fingerprint(), model_.engine.rope_identity(), sequence_id};
}

// The last token of each is the first decode call's, which Fill leaves out.
Result<Recomputed> RealKv::Recompute(std::span<Sequence> sequences) {
  Recomputed recomputed;
  const std::span<float> logits = std::span(logits_).first(model_.engine.config().vocab);
  const uint64_t start_ns = MonotonicNs();
  for (Sequence& sequence : sequences) {
    KVBED_RETURN_IF_ERROR(
        model_.engine.Prefill(sequence, prompt_, logits, [](uint64_t) { return !Interrupted(); }));
  }
  recomputed.prefill_ns = MonotonicNs() - start_ns;
  pending_ = Likeliest(logits);
  KVBED_ASSIGN_OR_RETURN(recomputed.first_decode_ns, DecodeFirst(sequences));
  return recomputed;
}

Result<uint64_t> RealKv::DecodeFirst(std::span<Sequence> sequences) {
  const size_t vocab = model_.engine.config().vocab;
  if (logits_.size() < sequences.size() * vocab) logits_.resize(sequences.size() * vocab);
  std::vector<Engine::BatchRow> rows;
  for (size_t i = 0; i < sequences.size(); ++i) {
    rows.push_back({&sequences[i], pending_, std::span(logits_).subspan(i * vocab, vocab)});
  }
  const uint64_t start_ns = MonotonicNs();
  KVBED_RETURN_IF_ERROR(model_.engine.DecodeBatch(rows));
  const uint64_t spent_ns = MonotonicNs() - start_ns;
  if (first_logits_.empty()) first_logits_.assign(rows[0].logits.begin(), rows[0].logits.end());
  for (const Engine::BatchRow& row : rows) {
    same_logits_ &=
        std::memcmp(first_logits_.data(), row.logits.data(), row.logits.size_bytes()) == 0;
  }
  return spent_ns;
}

void RealKv::Fill(Sequence& sequence, uint64_t) const {
  const KvGeometry& geometry = pool_->geometry();
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    const Bytes from = std::as_const(*pool_).record(sequence_->block_table()[block]);
    const MutableBytes to = sequence.payload(block);
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(kPageBytes), to.size(), to.begin());
    const uint32_t used = sequence.TokensInBlock(block);
    if (used < geometry.block_tokens) ZeroUnusedRows(to, geometry, used);
  }
}

}  // namespace kvbed
