#include "tools/bench/cell_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "backends/disk_space.h"
#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "offload/offloader.h"
#include "offload/sequence.h"
#include "tools/bench/fio.h"
#include "tools/bench/null_io.h"
#include "tools/bench/raw_transfer.h"
#include "tools/bench/statistics.h"
#include "tools/bench/synthetic_kv.h"
#include "tools/bench/workplace.h"
#include "tools/block_device.h"
#include "tools/device_counters.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"
#include "tools/process_usage.h"
#include "tools/rates.h"
#include "tools/system_text.h"

namespace kvbed {
namespace {

constexpr uint64_t kNullRuns = 3;

// What a timed section used, by the process's and the device's own counters.
class Meter {
 public:
  explicit Meter(const DeviceCounters& device) : device_(device) {
    device_before_ = Counts(device_.Read());
    past_cache_before_ = Counts(device_.ReadDirect());
    before_ = ReadProcessUsage();
  }

  // CPU time since the start; what was moved is added to `evidence`.
  uint64_t Stop(ByteEvidence& evidence) const {
    const ProcessUsage after = ReadProcessUsage();
    const auto device_after = Counts(device_.Read());
    Add(before_.io, after.io, evidence.process);
    Add(device_before_, device_after, evidence.device);
    Add(past_cache_before_, Counts(device_.ReadDirect()), evidence.past_cache);
    return after.cpu_ns - before_.cpu_ns;
  }

 private:
  static std::optional<ByteCounts> Counts(const Result<ByteCounts>& counts) {
    return counts.ok() ? std::optional(*counts) : std::nullopt;
  }
  static void Add(const std::optional<ByteCounts>& before, const std::optional<ByteCounts>& after,
                  std::optional<ByteCounts>& sum) {
    if (!before || !after || !sum) {
      sum.reset();
      return;
    }
    sum->read_bytes += after->read_bytes - before->read_bytes;
    sum->written_bytes += after->written_bytes - before->written_bytes;
  }

  const DeviceCounters& device_;
  std::optional<ByteCounts> device_before_;
  std::optional<ByteCounts> past_cache_before_;
  ProcessUsage before_;
};

// Only the direction that the section is about: the other one is manifests.
enum class Direction { kWrite, kRead };

void AddDirection(const ByteEvidence& section, Direction direction, ByteEvidence& sum) {
  const auto add = [&](auto field) {
    sum.app.*field += section.app.*field;
    const auto add_one = [&](const std::optional<ByteCounts>& part,
                             std::optional<ByteCounts>& whole) {
      if (part && whole) {
        (*whole).*field += (*part).*field;
      } else {
        whole.reset();
      }
    };
    add_one(section.process, sum.process);
    add_one(section.device, sum.device);
    add_one(section.past_cache, sum.past_cache);
  };
  add(direction == Direction::kWrite ? &ByteCounts::written_bytes : &ByteCounts::read_bytes);
}

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

  Sequence NewSequence(uint64_t sequence_id) const;
  Result<Sequence> FilledSequence();
  Manifest NewManifest(const std::string& name) const;
  Status OneRepetition(bool warm_up);
  Status OffloadOnce(Sequence& sequence, Manifest& manifest, bool warm_up);
  Status RestoreOnce(const Manifest& manifest, bool warm_up);
  Status WriteCeilings(bool warm_up);
  Status ReadCeilings(bool warm_up);
  Status Fio(bool write, bool huge, bool warm_up, CeilingSamples& samples);
  Status Raw(bool write, bool warm_up);
  Status FirstWrite();
  Status NullRates();
  Status NullRun(BlockStore& store, StoreChannel& channel, uint64_t round,
                 std::vector<double>& write, std::vector<double>& read);
  FioJob Job(bool write) const;

  Measurement result_;
  bool overwrites_ = true;  // the store puts records where others were
  std::unique_ptr<Workplace> place_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<SyntheticKv> data_;
  std::optional<StoreChannel> channel_;
  std::unique_ptr<Io> io_;
  DeviceCounters device_;
  std::set<uint64_t> written_places_;
  uint64_t round_ = 0;
};

Status CellRun::Prepare() {
  KVBED_RETURN_IF_ERROR(cell().geometry.Validate());
  KVBED_ASSIGN_OR_RETURN(
      place_, Workplace::Open(cell().store, cell().geometry.record_bytes(), cell().keep));
  KVBED_RETURN_IF_ERROR(CheckCellFits(cell()));
  if (cell().blocks() > UINT32_MAX) return Status::InvalidArgument("too many blocks");
  KVBED_ASSIGN_OR_RETURN(
      pool_, BlockPool::Create(cell().geometry, static_cast<uint32_t>(cell().blocks())));
  KVBED_ASSIGN_OR_RETURN(data_, SyntheticKv::Create(cell().geometry, cell().seed));
  KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                         place_->store().OpenChannel({.iodepth = cell().store.settings.iodepth,
                                                      .memory = pool_->memory()}));
  channel_.emplace(std::move(channel));
  KVBED_ASSIGN_OR_RETURN(io_, OpenIo(cell().store.settings.ioengine));
  result_.store = place_->store().info();
  if (has_files()) device_ = DeviceCounters::For(place_->folder(), {});
  ByteEvidence& bytes = result_.bytes;
  bytes = EvidenceBy(device_);
  bytes.direct = result_.store.direct;
  if (has_files()) {
    FioJob job = Job(true);
    job.file = "ceiling.dat";
    result_.fio_job = "# run it in a folder on the store's filesystem\n" + FioCeilingsText(job);
  } else {
    bytes.source_reason = "the store has no files";
    result_.fio.reason = result_.fio_huge.reason = result_.raw.reason = bytes.source_reason;
    result_.first_write_reason = result_.null_reason = bytes.source_reason;
  }
  if (cell().store.spec.kind == StoreKind::kRocksDb) {
    result_.null_reason = "RocksDB reads what it wrote, so it can't run over a disk without one";
    bytes.redundancy = "RocksDB's log and compactions";
  }
  if (has_files() && !cell().fio) result_.fio.reason = result_.fio_huge.reason = "--no-fio";
  if (result_.fio.reason.empty()) {
    if (const auto version = FioVersion(); !version.ok()) {
      result_.fio.reason = "fio is not installed (apt install fio)";
      result_.fio_huge.reason = result_.fio.reason;
    }
  }
  if (result_.fio_huge.reason.empty()) {
    const Status huge = CheckHugePages(Job(true), ReadSystemFile("/proc/meminfo").value_or(""));
    if (!huge.ok()) result_.fio_huge.reason = huge.message();
  }
  return Status::Ok();
}

FioJob CellRun::Job(bool write) const {
  return {.write = write,
          .file = FileIn("ceiling.dat"),
          .block_bytes = cell().geometry.record_bytes(),
          .blocks = cell().blocks(),
          .iodepth = cell().store.settings.iodepth};
}

Sequence CellRun::NewSequence(uint64_t sequence_id) const {
  return Sequence(*pool_, {.model_fingerprint = cell().shape.Digests().Fingerprint(),
                           .rope_identity = 0,
                           .sequence_id = sequence_id});
}

// A new sequence that fills the pool, its KV unlike any before. Outside every clock.
Result<Sequence> CellRun::FilledSequence() {
  Sequence sequence = NewSequence(RandomId());
  KVBED_RETURN_IF_ERROR(sequence.Reserve(cell().ctx_tokens));
  sequence.Advance(cell().ctx_tokens);
  data_->Fill(sequence, round_++);
  return sequence;
}

Manifest CellRun::NewManifest(const std::string& name) const {
  Manifest manifest;
  manifest.name = name;
  manifest.model_name = cell().shape.name + " (synthetic KV)";
  manifest.model = cell().shape.Digests();
  manifest.prompt_tokens = cell().ctx_tokens;
  manifest.token_ids.assign(cell().ctx_tokens, 0);
  manifest.environment.kernel_set = "none";
  return manifest;
}

Status CellRun::Repeat(const BenchProgress& progress) {
  const uint64_t repetitions = uint64_t{cell().repetitions} + 1;
  overwrites_ = place_->store().info().overwrites;
  if (has_files() && !overwrites_) {
    result_.first_write_reason = "every offload of this store is a first write: see offload";
  }
  const uint64_t first_writes = has_files() && overwrites_ ? cell().repetitions : 0;
  const uint64_t total = repetitions + first_writes;
  for (uint64_t done = 0; done < repetitions; ++done) {
    progress(done, total);
    KVBED_RETURN_IF_ERROR(OneRepetition(done == 0));
    if (done == 0 && result_.null_reason.empty()) KVBED_RETURN_IF_ERROR(NullRates());
  }
  // Last, since the files that it removes may be discarded on the device in the background.
  for (uint64_t i = 0; i < first_writes; ++i) {
    progress(repetitions + i, total);
    KVBED_RETURN_IF_ERROR(FirstWrite());
  }
  progress(total, total);
  return Status::Ok();
}

Status CellRun::OneRepetition(bool warm_up) {
  if (Interrupted()) return InterruptedStatus();
  // The slots that the last snapshot wrote are free again, and the next one takes them.
  KVBED_RETURN_IF_ERROR(place_->RemoveSnapshot());
  Manifest manifest = NewManifest(place_->snapshot());
  {
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, FilledSequence());
    if (warm_up) result_.duplicate_pages_percent = DuplicatePagePercent(sequence);
    KVBED_RETURN_IF_ERROR(OffloadOnce(sequence, manifest, warm_up));
    KVBED_RETURN_IF_ERROR(WriteCeilings(warm_up));
  }
  pool_->PoisonAll();
  KVBED_RETURN_IF_ERROR(RestoreOnce(manifest, warm_up));
  return ReadCeilings(warm_up);
}

Status CellRun::OffloadOnce(Sequence& sequence, Manifest& manifest, bool warm_up) {
  ByteEvidence section = EvidenceBy(device_);
  const uint64_t before_bytes = place_->store().counters().bytes_written;
  const Meter meter(device_);
  auto report = Offload(place_->store(), *channel_, sequence, manifest,
                        {.mode = CommitMode::kNew,
                         .sync = cell().store.settings.sync != SyncMode::kNone,
                         .keep_latencies = true});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!report.ok()) return report.status();
  bool written_before = overwrites_;
  for (const ManifestBlock& block : manifest.blocks) {
    if (written_places_.insert(block.place).second) written_before = false;
  }
  if (warm_up) return Status::Ok();
  result_.overwrite = written_before && (result_.offload.empty() || result_.overwrite);
  section.app.written_bytes = place_->store().counters().bytes_written - before_bytes;
  AddDirection(section, Direction::kWrite, result_.bytes);
  result_.offload.push_back({.d0_ns = report->d0_ns,
                             .d1_ns = report->d1_ns,
                             .d2_ns = report->d2_ns,
                             .cpu_ns = cpu_ns,
                             .hash_ns = report->hash_ns,
                             .first_done_ns = report->first_done_ns,
                             .last_done_ns = report->last_done_ns});
  result_.offload_latencies_ns.insert(result_.offload_latencies_ns.end(),
                                      report->latencies_ns.begin(), report->latencies_ns.end());
  return Status::Ok();
}

Status CellRun::RestoreOnce(const Manifest& manifest, bool warm_up) {
  Sequence sequence = NewSequence(manifest.sequence_id);
  ByteEvidence section = EvidenceBy(device_);
  const uint64_t before_bytes = place_->store().counters().bytes_read;
  const Meter meter(device_);
  auto report = Restore(place_->store(), *channel_, manifest, sequence, {.keep_latencies = true});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!report.ok()) return report.status();
  result_.huge_page_bytes = pool_->HugePageBytes();
  result_.findings.insert(result_.findings.end(), report->findings.begin(), report->findings.end());
  result_.verified_blocks += report->blocks_restored;
  if (!report->failed_reads.empty()) return report->failed_reads[0].status;
  if (warm_up) return Status::Ok();
  section.app.read_bytes = place_->store().counters().bytes_read - before_bytes;
  AddDirection(section, Direction::kRead, result_.bytes);
  result_.restore.push_back({.wall_ns = report->wall_ns,
                             .verify_ns = report->verify_ns,
                             .overlap_ns = report->overlap_ns,
                             .cpu_ns = cpu_ns,
                             .first_done_ns = report->first_done_ns,
                             .last_done_ns = report->last_done_ns});
  result_.restore_latencies_ns.insert(result_.restore_latencies_ns.end(),
                                      report->latencies_ns.begin(), report->latencies_ns.end());
  return Status::Ok();
}

Status CellRun::WriteCeilings(bool warm_up) {
  if (!has_files()) return Status::Ok();
  KVBED_RETURN_IF_ERROR(Fio(true, false, warm_up, result_.fio));
  KVBED_RETURN_IF_ERROR(Raw(true, warm_up));
  return Fio(true, true, warm_up, result_.fio_huge);
}

Status CellRun::ReadCeilings(bool warm_up) {
  if (!has_files()) return Status::Ok();
  KVBED_RETURN_IF_ERROR(Fio(false, false, warm_up, result_.fio));
  KVBED_RETURN_IF_ERROR(Raw(false, warm_up));
  return Fio(false, true, warm_up, result_.fio_huge);
}

// A fio that fails takes all its samples with it: pairs must stay pairs.
Status CellRun::Fio(bool write, bool huge, bool warm_up, CeilingSamples& samples) {
  if (!samples.reason.empty()) return Status::Ok();
  FioJob job = Job(write);
  job.huge_pages = huge;
  // A store that always writes to new files is paired with a fio that does; the file for the reads
  // is made by the first one.
  const bool anew = write && !warm_up && !overwrites_;
  if (anew) {
    job.file_state = FioFileState::kPreallocated;
    job.file = FileIn("ceiling-new.dat");
  }
  const auto result = RunFio(job, FileIn("ceiling.fio"));
  if (anew) {
    std::error_code ignored;
    std::filesystem::remove(job.file, ignored);
  }
  if (!result.ok()) {
    if (IsInterrupted(result.status())) return result.status();
    samples = {.write = {}, .read = {}, .reason = result.status().message()};
    return Status::Ok();
  }
  if (warm_up) return Status::Ok();
  (write ? samples.write : samples.read).push_back(result->gb_per_s);
  if (!huge) result_.fio_cpu_s_per_gb.push_back(result->cpu_s_per_gb);
  return Status::Ok();
}

Status CellRun::Raw(bool write, bool warm_up) {
  if (!result_.raw.reason.empty()) return Status::Ok();
  const auto ns = RunRawTransfer(*io_,
                                 {.write = write,
                                  .file = FileIn("ceiling.dat"),
                                  .direct = result_.store.direct,
                                  .block_bytes = cell().geometry.record_bytes(),
                                  .blocks = cell().blocks(),
                                  .iodepth = cell().store.settings.iodepth},
                                 pool_->memory());
  if (!ns.ok()) {
    result_.raw = {.write = {}, .read = {}, .reason = ns.status().message()};
    return Status::Ok();
  }
  if (warm_up) return Status::Ok();
  (write ? result_.raw.write : result_.raw.read)
      .push_back(GbPerS(cell().stored_bytes(), *ns).value_or(0));
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
    KVBED_ASSIGN_OR_RETURN(
        StoreChannel channel,
        store->OpenChannel({.iodepth = named.settings.iodepth, .memory = pool_->memory()}));
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, FilledSequence());
    Manifest manifest = NewManifest("first-write");
    KVBED_ASSIGN_OR_RETURN(const OffloadReport report,
                           Offload(*store, channel, sequence, manifest, {}));
    ours = GbPerS(report.written_bytes, report.d1_ns).value_or(0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(named.spec.path, ignored);
  result_.first_write_gb_per_s.push_back(ours);
  if (!result_.fio.reason.empty() || !result_.first_write_fio_reason.empty()) return Status::Ok();
  FioJob job = Job(true);
  job.file = FileIn("first-write.dat");
  job.file_state = FioFileState::kPreallocated;
  const auto fio = RunFio(job, FileIn("first-write.fio"));
  std::filesystem::remove(job.file, ignored);
  if (!fio.ok() && IsInterrupted(fio.status())) return fio.status();
  if (fio.ok()) {
    result_.first_write_fio_gb_per_s.push_back(fio->gb_per_s);
  } else {
    result_.first_write_fio_reason = fio.status().message();
  }
  return Status::Ok();
}

// The same store code over a disk that completes at once.
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
    KVBED_ASSIGN_OR_RETURN(
        StoreChannel channel,
        store->OpenChannel({.iodepth = cell().store.settings.iodepth, .memory = pool_->memory()}));
    for (uint64_t round = 0; round < kNullRuns; ++round) {
      KVBED_RETURN_IF_ERROR(NullRun(*store, channel, round, write, read));
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(spec.path, ignored);
  result_.null_write_gb_per_s = Median(write);
  result_.null_read_gb_per_s = Median(read);
  return Status::Ok();
}

Status CellRun::NullRun(BlockStore& store, StoreChannel& channel, uint64_t round,
                        std::vector<double>& write, std::vector<double>& read) {
  Manifest manifest = NewManifest(fmt::format("null-{}", round));
  std::vector<uint32_t> records;
  {
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, FilledSequence());
    records = sequence.block_table();
    KVBED_ASSIGN_OR_RETURN(const OffloadReport report,
                           Offload(store, channel, sequence, manifest, {}));
    write.push_back(GbPerS(report.written_bytes, report.d1_ns).value_or(0));
  }
  // A read that moves nothing is whole when it lands where the block still is. The pool hands out
  // the record that was released last, so it gets them back from the last to the first.
  for (size_t i = 0; i < records.size(); ++i) {
    KVBED_RETURN_IF_ERROR(pool_->Allocate(BlockPool::Contents::kAsItIs).status());
  }
  for (size_t i = records.size(); i > 0; --i) pool_->Release(records[i - 1]);
  Sequence restored = NewSequence(manifest.sequence_id);
  KVBED_ASSIGN_OR_RETURN(const RestoreReport report,
                         Restore(store, channel, manifest, restored, {}));
  if (!report.whole()) return Status::IoError("the null store's restore is not whole");
  read.push_back(GbPerS(report.stored_bytes, report.wall_ns).value_or(0));
  return Status::Ok();
}

Measurement CellRun::Finish() {
  result_.store = place_->store().info();
  if (result_.huge_page_bytes == 0) result_.huge_page_bytes = pool_->HugePageBytes();
  return std::move(result_);
}

}  // namespace

Status CheckCellFits(const BenchCell& cell) {
  const bool has_files = cell.store.spec.kind != StoreKind::kMemory;
  const uint64_t need_bytes = cell.stored_bytes();
  // A store without files keeps its records in memory too.
  KVBED_RETURN_IF_ERROR(
      CheckMemoryFor(need_bytes, has_files ? 1 : 2,
                     fmt::format("{} tokens of {}", cell.ctx_tokens, cell.shape.name)));
  if (!has_files) return Status::Ok();
  // The snapshot, the ceilings' file, and the store or the file of the first write.
  const auto free_bytes = AvailableBytes(NearestExisting(cell.store.spec.path));
  if (!free_bytes.ok() || *free_bytes / 3 >= need_bytes) return Status::Ok();
  return Status::OutOfSpace(fmt::format(
      "{} tokens of {} need 3 times {:.1f} GiB for snapshot, ceilings and first write, and {:.1f} "
      "GiB are free in {}: take a shorter context or another place",
      cell.ctx_tokens, cell.shape.name, static_cast<double>(need_bytes) / (1 << 30),
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
