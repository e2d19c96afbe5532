#include "tools/sweep/sweep_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/disk_space.h"
#include "backends/store_spec.h"
#include "tools/bench/page_stamps.h"
#include "tools/block_device.h"
#include "tools/memory_room.h"

namespace kvbed {
namespace {

constexpr uint64_t kFillRound = 0;

double GiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// tmpfs takes the flag and ignores it, so that memory would be measured under the name of direct
// I/O.
Status CheckFilesystem(DirectMode mode, const std::string& path, DirectSupport& support) {
  if (mode == DirectMode::kOff || support.filesystem != "tmpfs") return Status::Ok();
  if (mode == DirectMode::kRequired) {
    return Status::NotSupported(fmt::format(
        "{} is on tmpfs, which keeps files in memory: there is no disk to measure; take "
        "another place, or --direct off",
        path));
  }
  support.direct = false;
  return Status::Ok();
}

}  // namespace

Status CheckSweepFits(const SweepSettings& settings) {
  const SweepPlan& plan = settings.plan;
  const auto memory_bytes = AvailableMemoryBytes();
  if (memory_bytes && plan.memory_bytes > *memory_bytes / 10 * 9) {
    return Status::OutOfSpace(
        fmt::format("the largest --bs times the largest --iodepth need {:.1f} GiB of memory, and "
                    "{:.1f} GiB are available: take smaller ones",
                    GiB(plan.memory_bytes), GiB(*memory_bytes)));
  }
  const auto free_bytes = AvailableBytes(NearestExisting(settings.path));
  if (!free_bytes.ok() || plan.disk_bytes() <= *free_bytes) return Status::Ok();
  return Status::OutOfSpace(
      fmt::format("the sweep's files take {:.1f} GiB, and {:.1f} GiB are free in {}: take fewer "
                  "--bytes, smaller --bs and --iodepth, or another place",
                  GiB(plan.disk_bytes()), GiB(*free_bytes), settings.path));
}

Result<std::unique_ptr<SweepRun>> SweepRun::Open(const SweepSettings& settings) {
  std::unique_ptr<SweepRun> run(new SweepRun(settings));
  for (const SweepGroup& group : settings.plan.groups) {
    std::unique_ptr<Io>& io = run->ios_[group.engine.asked];
    if (io == nullptr) {
      KVBED_ASSIGN_OR_RETURN(io, OpenIo(group.engine.asked));
    }
  }
  KVBED_ASSIGN_OR_RETURN(run->place_, SweepPlace::Open(settings.path));
  const std::string& folder = run->place_->folder();
  for (DirectMode mode : settings.plan.files) {
    Io& io = *run->ios_.begin()->second;
    KVBED_ASSIGN_OR_RETURN(DirectSupport support, FindDirectSupport(io, folder, mode, true));
    KVBED_RETURN_IF_ERROR(CheckFilesystem(mode, settings.path, support));
    run->supports_[mode] = std::move(support);
  }
  run->device_ = DeviceCounters::For(folder, {});
  if (settings.fio && !FioVersion().ok()) {
    run->fio_reason_ = "fio is not installed (apt install fio)";
  }
  KVBED_ASSIGN_OR_RETURN(run->memory_, AlignedBuffer::Allocate(settings.plan.memory_bytes));
  PageStamps::FillBase(run->memory_.bytes(), settings.seed);
  return run;
}

std::string SweepRun::FileOf(DirectMode mode) const {
  return fmt::format("{}/direct-{}.dat", place_->folder(), DirectModeName(mode));
}

// Every page of the file is written once, in order, before anything is measured on it.
Status SweepRun::Fill(const SweepGroup& group) {
  if (filled_[group.direct]) return Status::Ok();
  const SweepGroup& largest = settings_.plan.largest;
  const RawTransfer transfer{
      .write = true,
      .file = FileOf(group.direct),
      .direct = supports_[group.direct].direct,
      .block_bytes = largest.bs_bytes,
      .blocks = largest.blocks,
      .iodepth = *std::max_element(settings_.plan.iodepths.begin(), settings_.plan.iodepths.end())};
  Io& io = *ios_[group.engine.asked];
  {
    KVBED_ASSIGN_OR_RETURN(const File file,
                           io.Open(transfer.file, {.write = true, .create = true}));
    KVBED_RETURN_IF_ERROR(io.Preallocate(file, largest.bytes()));
  }
  const PageStamps stamps(settings_.seed, kFillRound);
  KVBED_ASSIGN_OR_RETURN(const auto channel, RawChannel::Open(io, transfer, memory_.bytes()));
  KVBED_RETURN_IF_ERROR(channel->Pass({.stamps = &stamps}).status());
  filled_[group.direct] = true;
  return Status::Ok();
}

FioJob SweepRun::FioJobOf(const SweepGroup& group, uint32_t iodepth) const {
  FioJob job;
  job.write = group.op == SweepOp::kWrite;
  job.file = FileOf(group.direct);
  job.block_bytes = group.bs_bytes;
  job.blocks = group.blocks;
  job.iodepth = iodepth;
  job.ioengine = std::string(IoEngineName(group.engine.effective));
  job.direct = supports_.at(group.direct).direct;
  job.random = settings_.order == BlockOrderKind::kRandom;
  job.registered = group.registered == Registered::kOn;
  return job;
}

SweepPointSetup SweepRun::SetupOf(const SweepGroup& group, uint32_t iodepth) {
  SweepPointSetup setup;
  setup.iodepth = iodepth;
  // psync has one block in flight; more memory would only be colder.
  const bool one_by_one = group.engine.effective == IoEngine::kPsync;
  setup.transfer = {.write = group.op == SweepOp::kWrite,
                    .file = FileOf(group.direct),
                    .direct = supports_[group.direct].direct,
                    .block_bytes = group.bs_bytes,
                    .blocks = group.blocks,
                    .iodepth = one_by_one ? 1 : iodepth,
                    .registered = group.registered == Registered::kOn,
                    .order = settings_.order,
                    .seed = settings_.seed};
  setup.memory = memory_.bytes().first(group.bs_bytes * setup.transfer.iodepth);
  setup.repetitions = settings_.repetitions;
  setup.seed = settings_.seed;
  setup.file_stamps = PageStamps(settings_.seed, kFillRound);
  setup.first_round = round_;
  round_ += uint64_t{settings_.repetitions} + 1;
  setup.device = &device_;
  if (settings_.fio && fio_reason_.empty()) setup.fio = FioJobOf(group, iodepth);
  setup.fio_job_file = place_->folder() + "/sweep.fio";
  return setup;
}

Result<SweepGroupResult> SweepRun::Measure(const SweepGroup& group,
                                           const std::function<void()>& progress) {
  KVBED_RETURN_IF_ERROR(Fill(group));
  SweepGroupResult result;
  result.group = group;
  result.support = supports_[group.direct];
  for (uint32_t iodepth : settings_.plan.iodepths) {
    const SweepPointSetup setup = SetupOf(group, iodepth);
    KVBED_ASSIGN_OR_RETURN(SweepPoint point,
                           MeasureSweepPoint(*ios_[group.engine.asked], setup, progress));
    if (!fio_reason_.empty()) point.fio_reason = fio_reason_;
    if (setup.fio) {
      FioJob job = *setup.fio;
      job.file = "sweep.dat";
      point.fio_job = "# run it in a folder on the store's filesystem\n" + FioCeilingsText(job);
    }
    result.points.push_back(std::move(point));
  }
  result.huge_page_bytes = memory_.HugePageBackedBytes();
  return result;
}

}  // namespace kvbed
