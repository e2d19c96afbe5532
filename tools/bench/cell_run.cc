#include "tools/bench/cell_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "tools/bench/aged_store.h"
#include "tools/bench/cache_state.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/cell_data.h"
#include "tools/bench/cell_space.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/load_shape.h"
#include "tools/bench/mix_run.h"
#include "tools/bench/null_rates.h"
#include "tools/bench/section_meter.h"
#include "tools/bench/set_mover.h"
#include "tools/bench/steady_state.h"
#include "tools/bench/ttft_run.h"
#include "tools/bench/working_set.h"
#include "tools/bench/workplace.h"
#include "tools/device_counters.h"
#include "tools/interrupt.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

// The file set of a steady measurement is written over so often before it (SNIA's PTS: twice the
// capacity that is used).
constexpr uint64_t kPreconditions = 2;

class CellRun {
 public:
  CellRun(const BenchCell& cell, const BenchProgress& progress)
      : progress_(progress), working_set_(cell.sets(), cell.seed) {
    result_.cell = cell;
    result_.bytes.process = ByteCounts{};
  }

  Status Prepare();
  Status Repeat();
  Measurement Finish(const Status& status);

 private:
  const BenchCell& cell() const { return result_.cell; }
  bool has_files() const { return !place_->folder().empty(); }
  bool steady() const { return cell().profile == BenchProfile::kSteady; }
  uint32_t iodepth() const { return cell().store.settings.iodepth; }
  bool durable() const { return cell().store.settings.sync != SyncMode::kNone; }
  std::string FileIn(const char* name) const { return place_->folder() + "/" + name; }

  Status MakePool();
  void DescribeStore();
  void Step() { progress_(steps_done_++, steps_); }
  void CountSteps();

  Status Age();
  Status WriteSets();
  Status OneRepetition(bool warm_up);
  Status SteadyRounds();
  Result<OffloadedSet> WriteSet(uint64_t set);
  Status OffloadOnce(uint64_t set, bool warm_up);
  Status RestoreOnce(uint64_t set, bool warm_up);
  Status Mix();
  Status FirstWrite();
  Status Ttft();
  void NoteWritten(const Manifest& manifest);
  void NoteRestored(const RestoredSet& restored);
  void KeepLastRounds();

  Measurement result_;
  const BenchProgress& progress_;
  uint64_t steps_ = 0;
  uint64_t steps_done_ = 0;
  bool overwrites_ = true;  // the store puts records where others were
  std::unique_ptr<Workplace> place_;
  LoadShape shape_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<CellData> data_;
  std::unique_ptr<LoadMover> mover_;
  std::optional<SetMover> set_mover_;
  std::unique_ptr<Io> io_;
  std::optional<Ceilings> ceilings_;
  DeviceCounters device_;
  WorkingSet working_set_;
  std::vector<SnapshotSet> sets_;
  std::set<uint64_t> written_places_;
  bool overwrote_ = false;  // the last set went where others were
};

Status CellRun::Prepare() {
  KVBED_RETURN_IF_ERROR(cell().geometry.Validate());
  KVBED_ASSIGN_OR_RETURN(
      place_, Workplace::Open(cell().store, cell().geometry.record_bytes(), cell().keep));
  result_.store = place_->store().info();
  KVBED_RETURN_IF_ERROR(CheckCellFits(cell()));
  KVBED_RETURN_IF_ERROR(CheckStoreRoom(cell(), result_.store));
  KVBED_RETURN_IF_ERROR(MakePool());
  KVBED_ASSIGN_OR_RETURN(data_, CellData::Create(cell()));
  KVBED_ASSIGN_OR_RETURN(mover_,
                         LoadMover::Open(place_->store(), *pool_, shape_.workers(), iodepth()));
  KVBED_ASSIGN_OR_RETURN(io_, OpenIo(cell().store.settings.ioengine));
  sets_.resize(cell().sets());
  DescribeStore();
  set_mover_.emplace(shape_, *data_, *pool_, device_);
  return Status::Ok();
}

// How its bytes are counted, and what stands beside it.
void CellRun::DescribeStore() {
  result_.store = place_->store().info();
  overwrites_ = result_.store.overwrites;
  const std::string no_files = "the store has no files";
  if (has_files()) device_ = DeviceCounters::For(place_->folder(), {});
  ByteEvidence& bytes = result_.bytes;
  bytes = EvidenceBy(device_);
  bytes.direct = result_.store.direct;
  if (!has_files()) {
    bytes.source_reason = result_.first_write_reason = result_.null_reason = no_files;
  }
  if (cell().store.spec.kind == StoreKind::kRocksDb) {
    result_.null_reason = "RocksDB reads what it wrote, so it can't run over a disk without one";
    bytes.redundancy = "RocksDB's log and compactions";
  }
  ceilings_.emplace(CeilingPlace{.folder = place_->folder(),
                                 .block_bytes = cell().geometry.record_bytes(),
                                 .blocks = cell().blocks(),
                                 .iodepth = iodepth(),
                                 .direct = result_.store.direct,
                                 .overwrites = overwrites_,
                                 .fio = cell().fio,
                                 .no_fio_reason = cell().profile == BenchProfile::kCi
                                                      ? "--profile ci (--fio runs it)"
                                                      : "--no-fio",
                                 .no_files_reason = no_files});
}

// As large as the context needs, or as --pool-bytes says: then it is moved in rounds.
Status CellRun::MakePool() {
  const KvGeometry& geometry = cell().geometry;
  KVBED_ASSIGN_OR_RETURN(shape_, ShapeCell(cell()));
  // Real sequences have room for their first new tokens.
  const uint64_t room = cell().real != nullptr
                            ? shape_.sequences * (geometry.BlocksFor(cell().ctx_tokens + 1) -
                                                  geometry.BlocksFor(cell().ctx_tokens))
                            : 0;
  const uint64_t records = shape_.pool_records(geometry) + room;
  if (records > UINT32_MAX) return Status::InvalidArgument("too many blocks");
  KVBED_ASSIGN_OR_RETURN(pool_, BlockPool::Create(geometry, static_cast<uint32_t>(records)));
  result_.rounds = shape_.rounds.size();
  result_.pool_bytes = records * geometry.record_bytes();
  return Status::Ok();
}

void CellRun::CountSteps() {
  const uint64_t sets = steady() ? kPreconditions * sets_.size() : sets_.size() - 1;
  const uint64_t repetitions = steady() ? cell().rounds_max : cell().repetitions;
  const uint64_t first_writes = has_files() && overwrites_ ? cell().repetitions : 0;
  steps_ = (cell().aged ? 1 : 0) + sets + 1 + repetitions + 1 + (cell().mix_gb_per_s ? 1 : 0) +
           first_writes;
}

Status CellRun::Repeat() {
  CountSteps();
  if (has_files() && !overwrites_) {
    result_.first_write_reason = "every offload of this store is a first write: see offload";
  }
  KVBED_RETURN_IF_ERROR(Age());
  KVBED_RETURN_IF_ERROR(WriteSets());
  KVBED_RETURN_IF_ERROR(OneRepetition(true));
  if (result_.null_reason.empty()) {
    KVBED_ASSIGN_OR_RETURN(
        const NullRates rates,
        MeasureNullRates(cell(), *data_, *pool_, FileIn("null"), shape_.rounds[0][0].tokens));
    result_.null_write_gb_per_s = rates.write_gb_per_s;
    result_.null_read_gb_per_s = rates.read_gb_per_s;
  }
  if (steady()) {
    KVBED_RETURN_IF_ERROR(SteadyRounds());
  } else {
    for (uint32_t i = 0; i < cell().repetitions; ++i) KVBED_RETURN_IF_ERROR(OneRepetition(false));
  }
  Step();
  KVBED_RETURN_IF_ERROR(Ttft());
  KVBED_RETURN_IF_ERROR(Mix());
  // Last, since the files that it removes may be discarded on the device in the background.
  const uint64_t first_writes = has_files() && overwrites_ ? cell().repetitions : 0;
  for (uint64_t i = 0; i < first_writes; ++i) KVBED_RETURN_IF_ERROR(FirstWrite());
  progress_(steps_, steps_);
  return Status::Ok();
}

// Its snapshots are numbered behind those of the working set.
Status CellRun::Age() {
  if (!cell().aged) return Status::Ok();
  Step();
  const AgePlan plan = PlanAge(cell(), AgedFillBytes(cell(), result_.store), pool_->records());
  const uint64_t first = sets_.size() * shape_.parts();
  KVBED_ASSIGN_OR_RETURN(
      result_.aged,
      AgeStore(plan, cell().seed,
               {.store = place_->store(),
                .mover = *mover_,
                .data = *data_,
                .pool = *pool_,
                .name = [&](uint64_t number) { return place_->SnapshotName(first + number); },
                .written = [&](const Manifest& manifest) { NoteWritten(manifest); }}));
  return Status::Ok();
}

// All of the working set but what the first repetition writes; all, and twice, before a steady
// measurement.
Status CellRun::WriteSets() {
  const uint64_t sets = steady() ? sets_.size() : sets_.size() - 1;
  for (uint64_t pass = 0; pass < (steady() ? kPreconditions : 1); ++pass) {
    for (uint64_t set = 0; set < sets; ++set) {
      Step();
      KVBED_RETURN_IF_ERROR(WriteSet(set).status());
    }
  }
  if (cell().working_set_bytes) {
    result_.working_set_bytes = sets_.size() * cell().stored_bytes();
  }
  return Status::Ok();
}

Status CellRun::OneRepetition(bool warm_up) {
  if (Interrupted()) return InterruptedStatus();
  Step();
  const WorkingSetTurn turn = working_set_.Next();
  KVBED_RETURN_IF_ERROR(OffloadOnce(turn.write, warm_up));
  if (has_files()) KVBED_RETURN_IF_ERROR(ceilings_->Write(*io_, pool_->memory(), warm_up));
  KVBED_RETURN_IF_ERROR(RestoreOnce(turn.read, warm_up));
  return has_files() ? ceilings_->Read(*io_, pool_->memory(), warm_up) : Status::Ok();
}

Status CellRun::SteadyRounds() {
  const auto add = [&](uint64_t ns, std::vector<double>& rounds) {
    rounds.push_back(GbPerS(cell().stored_bytes(), ns).value_or(0));
  };
  while (!result_.steady && result_.round_offload_gb_per_s.size() < cell().rounds_max) {
    KVBED_RETURN_IF_ERROR(OneRepetition(false));
    add(result_.offload.back().durable_ns(), result_.round_offload_gb_per_s);
    add(result_.restore.back().wall_ns, result_.round_restore_gb_per_s);
    result_.steady =
        IsSteady(result_.round_offload_gb_per_s) && IsSteady(result_.round_restore_gb_per_s);
  }
  return Status::Ok();
}

// A place that is written for the first time isn't overwritten.
void CellRun::NoteWritten(const Manifest& manifest) {
  for (const ManifestBlock& block : manifest.blocks) {
    if (written_places_.insert(block.place).second) overwrote_ = false;
  }
}

// In the place of what the set was: its slots are free again, and the new one takes them.
Result<OffloadedSet> CellRun::WriteSet(uint64_t set) {
  const uint64_t first = set * shape_.parts();
  KVBED_RETURN_IF_ERROR(place_->RemoveSnapshots(first, shape_.parts()));
  sets_[set].clear();
  KVBED_ASSIGN_OR_RETURN(
      OffloadedSet written,
      set_mover_->Offload(
          *mover_, [&](uint64_t part) { return place_->SnapshotName(first + part); }, durable()));
  sets_[set] = written.set;
  overwrote_ = overwrites_;
  for (const std::vector<Manifest>& round : written.set) {
    for (const Manifest& manifest : round) NoteWritten(manifest);
  }
  return written;
}

Status CellRun::OffloadOnce(uint64_t set, bool warm_up) {
  const uint64_t before_bytes = place_->store().counters().bytes_written;
  KVBED_ASSIGN_OR_RETURN(const OffloadedSet written, WriteSet(set));
  if (warm_up) return Status::Ok();
  result_.overwrite = overwrote_ && (result_.offload.empty() || result_.overwrite);
  result_.bytes.app.written_bytes += place_->store().counters().bytes_written - before_bytes;
  AddDirection(written.bytes, Direction::kWrite, result_.bytes);
  result_.offload_latencies_ns.insert(result_.offload_latencies_ns.end(),
                                      written.latencies_ns.begin(), written.latencies_ns.end());
  result_.offload.push_back(written.sample);
  return Status::Ok();
}

void CellRun::NoteRestored(const RestoredSet& restored) {
  result_.huge_page_bytes = pool_->HugePageBytes();
  result_.findings.insert(result_.findings.end(), restored.findings.begin(),
                          restored.findings.end());
  result_.verified_blocks += restored.verified_blocks;
}

Status CellRun::RestoreOnce(uint64_t set, bool warm_up) {
  if (cell().cache) {
    KVBED_RETURN_IF_ERROR(SetCacheState(
        *cell().cache, {.store_folder = cell().store.spec.path, .own_folder = place_->folder()},
        [&] { return set_mover_->Restore(*mover_, sets_[set]).status(); }));
  }
  if (cell().cache && !warm_up) {
    KVBED_RETURN_IF_ERROR(
        NoteCacheState({.store_folder = cell().store.spec.path, .own_folder = place_->folder()},
                       cell().stored_bytes(), result_.cache));
  }
  const uint64_t before_bytes = place_->store().counters().bytes_read;
  KVBED_ASSIGN_OR_RETURN(const RestoredSet restored, set_mover_->Restore(*mover_, sets_[set]));
  NoteRestored(restored);
  KVBED_RETURN_IF_ERROR(restored.failed_read);
  if (warm_up) return Status::Ok();
  result_.bytes.app.read_bytes += place_->store().counters().bytes_read - before_bytes;
  AddDirection(restored.bytes, Direction::kRead, result_.bytes);
  result_.restore_latencies_ns.insert(result_.restore_latencies_ns.end(),
                                      restored.latencies_ns.begin(), restored.latencies_ns.end());
  result_.restore.push_back(restored.sample);
  return Status::Ok();
}

// The last repetition's snapshot is still there.
Status CellRun::Ttft() {
  if (cell().real == nullptr) {
    result_.ttft_reason = "synthetic KV: no model runs (-m MODEL)";
  } else if (shape_.rounds.size() != 1 || shape_.numjobs != 1) {
    result_.ttft_reason = "measured with one queue a sequence and a pool that holds them all";
  } else if (!result_.findings.empty()) {
    result_.ttft_reason = "a record failed verification";
  }
  if (!result_.ttft_reason.empty()) return Status::Ok();
  std::vector<std::string> snapshots;
  for (uint64_t part = 0; part < shape_.parts(); ++part) {
    snapshots.push_back(place_->SnapshotName(part));
  }
  KVBED_ASSIGN_OR_RETURN(result_.ttft, MeasureTtft({.store = place_->store(),
                                                    .mover = *mover_,
                                                    .pool = *pool_,
                                                    .snapshots = std::move(snapshots),
                                                    .repetitions = cell().repetitions},
                                                   *cell().real));
  return Status::Ok();
}

// The repetitions' snapshots are restored again while another one is offloaded.
Status CellRun::Mix() {
  if (!cell().mix_gb_per_s) return Status::Ok();
  Step();
  MixSamples samples;
  const auto restore = [&]() -> Result<RestoreSample> {
    KVBED_ASSIGN_OR_RETURN(const RestoredSet restored,
                           set_mover_->Restore(*mover_, sets_[working_set_.NextRead()]));
    NoteRestored(restored);
    KVBED_RETURN_IF_ERROR(restored.failed_read);
    samples.latencies_ns.insert(samples.latencies_ns.end(), restored.latencies_ns.begin(),
                                restored.latencies_ns.end());
    return restored.sample;
  };
  KVBED_RETURN_IF_ERROR(RunMix({.cell = cell(),
                                .store = place_->store(),
                                .beside_name = place_->BesideName(),
                                .beside_records = pool_->records(),
                                .restore = restore},
                               samples));
  result_.mix = std::move(samples);
  return Status::Ok();
}

// Into a store that is made for it, so that no slot was ever written, and fio into a new file.
Status CellRun::FirstWrite() {
  if (Interrupted()) return InterruptedStatus();
  Step();
  NamedStore named = cell().store;
  named.spec.path = FileIn("first-write");
  named.spec.snapshot.clear();
  {
    KVBED_ASSIGN_OR_RETURN(auto store,
                           OpenNamed(named, StoreAccess::kCreate, cell().geometry.record_bytes()));
    KVBED_ASSIGN_OR_RETURN(auto mover,
                           LoadMover::Open(*store, *pool_, shape_.workers(), iodepth()));
    KVBED_ASSIGN_OR_RETURN(
        const OffloadedSet written,
        set_mover_->Offload(
            *mover, [](uint64_t part) { return fmt::format("first-write-{}", part); }, durable()));
    result_.first_write_gb_per_s.push_back(
        GbPerS(cell().stored_bytes(), written.sample.durable_ns()).value_or(0));
  }
  std::error_code ignored;
  std::filesystem::remove_all(named.spec.path, ignored);
  return ceilings_->FirstWrite(result_.first_write_fio_gb_per_s, result_.first_write_fio_reason);
}

// A steady measurement is what its last rounds were; `round_..._gb_per_s` has them all.
void CellRun::KeepLastRounds() {
  const size_t rounds = result_.offload.size();
  if (!steady() || rounds <= kSteadyWindow || result_.restore.size() != rounds) return;
  const auto keep = [](auto& values, size_t count) {
    if (values.size() > count) values.erase(values.begin(), values.end() - count);
  };
  keep(result_.offload, kSteadyWindow);
  keep(result_.restore, kSteadyWindow);
  keep(result_.offload_latencies_ns, kSteadyWindow * cell().blocks());
  keep(result_.restore_latencies_ns, kSteadyWindow * cell().blocks());
  for (CeilingSamples* ceiling : {&result_.fio, &result_.fio_huge, &result_.raw}) {
    if (ceiling->write.size() != rounds || ceiling->read.size() != rounds) continue;
    keep(ceiling->write, kSteadyWindow);
    keep(ceiling->read, kSteadyWindow);
  }
}

Measurement CellRun::Finish(const Status& status) {
  result_.failure = status;
  if (place_ != nullptr) {
    result_.store = place_->store().info();
    if (!status.ok()) place_->RemoveAtEnd();
  }
  if (ceilings_) {
    ceilings_->Describe(result_);
  } else {
    result_.fio.reason = result_.fio_huge.reason = result_.raw.reason = status.message();
    result_.first_write_reason = result_.ttft_reason = status.message();
    result_.bytes.source_reason = result_.null_reason = status.message();
  }
  if (set_mover_) result_.duplicate_pages_percent = set_mover_->duplicate_pages_percent();
  KeepLastRounds();
  if (pool_ != nullptr && result_.huge_page_bytes == 0) {
    result_.huge_page_bytes = pool_->HugePageBytes();
  }
  return std::move(result_);
}

// Of the command line's making, and no measurement.
bool IsUsage(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kNotSupported;
}

}  // namespace

Result<Measurement> MeasureCell(const BenchCell& cell, const BenchProgress& progress) {
  CellRun run(cell, progress);
  Status status = run.Prepare();
  if (IsUsage(status)) return status;
  if (status.ok()) status = run.Repeat();
  return run.Finish(status);
}

}  // namespace kvbed
