#include "tools/sweep/sweep_point.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "offload/aligned_buffer.h"
#include "tools/bench/null_io.h"
#include "tools/bench/section_meter.h"
#include "tools/bench/statistics.h"
#include "tools/interrupt.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

constexpr uint64_t kLatenciesMost = uint64_t{1} << 18;  // of one pass: 2 MiB of memory
constexpr uint64_t kNullBlocksMost = uint64_t{1} << 14;
constexpr uint64_t kNullPasses = 3;

class PointRun {
 public:
  PointRun(Io& io, const SweepPointSetup& setup) : io_(io), setup_(setup) {
    point_.blocks = setup.transfer.blocks;
    point_.block_bytes = setup.transfer.block_bytes;
    point_.repetitions = setup.repetitions;
    point_.iodepth = setup.iodepth;
    point_.bytes = EvidenceBy(*setup.device);
    if (!setup.fio) point_.fio_reason = "not asked for (--fio)";
  }

  Status Measure(const std::function<void()>& progress);
  SweepPoint Finish() { return std::move(point_); }
  void Fail(const Status& status) { point_.failure = status; }

 private:
  bool write() const { return setup_.transfer.write; }
  Status OnePass(RawChannel& channel, bool warm_up);
  void Verify(const RawChannel& channel);
  Status Fio();
  Status NullRate();

  Io& io_;
  const SweepPointSetup& setup_;
  SweepPoint point_;
  uint64_t round_ = 0;
};

Status PointRun::Measure(const std::function<void()>& progress) {
  KVBED_ASSIGN_OR_RETURN(const auto channel, RawChannel::Open(io_, setup_.transfer, setup_.memory));
  point_.direct = point_.bytes.direct = channel->file().direct();
  point_.alignment_bytes = channel->file().alignment_bytes();
  point_.queue = channel->info();
  for (uint32_t pass = 0; pass <= setup_.repetitions; ++pass) {
    if (Interrupted()) return InterruptedStatus();
    progress();
    KVBED_RETURN_IF_ERROR(OnePass(*channel, pass == 0));
    point_.queue = channel->info();
    if (pass > 0) KVBED_RETURN_IF_ERROR(Fio());
  }
  return NullRate();
}

Status PointRun::OnePass(RawChannel& channel, bool warm_up) {
  const PageStamps stamps(setup_.seed, setup_.first_round + round_++);
  if (!write()) PageStamps::Poison(setup_.memory);
  ByteEvidence section = EvidenceBy(*setup_.device);
  const SectionMeter meter(*setup_.device);
  auto pass = channel.Pass({.stamps = &stamps, .latencies_most = kLatenciesMost});
  const uint64_t cpu_ns = meter.Stop(section);
  if (!pass.ok()) return pass.status();
  if (!write()) Verify(channel);
  if (warm_up) return Status::Ok();
  (write() ? section.app.written_bytes : section.app.read_bytes) = point_.bytes_each();
  AddDirection(section, write() ? Direction::kWrite : Direction::kRead, point_.bytes);
  point_.samples_ns.push_back(pass->wall_ns);
  point_.cpu_ns.push_back(cpu_ns);
  point_.stamp_ns.push_back(pass->stamp_ns);
  point_.latencies_ns.insert(point_.latencies_ns.end(), pass->latencies_ns.begin(),
                             pass->latencies_ns.end());
  return Status::Ok();
}

// Outside the clock, so only what the last requests left in memory.
void PointRun::Verify(const RawChannel& channel) {
  for (const RawChannel::Held& held : channel.HeldBlocks()) {
    const uint64_t first_page = held.block * (point_.block_bytes / kPageBytes);
    ++point_.verified_blocks;
    if (!setup_.file_stamps.Match(held.bytes, first_page)) ++point_.wrong_blocks;
  }
}

// A fio that fails takes all its samples with it: pairs must stay pairs.
Status PointRun::Fio() {
  if (!point_.fio_reason.empty()) return Status::Ok();
  const auto result = RunFio(*setup_.fio, setup_.fio_job_file);
  if (result.ok()) {
    point_.fio_gb_per_s.push_back(result->gb_per_s);
    return Status::Ok();
  }
  if (IsInterrupted(result.status())) return result.status();
  point_.fio_gb_per_s.clear();
  point_.fio_reason = result.status().message();
  return Status::Ok();
}

// The same blocks over a queue that completes at once.
Status PointRun::NullRate() {
  RawTransfer transfer = setup_.transfer;
  transfer.blocks = std::max<uint64_t>(std::min(transfer.blocks, kNullBlocksMost), 1);
  transfer.direct = false;
  transfer.registered = true;  // which is how the queue of a null Io knows what to leave out
  KVBED_ASSIGN_OR_RETURN(auto base, OpenIo(IoEngine::kPsync));
  const auto null_io = MakeNullIo(std::move(base));
  KVBED_ASSIGN_OR_RETURN(const auto channel, RawChannel::Open(*null_io, transfer, setup_.memory));
  const PageStamps stamps(setup_.seed, setup_.first_round);
  std::vector<double> rates;
  for (uint64_t pass = 0; pass < kNullPasses; ++pass) {
    KVBED_ASSIGN_OR_RETURN(const RawPass done, channel->Pass({.stamps = &stamps}));
    rates.push_back(GbPerS(transfer.blocks * transfer.block_bytes, done.wall_ns).value_or(0));
  }
  point_.null_gb_per_s = Median(rates);
  return Status::Ok();
}

}  // namespace

Result<SweepPoint> MeasureSweepPoint(Io& io, const SweepPointSetup& setup,
                                     const std::function<void()>& progress) {
  PointRun run(io, setup);
  const Status status = run.Measure(progress);
  if (IsInterrupted(status)) return status;
  run.Fail(status);
  return run.Finish();
}

}  // namespace kvbed
