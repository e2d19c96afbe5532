#include "tools/bench/ttft_run.h"

#include <fmt/format.h>

#include "offload/clock.h"
#include "tools/interrupt.h"

namespace kvbed {
namespace {

// A prefill may take minutes; the first one counts too.
constexpr uint64_t kRecomputeNsMax = 20'000'000'000;

class TtftRun {
 public:
  TtftRun(const TtftPlace& place, RealKv& kv) : place_(place), kv_(kv) {}

  Result<TtftSamples> Run() {
    KVBED_RETURN_IF_ERROR(Recompute());
    for (uint32_t i = 0; i <= place_.repetitions; ++i) {
      if (Interrupted()) return InterruptedStatus();
      KVBED_RETURN_IF_ERROR(Restored(i > 0));
      KVBED_RETURN_IF_ERROR(FromMemory(i > 0));
    }
    samples_.same_logits = kv_.same_logits();
    return samples_;
  }

 private:
  Sequence NewSequence(uint64_t sequence_id) const {
    return Sequence(place_.pool, kv_.IdentityOf(sequence_id));
  }

  Status Recompute() {
    samples_.recompute.push_back(kv_.first());
    uint64_t spent_ns = kv_.first().prefill_ns;
    for (uint32_t i = 1; i < place_.repetitions && 2 * spent_ns < kRecomputeNsMax; ++i) {
      Sequence sequence = NewSequence(RandomId());
      KVBED_ASSIGN_OR_RETURN(const Recomputed one, kv_.Recompute(sequence));
      samples_.recompute.push_back(one);
      spent_ns += one.prefill_ns;
    }
    return Status::Ok();
  }

  // From the snapshot's name to the first token's logits.
  Status Restored(bool timed) {
    place_.pool.PoisonAll();
    const uint64_t prefilled = kv_.prefill_tokens();
    TtftRestore one;
    const uint64_t start_ns = MonotonicNs();
    KVBED_ASSIGN_OR_RETURN(const Manifest manifest, place_.store.ReadManifest(place_.snapshot));
    Sequence sequence = NewSequence(manifest.sequence_id);
    LoadMover::RestorePart part{.sequence = &sequence, .manifest = &manifest, .report = {}};
    KVBED_ASSIGN_OR_RETURN(const RestoreSample restore, place_.mover.Restore({&part, 1}, {}));
    // The manifest, and what comes before the first read and after the last record: where each
    // block is and goes.
    one.lookup_ns = MonotonicNs() - start_ns - restore.wall_ns;
    if (!part.report.whole()) {
      return Status::Corruption("the snapshot didn't come back whole, so nothing was resumed");
    }
    one.read_ns = restore.read_ns;
    one.verify_ns = restore.verify_ns;
    one.overlap_ns = restore.overlap_ns;
    KVBED_ASSIGN_OR_RETURN(one.first_decode_ns, kv_.DecodeFirst(sequence));
    one.total_ns = MonotonicNs() - start_ns;
    samples_.prefill_tokens_after_restore += kv_.prefill_tokens() - prefilled;
    if (timed) samples_.restore.push_back(one);
    return Status::Ok();
  }

  // The first token of a cache that was copied in memory, the copy included and left out.
  Status FromMemory(bool timed) {
    Sequence sequence = NewSequence(RandomId());
    KVBED_RETURN_IF_ERROR(sequence.Reserve(kv_.prompt().size()));
    sequence.Advance(kv_.prompt().size());
    const uint64_t start_ns = MonotonicNs();
    kv_.Fill(sequence, 0);
    const uint64_t copy_ns = MonotonicNs() - start_ns;
    KVBED_ASSIGN_OR_RETURN(const uint64_t decode_ns, kv_.DecodeFirst(sequence));
    if (!timed) return Status::Ok();
    samples_.in_memory_ns.push_back(decode_ns);
    samples_.ram_copy_ns.push_back(copy_ns + decode_ns);
    return Status::Ok();
  }

  const TtftPlace& place_;
  RealKv& kv_;
  TtftSamples samples_;
};

}  // namespace

Result<TtftSamples> MeasureTtft(const TtftPlace& place, RealKv& kv) {
  return TtftRun(place, kv).Run();
}

}  // namespace kvbed
