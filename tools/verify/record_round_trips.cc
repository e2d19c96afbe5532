#include "tools/verify/record_round_trips.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "offload/clock.h"
#include "offload/offloader.h"
#include "tools/interrupt.h"
#include "tools/verify/fresh_restore.h"
#include "tools/verify/seeded_kv.h"
#include "verify/drift.h"
#include "verify/kv_image.h"
#include "verify/verdict.h"

namespace kvbed {
namespace {

struct NamedGeometry {
  std::string_view name;
  uint32_t layers, kv_heads, head_dim;
  bool every_block_size;
};
// Heads are those of queries / of K and V. The last two: SmolLM2's shape, and one of so many layers
// that several share a digest in the header page.
constexpr NamedGeometry kGeometries[] = {
    {"gqa_8_2", 2, 2, 16, true},   {"mqa", 2, 1, 16, true},          {"mha", 2, 8, 16, true},
    {"smollm2", 30, 3, 64, false}, {"layers_200", 200, 1, 8, false},
};
constexpr uint32_t kBlockSizes[] = {1, 4, 5, 7, 16, 64};
constexpr uint32_t kFewBlockSizes[] = {7, 16};

// Where a snapshot is taken, of a prompt of one and a half blocks.
std::optional<uint64_t> SnapshotTokens(std::string_view where, uint64_t prompt, uint64_t block) {
  if (where == "after_prefill") return prompt;
  if (where == "block_boundary") return (prompt / block + 1) * block;
  // One token or more behind the prompt, and in the middle of a block.
  if (block == 1) return std::nullopt;
  const uint64_t tokens = prompt + 2;
  return tokens % block != 0 ? tokens : tokens + 1;
}

// A trip on its way. The clock of its case counts only its own work.
struct Trip {
  const RecordTrip* plan = nullptr;
  CaseResult result;
  std::string snapshot;
  KvImage image;          // of the run that goes on in memory, at its end
  KvComparison compared;  // with the restored run
  uint64_t spent_ns = 0;
  bool done = false;  // judged

  uint64_t end_tokens() const { return plan->snapshot_tokens + kDecodedAfter; }
  uint64_t wanted_bytes() const {
    return image.ComparedBytesFor(plan->snapshot_tokens) + image.ComparedBytesFor(end_tokens());
  }
  void Fail(std::string reason) {
    result.status = CaseStatus::kFail;
    result.reason = std::move(reason);
    done = true;
  }
};

class TripRun {
 public:
  TripRun(const TripPlace& place, CaseLog& log) : place_(place), log_(log) {}

  Status Run(const std::vector<RecordTrip>& plans) {
    const std::string way = place_.fresh_process ? "fresh" : "same";
    for (const RecordTrip& plan : plans) {
      std::string name = fmt::format("{}/{}/{}", place_.prefix, way, plan.name);
      if (!log_.Wants(name)) continue;
      Trip trip;
      trip.plan = &plan;
      trip.result = log_.Start(std::move(name), CaseKind::kRoundtrip);
      trip.snapshot = SnapshotName(way, plan.name);
      trips_.push_back(std::move(trip));
    }
    if (trips_.empty()) return Status::Ok();
    const Status status = PutAndRestore();
    if (status.ok()) {
      for (Trip& trip : trips_) Finish(trip);
    }
    if (place_.removes) RemoveSnapshots();
    return status;
  }

 private:
  static std::string SnapshotName(const std::string& way, std::string plan) {
    std::replace(plan.begin(), plan.end(), '/', '.');
    return fmt::format("kvbed-verify.{}.{}", way, plan);
  }

  // Time of one trip's own.
  template <class Work>
  auto Timed(Trip& trip, Work work) {
    const uint64_t start_ns = MonotonicNs();
    auto outcome = work();
    trip.spent_ns += MonotonicNs() - start_ns;
    return outcome;
  }

  Status PutAndRestore() {
    const bool memory = place_.spec.kind == StoreKind::kMemory;
    KVBED_ASSIGN_OR_RETURN(store_, Open(StoreAccess::kCreate));
    if (place_.removes) RemoveLeftovers();
    for (Trip& trip : trips_) {
      if (log_.stopped()) return InterruptedStatus();
      const Status put = Timed(trip, [&] { return Put(trip); });
      // A full disk is this machine's; everything else is the store's.
      if (put.code() == StatusCode::kOutOfSpace) return put;
      if (!put.ok()) trip.Fail(put.message());
    }
    // A store that keeps files is closed, so that a restore has nothing but these to go by.
    if (!memory) store_.reset();
    if (place_.fresh_process) return RestoreFresh();
    if (!memory) {
      auto opened = Open(StoreAccess::kRead);
      if (!opened.ok()) {
        FailAll(fmt::format("the store can't be opened again: {}", opened.status().message()));
        return Status::Ok();
      }
      store_ = std::move(*opened);
    }
    for (Trip& trip : trips_) {
      if (log_.stopped()) return InterruptedStatus();
      if (trip.done) continue;
      const Status restored = Timed(trip, [&] { return RestoreHere(trip); });
      if (restored.code() == StatusCode::kOutOfSpace) return restored;
      if (!restored.ok()) trip.Fail(restored.message());
    }
    store_.reset();
    return Status::Ok();
  }

  Result<std::unique_ptr<BlockStore>> Open(StoreAccess access) const {
    return place_.open(nullptr, place_.spec, {.access = access, .defaults = place_.settings});
  }

  Status Put(Trip& trip) {
    const RecordTrip& plan = *trip.plan;
    // An odd id is never 0.
    KVBED_ASSIGN_OR_RETURN(
        SeededKv kv, SeededKv::Create(plan.geometry, trip.result.seed | 1, trip.end_tokens()));
    const SeededValues values = place_.lossy ? SeededValues::kFinite : SeededValues::kAnyBits;
    KVBED_RETURN_IF_ERROR(kv.GrowTo(plan.prompt_tokens, values));
    KVBED_RETURN_IF_ERROR(kv.GrowTo(plan.snapshot_tokens, values));
    {
      KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                             store_->OpenChannel({place_.settings.iodepth, kv.pool().memory()}));
      Manifest manifest = DescribeSeeded(kv.sequence(), trip.snapshot);
      OffloadOptions options;
      options.sync = place_.settings.sync != SyncMode::kNone;
      KVBED_RETURN_IF_ERROR(Offload(*store_, channel, kv.sequence(), manifest, options).status());
    }
    KVBED_RETURN_IF_ERROR(kv.GrowTo(trip.end_tokens(), values));
    trip.image = KvImage::CopyOf(kv.sequence());
    return Status::Ok();
  }

  Status RestoreHere(Trip& trip) {
    KVBED_ASSIGN_OR_RETURN(const Manifest manifest, store_->ReadManifest(trip.snapshot));
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockPool> pool,
                           MakePoisonedPool(trip.plan->geometry, trip.end_tokens()));
    FreshRestore restore;
    restore.poisoned = AllPoisoned(*pool);
    Sequence sequence(*pool, SeededIdentity(trip.result.seed | 1));
    {
      KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                             store_->OpenChannel({place_.settings.iodepth, pool->memory()}));
      KVBED_ASSIGN_OR_RETURN(
          restore.report, Restore(*store_, channel, manifest, sequence, {.verify = !place_.lossy}));
    }
    if (place_.lossy) return JudgeDrift(trip, restore, sequence);
    trip.compared.Merge(trip.image.Compare(sequence));
    if (restore.report.whole()) {
      KVBED_RETURN_IF_ERROR(GrowSeeded(sequence, trip.end_tokens()));
      trip.compared.Merge(trip.image.Compare(sequence));
    }
    Judge(trip, restore);
    return Status::Ok();
  }

  // Of a store that may round. That it kept nothing, or something else, shows in how far it is off.
  Status JudgeDrift(Trip& trip, const FreshRestore& restore, const Sequence& sequence) const {
    if (!restore.report.whole() || sequence.cached_tokens() != trip.plan->snapshot_tokens) {
      trip.Fail("not every record came back");
      return Status::Ok();
    }
    KVBED_ASSIGN_OR_RETURN(const KvDrift drift,
                           MeasureKvDrift(trip.image.view(), KvView::Of(sequence),
                                          trip.plan->snapshot_tokens, trip.plan->prompt_tokens));
    const double most = drift.total().max_abs;
    if (drift.total().non_finite > 0) {
      trip.Fail("what came back has values that are no numbers");
    } else if (place_.fail_above && most > *place_.fail_above) {
      trip.Fail(fmt::format("the largest |d| of K and V is {:.4g}, above {:.4g} (--fail-above)",
                            most, *place_.fail_above));
    }
    trip.done = true;
    return Status::Ok();
  }

  Status RestoreFresh() {
    std::vector<std::string> names;
    std::vector<Trip*> sent;
    for (Trip& trip : trips_) {
      if (trip.done) continue;
      names.push_back(trip.snapshot);
      sent.push_back(&trip);
    }
    if (names.empty()) return Status::Ok();
    uint64_t since_ns = MonotonicNs();
    FreshReceiver receiver;
    receiver.on_block = [&](size_t at, ResumeStage stage, uint64_t block, Bytes payload) {
      if (at >= sent.size()) return;
      Trip& trip = *sent[at];
      const uint64_t tokens =
          stage == ResumeStage::kRestorePoint ? trip.plan->snapshot_tokens : trip.end_tokens();
      if (block >= trip.image.geometry().BlocksFor(tokens)) return;
      if (payload.size() < trip.image.geometry().payload_bytes()) return;
      trip.compared.Merge(trip.image.CompareBlock(block, payload, tokens));
    };
    receiver.on_snapshot = [&](size_t at, const FreshRestore& restore) {
      Judge(*sent[at], restore);
      sent[at]->spent_ns += MonotonicNs() - since_ns;
      since_ns = MonotonicNs();
    };
    const Status status = RestoreInFreshProcess(place_.spec, place_.settings, names, receiver);
    if (log_.stopped()) return InterruptedStatus();
    if (!status.ok()) FailAll(status.message());
    return Status::Ok();
  }

  // Those that have no verdict yet.
  void FailAll(const std::string& reason) {
    for (Trip& trip : trips_) {
      if (!trip.done) trip.Fail(reason);
    }
  }

  void Judge(Trip& trip, const FreshRestore& restore) {
    if (!restore.status.ok()) return trip.Fail(restore.status.message());
    if (!restore.poisoned) {
      return trip.Fail("the memory was not poisoned before the restore, so that it could answer");
    }
    const BytesVerdict bytes = JudgeBytes(restore.report, trip.compared, trip.wanted_bytes());
    if (!bytes.findings.empty()) trip.result.finding = bytes.findings.front();
    if (bytes.status == VerdictStatus::kEqual) {
      trip.done = true;
      return;
    }
    // What the restore held for good and isn't.
    if (restore.report.whole() && !trip.compared.equal()) trip.result.served_wrong = 1;
    std::string reason = bytes.reason;
    if (reason.empty() && trip.result.finding) reason = trip.result.finding->message;
    if (reason.empty()) reason = "the restored bytes differ";
    trip.Fail(std::move(reason));
  }

  void Finish(Trip& trip) {
    trip.result.wall_ns = MonotonicNs() - trip.spent_ns;
    log_.Finish(std::move(trip.result));
  }

  // Of an earlier verification that was killed. Others are nobody's business.
  void RemoveLeftovers() {
    for (const Trip& trip : trips_) store_->RemoveManifest(trip.snapshot).IgnoreError();
  }
  void RemoveSnapshots() {
    store_.reset();
    auto opened = Open(StoreAccess::kWrite);
    if (!opened.ok()) return;
    store_ = std::move(*opened);
    RemoveLeftovers();
    store_.reset();
  }

  const TripPlace& place_;
  CaseLog& log_;
  std::unique_ptr<BlockStore> store_;
  std::vector<Trip> trips_;
};

}  // namespace

std::vector<RecordTrip> RecordTrips(VerifyProfile profile) {
  std::vector<RecordTrip> trips;
  for (const NamedGeometry& shape : kGeometries) {
    const bool every = shape.every_block_size || profile == VerifyProfile::kFull;
    const std::span<const uint32_t> sizes =
        every ? std::span<const uint32_t>(kBlockSizes) : std::span<const uint32_t>(kFewBlockSizes);
    for (const DType dtype : {DType::kBf16, DType::kFp32}) {
      for (const uint32_t block : sizes) {
        for (const char* where : {"after_prefill", "mid_block", "block_boundary"}) {
          RecordTrip trip;
          trip.prompt_tokens = block + block / 2 + 1;
          const auto tokens = SnapshotTokens(where, trip.prompt_tokens, block);
          if (!tokens) continue;
          trip.name = fmt::format("{}/{}/block_{}/{}", shape.name, DTypeName(dtype), block, where);
          trip.geometry = {shape.layers, shape.kv_heads, shape.head_dim, dtype, block};
          trip.snapshot_tokens = *tokens;
          trips.push_back(std::move(trip));
        }
      }
    }
  }
  return trips;
}

Status RunRecordTrips(const TripPlace& place, const std::vector<RecordTrip>& trips, CaseLog& log) {
  return TripRun(place, log).Run(trips);
}

}  // namespace kvbed
