#include "tools/bench/cell_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/disk_space.h"
#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "offload/sequence.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/load_shape.h"
#include "tools/bench/null_io.h"
#include "tools/bench/real_kv.h"
#include "tools/bench/section_meter.h"
#include "tools/bench/statistics.h"
#include "tools/bench/synthetic_kv.h"
#include "tools/bench/ttft_run.h"
#include "tools/bench/workplace.h"
#include "tools/block_device.h"
#include "tools/device_counters.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"
#include "tools/rates.h"
#include "tools/system_text.h"

namespace kvbed {
namespace {

constexpr uint64_t kNullRuns = 3;

class CellRun {
 public:
  explicit CellRun(const BenchCell& cell) { result_.cell = cell; }

  Status Prepare();
  Status Repeat(const BenchProgress& progress);
  Measurement Finish();

 private:
  const BenchCell& cell() const { return result_.cell; }
  bool has_files() const { return !place_->folder().empty(); }
  std::string FileIn(const char* name) const { return place_->folder() + "/" + name; }

  Status MakePool();
  Sequence NewSequence(uint64_t sequence_id) const;
  Result<Sequence> FilledSequence(uint64_t tokens);
  Manifest NewManifest(const std::string& name, uint64_t tokens) const;
  Result<OffloadSample> OffloadRounds(LoadMover& mover, bool warm_up,
                                      std::vector<std::vector<Manifest>>& rounds,
                                      const std::function<std::string(uint64_t)>& name);
  Status OneRepetition(bool warm_up);
  Result<std::vector<std::vector<Manifest>>> OffloadOnce(bool warm_up);
  Status RestoreOnce(const std::vector<std::vector<Manifest>>& rounds, bool warm_up);
  Result<RestoreSample> RestoreRound(const std::vector<LoadPart>& round,
                                     const std::vector<Manifest>& manifests, bool warm_up);
  Status FirstWrite();
  Status Ttft();
  Status NullRates();
  Status NullRun(BlockStore& store, LoadMover& mover, uint64_t round, std::vector<double>& write,
                 std::vector<double>& read);
  uint32_t iodepth() const { return cell().store.settings.iodepth; }

  Measurement result_;
  bool overwrites_ = true;  // the store puts records where others were
  std::unique_ptr<Workplace> place_;
  LoadShape shape_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<SyntheticKv> synthetic_;
  const KvSource* data_ = nullptr;
  std::unique_ptr<LoadMover> mover_;
  std::unique_ptr<Io> io_;
  std::optional<Ceilings> ceilings_;
  DeviceCounters device_;
  std::set<uint64_t> written_places_;
  uint64_t fills_ = 0;
};

Status CellRun::Prepare() {
  KVBED_RETURN_IF_ERROR(cell().geometry.Validate());
  KVBED_ASSIGN_OR_RETURN(
      place_, Workplace::Open(cell().store, cell().geometry.record_bytes(), cell().keep));
  KVBED_RETURN_IF_ERROR(CheckCellFits(cell()));
  KVBED_RETURN_IF_ERROR(MakePool());
  KVBED_ASSIGN_OR_RETURN(mover_,
                         LoadMover::Open(place_->store(), *pool_, shape_.workers(), iodepth()));
  KVBED_ASSIGN_OR_RETURN(io_, OpenIo(cell().store.settings.ioengine));
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
                                 .no_files_reason = no_files});
  return Status::Ok();
}

// As large as the context needs, or as --pool-bytes says: then it is moved in rounds.
Status CellRun::MakePool() {
  const KvGeometry& geometry = cell().geometry;
  // A real sequence has room for its first new token.
  const uint64_t needed =
      cell().real != nullptr ? geometry.BlocksFor(cell().ctx_tokens + 1) : cell().blocks();
  const uint64_t given = cell().pool_bytes ? *cell().pool_bytes / geometry.record_bytes() : needed;
  KVBED_ASSIGN_OR_RETURN(shape_, ShapeLoad(geometry, cell().ctx_tokens, cell().streams(),
                                           cell().numjobs, std::min(needed, given)));
  const uint64_t records = cell().real != nullptr ? needed : shape_.pool_records(geometry);
  if (records > UINT32_MAX) return Status::InvalidArgument("too many blocks");
  KVBED_ASSIGN_OR_RETURN(pool_, BlockPool::Create(geometry, static_cast<uint32_t>(records)));
  result_.rounds = shape_.rounds.size();
  result_.pool_bytes = records * geometry.record_bytes();
  if (cell().real != nullptr) {
    data_ = cell().real;
    return Status::Ok();
  }
  KVBED_ASSIGN_OR_RETURN(synthetic_, SyntheticKv::Create(geometry, cell().seed));
  data_ = &*synthetic_;
  return Status::Ok();
}

Sequence CellRun::NewSequence(uint64_t sequence_id) const {
  if (cell().real != nullptr) return Sequence(*pool_, cell().real->IdentityOf(sequence_id));
  return Sequence(*pool_, {.model_fingerprint = cell().shape.Digests().Fingerprint(),
                           .rope_identity = 0,
                           .sequence_id = sequence_id});
}

// A new sequence; synthetic KV of it is unlike any before. Outside every clock.
Result<Sequence> CellRun::FilledSequence(uint64_t tokens) {
  Sequence sequence = NewSequence(RandomId());
  KVBED_RETURN_IF_ERROR(sequence.Reserve(tokens));
  sequence.Advance(tokens);
  data_->Fill(sequence, fills_++);
  return sequence;
}

Manifest CellRun::NewManifest(const std::string& name, uint64_t tokens) const {
  Manifest manifest;
  manifest.name = name;
  manifest.prompt_tokens = tokens;
  manifest.token_ids.assign(tokens, 0);
  if (const RealKv* real = cell().real) {
    manifest.model_name = real->model().files.name;
    manifest.model = real->model().digests;
    manifest.environment = real->model().engine.environment();
    return manifest;
  }
  manifest.model_name = cell().shape.name + " (synthetic KV)";
  manifest.model = cell().shape.Digests();
  manifest.environment.kernel_set = "none";
  return manifest;
}

Status CellRun::Repeat(const BenchProgress& progress) {
  const uint64_t repetitions = uint64_t{cell().repetitions} + 1;
  if (has_files() && !overwrites_) {
    result_.first_write_reason = "every offload of this store is a first write: see offload";
  }
  const uint64_t first_writes = has_files() && overwrites_ ? cell().repetitions : 0;
  const uint64_t total = repetitions + 1 + first_writes;
  for (uint64_t done = 0; done < repetitions; ++done) {
    progress(done, total);
    KVBED_RETURN_IF_ERROR(OneRepetition(done == 0));
    if (done == 0 && result_.null_reason.empty()) KVBED_RETURN_IF_ERROR(NullRates());
  }
  progress(repetitions, total);
  KVBED_RETURN_IF_ERROR(Ttft());
  // Last, since the files that it removes may be discarded on the device in the background.
  for (uint64_t i = 0; i < first_writes; ++i) {
    progress(repetitions + 1 + i, total);
    KVBED_RETURN_IF_ERROR(FirstWrite());
  }
  progress(total, total);
  return Status::Ok();
}

Status CellRun::OneRepetition(bool warm_up) {
  if (Interrupted()) return InterruptedStatus();
  // The slots that the last snapshots wrote are free again, and the next ones take them.
  KVBED_RETURN_IF_ERROR(place_->RemoveSnapshots());
  KVBED_ASSIGN_OR_RETURN(const auto rounds, OffloadOnce(warm_up));
  if (has_files()) KVBED_RETURN_IF_ERROR(ceilings_->Write(*io_, pool_->memory(), warm_up));
  KVBED_RETURN_IF_ERROR(RestoreOnce(rounds, warm_up));
  return has_files() ? ceilings_->Read(*io_, pool_->memory(), warm_up) : Status::Ok();
}

// Round after round: the pool is filled outside the clock, and what it holds is offloaded. Times
// are sums.
Result<OffloadSample> CellRun::OffloadRounds(LoadMover& mover, bool warm_up,
                                             std::vector<std::vector<Manifest>>& rounds,
                                             const std::function<std::string(uint64_t)>& name) {
  OffloadSample sum;
  uint64_t number = 0;
  for (const std::vector<LoadPart>& round : shape_.rounds) {
    if (Interrupted()) return InterruptedStatus();
    std::vector<Sequence> sequences;
    sequences.reserve(round.size());
    std::vector<Manifest>& manifests = rounds.emplace_back();
    for (const LoadPart& part : round) {
      KVBED_ASSIGN_OR_RETURN(Sequence sequence, FilledSequence(part.tokens));
      sequences.push_back(std::move(sequence));
      manifests.push_back(NewManifest(name(number++), part.tokens));
    }
    if (warm_up && rounds.size() == 1) {
      result_.duplicate_pages_percent = DuplicatePagePercent(sequences[0]);
    }
    std::vector<LoadMover::OffloadPart> parts;
    for (size_t i = 0; i < round.size(); ++i) {
      parts.push_back({round[i].sequence, &sequences[i], &manifests[i], {}});
    }
    ByteEvidence section = EvidenceBy(device_);
    const SectionMeter meter(device_);
    auto sample = mover.Offload(parts, {.mode = CommitMode::kNew,
                                        .sync = cell().store.settings.sync != SyncMode::kNone,
                                        .keep_latencies = true});
    const uint64_t cpu_ns = meter.Stop(section);
    if (!sample.ok()) return sample.status();
    sample->cpu_ns = cpu_ns;
    sum.AddRound(*sample);
    if (&mover != mover_.get() || warm_up) continue;
    AddDirection(section, Direction::kWrite, result_.bytes);
    for (const LoadMover::OffloadPart& part : parts) {
      result_.offload_latencies_ns.insert(result_.offload_latencies_ns.end(),
                                          part.report.latencies_ns.begin(),
                                          part.report.latencies_ns.end());
    }
  }
  return sum;
}

Result<std::vector<std::vector<Manifest>>> CellRun::OffloadOnce(bool warm_up) {
  std::vector<std::vector<Manifest>> rounds;
  const uint64_t before_bytes = place_->store().counters().bytes_written;
  KVBED_ASSIGN_OR_RETURN(const OffloadSample sample,
                         OffloadRounds(*mover_, warm_up, rounds, [this](uint64_t number) {
                           return place_->SnapshotName(number);
                         }));
  bool written_before = overwrites_;
  for (const std::vector<Manifest>& round : rounds) {
    for (const Manifest& manifest : round) {
      for (const ManifestBlock& block : manifest.blocks) {
        if (written_places_.insert(block.place).second) written_before = false;
      }
    }
  }
  if (warm_up) return rounds;
  result_.overwrite = written_before && (result_.offload.empty() || result_.overwrite);
  result_.bytes.app.written_bytes += place_->store().counters().bytes_written - before_bytes;
  result_.offload.push_back(sample);
  return rounds;
}

Status CellRun::RestoreOnce(const std::vector<std::vector<Manifest>>& rounds, bool warm_up) {
  const uint64_t before_bytes = place_->store().counters().bytes_read;
  RestoreSample sum;
  for (size_t round = 0; round < rounds.size(); ++round) {
    if (Interrupted()) return InterruptedStatus();
    pool_->PoisonAll();
    KVBED_ASSIGN_OR_RETURN(const RestoreSample sample,
                           RestoreRound(shape_.rounds[round], rounds[round], warm_up));
    sum.AddRound(sample);
  }
  if (warm_up) return Status::Ok();
  result_.bytes.app.read_bytes += place_->store().counters().bytes_read - before_bytes;
  result_.restore.push_back(sum);
  return Status::Ok();
}

Result<RestoreSample> CellRun::RestoreRound(const std::vector<LoadPart>& round,
                                            const std::vector<Manifest>& manifests, bool warm_up) {
  std::vector<Sequence> sequences;
  sequences.reserve(manifests.size());
  for (const Manifest& manifest : manifests) {
    sequences.push_back(NewSequence(manifest.sequence_id));
  }
  std::vector<LoadMover::RestorePart> parts;
  for (size_t i = 0; i < manifests.size(); ++i) {
    parts.push_back({round[i].sequence, &sequences[i], &manifests[i], {}});
  }
  ByteEvidence section = EvidenceBy(device_);
  const SectionMeter meter(device_);
  auto sample = mover_->Restore(parts, {.keep_latencies = true});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!sample.ok()) return sample.status();
  sample->cpu_ns = cpu_ns;
  result_.huge_page_bytes = pool_->HugePageBytes();
  for (const LoadMover::RestorePart& part : parts) {
    const RestoreReport& report = part.report;
    result_.findings.insert(result_.findings.end(), report.findings.begin(), report.findings.end());
    result_.verified_blocks += report.blocks_restored;
    if (!report.failed_reads.empty()) return report.failed_reads[0].status;
    if (warm_up) continue;
    result_.restore_latencies_ns.insert(result_.restore_latencies_ns.end(),
                                        report.latencies_ns.begin(), report.latencies_ns.end());
  }
  if (!warm_up) AddDirection(section, Direction::kRead, result_.bytes);
  return sample;
}

// The last repetition's snapshot is still there.
Status CellRun::Ttft() {
  if (cell().real == nullptr) {
    result_.ttft_reason = "synthetic KV: no model runs (-m MODEL)";
  } else if (shape_.parts() != 1) {
    result_.ttft_reason = "measured with one sequence, one queue and a pool that holds it";
  } else if (!result_.findings.empty()) {
    result_.ttft_reason = "a record failed verification";
  }
  if (!result_.ttft_reason.empty()) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(result_.ttft, MeasureTtft({.store = place_->store(),
                                                    .mover = *mover_,
                                                    .pool = *pool_,
                                                    .snapshot = place_->SnapshotName(0),
                                                    .repetitions = cell().repetitions},
                                                   *cell().real));
  return Status::Ok();
}

// Into a store that is made for it, so that no slot was ever written, and fio into a new file.
Status CellRun::FirstWrite() {
  if (Interrupted()) return InterruptedStatus();
  NamedStore named = cell().store;
  named.spec.path = FileIn("first-write");
  named.spec.snapshot.clear();
  double ours = 0;
  {
    KVBED_ASSIGN_OR_RETURN(auto store,
                           OpenNamed(named, StoreAccess::kCreate, cell().geometry.record_bytes()));
    KVBED_ASSIGN_OR_RETURN(auto mover,
                           LoadMover::Open(*store, *pool_, shape_.workers(), iodepth()));
    std::vector<std::vector<Manifest>> rounds;
    KVBED_ASSIGN_OR_RETURN(const OffloadSample sample,
                           OffloadRounds(*mover, true, rounds, [](uint64_t number) {
                             return fmt::format("first-write-{}", number);
                           }));
    ours = GbPerS(cell().stored_bytes(), sample.durable_ns()).value_or(0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(named.spec.path, ignored);
  result_.first_write_gb_per_s.push_back(ours);
  return ceilings_->FirstWrite(result_.first_write_fio_gb_per_s, result_.first_write_fio_reason);
}

// The same store code over a disk that completes at once, one queue.
Status CellRun::NullRates() {
  StoreSpec spec = cell().store.spec;
  spec.path = FileIn("null");
  spec.snapshot.clear();
  StoreOpenOptions options;
  options.access = StoreAccess::kCreate;
  options.defaults = cell().store.settings;
  options.record_bytes_hint = cell().geometry.record_bytes();
  // No disk, so neither its probe nor its syncs.
  spec.direct = DirectMode::kOff;
  spec.sync = SyncMode::kNone;
  std::vector<double> write, read;
  {
    KVBED_ASSIGN_OR_RETURN(auto base, OpenIo(IoEngine::kPsync));
    KVBED_ASSIGN_OR_RETURN(auto store, OpenStoreOver(MakeNullIo(std::move(base)), spec, options));
    KVBED_ASSIGN_OR_RETURN(auto mover, LoadMover::Open(*store, *pool_, 1, iodepth()));
    for (uint64_t round = 0; round < kNullRuns; ++round) {
      KVBED_RETURN_IF_ERROR(NullRun(*store, *mover, round, write, read));
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(spec.path, ignored);
  result_.null_write_gb_per_s = Median(write);
  result_.null_read_gb_per_s = Median(read);
  return Status::Ok();
}

Status CellRun::NullRun(BlockStore& store, LoadMover& mover, uint64_t round,
                        std::vector<double>& write, std::vector<double>& read) {
  const uint64_t tokens = shape_.rounds[0][0].tokens;
  Manifest manifest = NewManifest(fmt::format("null-{}", round), tokens);
  std::vector<uint32_t> records;
  {
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, FilledSequence(tokens));
    records = sequence.block_table();
    LoadMover::OffloadPart part{.sequence = &sequence, .manifest = &manifest, .report = {}};
    KVBED_ASSIGN_OR_RETURN(const OffloadSample sample, mover.Offload({&part, 1}, {}));
    write.push_back(GbPerS(part.report.written_bytes, sample.d1_ns).value_or(0));
  }
  // A read that moves nothing is whole when it lands where the block still is. The pool hands out
  // the record that was released last, so it gets them back from the last to the first.
  for (size_t i = 0; i < records.size(); ++i) {
    KVBED_RETURN_IF_ERROR(pool_->Allocate(BlockPool::Contents::kAsItIs).status());
  }
  for (size_t i = records.size(); i > 0; --i) pool_->Release(records[i - 1]);
  Sequence restored = NewSequence(manifest.sequence_id);
  LoadMover::RestorePart part{.sequence = &restored, .manifest = &manifest, .report = {}};
  KVBED_ASSIGN_OR_RETURN(const RestoreSample sample, mover.Restore({&part, 1}, {}));
  if (!part.report.whole()) return Status::IoError("the null store's restore is not whole");
  KVBED_RETURN_IF_ERROR(store.RemoveManifest(manifest.name));
  read.push_back(GbPerS(part.report.stored_bytes, sample.wall_ns).value_or(0));
  return Status::Ok();
}

Measurement CellRun::Finish() {
  result_.store = place_->store().info();
  ceilings_->Describe(result_);
  if (result_.huge_page_bytes == 0) result_.huge_page_bytes = pool_->HugePageBytes();
  return std::move(result_);
}

}  // namespace

Status CheckCellFits(const BenchCell& cell) {
  const bool has_files = cell.store.spec.kind != StoreKind::kMemory;
  const uint64_t need_bytes = cell.stored_bytes();
  const std::string what = fmt::format("{} tokens of {}", cell.ctx_tokens, cell.shape.name);
  // A store without files keeps its records in memory too, and a model's K and V are kept there.
  const uint64_t pool_bytes = std::min(need_bytes, cell.pool_bytes.value_or(need_bytes));
  const uint64_t more_bytes = (has_files ? 0 : need_bytes) + (cell.from_model ? need_bytes : 0);
  KVBED_RETURN_IF_ERROR(CheckMemoryFor(1, pool_bytes + more_bytes, what));
  if (!has_files) return Status::Ok();
  // The snapshot, the ceilings' file, and the store or the file of the first write.
  const auto free_bytes = AvailableBytes(NearestExisting(cell.store.spec.path));
  if (!free_bytes.ok() || *free_bytes / 3 >= need_bytes) return Status::Ok();
  return Status::OutOfSpace(fmt::format(
      "{} need 3 times {:.1f} GiB for snapshot, ceilings and first write, and {:.1f} GiB are free "
      "in {}: take a shorter context or another place",
      what, static_cast<double>(need_bytes) / (1 << 30),
      static_cast<double>(*free_bytes) / (1 << 30), cell.store.spec.path));
}

Result<Measurement> MeasureCell(const BenchCell& cell, const BenchProgress& progress) {
  CellRun run(cell);
  KVBED_RETURN_IF_ERROR(run.Prepare());
  const Status status = run.Repeat(progress);
  if (IsInterrupted(status)) return status;
  Measurement measurement = run.Finish();
  measurement.failure = status;
  return measurement;
}

}  // namespace kvbed
