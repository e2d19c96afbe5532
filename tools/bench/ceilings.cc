#include "tools/bench/ceilings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tools/bench/raw_transfer.h"
#include "tools/interrupt.h"
#include "tools/rates.h"
#include "tools/system_text.h"

namespace kvbed {

Ceilings::Ceilings(CeilingPlace place) : place_(std::move(place)) {
  if (place_.folder.empty()) {
    fio_.reason = fio_huge_.reason = raw_.reason = place_.no_files_reason;
    return;
  }
  if (!place_.fio) {
    fio_.reason = fio_huge_.reason = place_.no_fio_reason;
  } else if (!FioVersion().ok()) {
    fio_.reason = fio_huge_.reason = "fio is not installed (apt install fio)";
  } else {
    const Status huge = CheckHugePages(Job(true), ReadSystemFile("/proc/meminfo").value_or(""));
    if (!huge.ok()) fio_huge_.reason = huge.message();
  }
}

FioJob Ceilings::Job(bool write) const {
  return {.write = write,
          .file = place_.folder + "/ceiling.dat",
          .block_bytes = place_.block_bytes,
          .blocks = place_.blocks,
          .iodepth = place_.iodepth};
}

Status Ceilings::Write(Io& io, MutableBytes memory, bool warm_up) {
  KVBED_RETURN_IF_ERROR(Fio(true, false, warm_up, fio_));
  Raw(io, memory, true, warm_up);
  return Fio(true, true, warm_up, fio_huge_);
}

Status Ceilings::Read(Io& io, MutableBytes memory, bool warm_up) {
  KVBED_RETURN_IF_ERROR(Fio(false, false, warm_up, fio_));
  Raw(io, memory, false, warm_up);
  return Fio(false, true, warm_up, fio_huge_);
}

// A fio that fails takes all its samples with it: pairs must stay pairs.
Status Ceilings::Fio(bool write, bool huge, bool warm_up, CeilingSamples& samples) {
  if (!samples.reason.empty()) return Status::Ok();
  FioJob job = Job(write);
  job.huge_pages = huge;
  // A store that always writes to new files is paired with a fio that does; the file for the reads
  // is made by the first one.
  const bool anew = write && !warm_up && !place_.overwrites;
  if (anew) {
    job.file_state = FioFileState::kPreallocated;
    job.file = place_.folder + "/ceiling-new.dat";
  }
  const auto result = RunFio(job, place_.folder + "/ceiling.fio");
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
  if (!huge) fio_cpu_s_per_gb_.push_back(result->cpu_s_per_gb);
  return Status::Ok();
}

void Ceilings::Raw(Io& io, MutableBytes memory, bool write, bool warm_up) {
  if (!raw_.reason.empty()) return;
  // A pool of fewer records than the depth holds back a store's records as well.
  const uint64_t held = memory.size() / place_.block_bytes;
  const auto ns =
      RunRawTransfer(io,
                     {.write = write,
                      .file = place_.folder + "/ceiling.dat",
                      .direct = place_.direct,
                      .block_bytes = place_.block_bytes,
                      .blocks = place_.blocks,
                      .iodepth = static_cast<uint32_t>(std::min<uint64_t>(place_.iodepth, held))},
                     memory);
  if (!ns.ok()) {
    raw_ = {.write = {}, .read = {}, .reason = ns.status().message()};
    return;
  }
  if (warm_up) return;
  (write ? raw_.write : raw_.read)
      .push_back(GbPerS(place_.block_bytes * place_.blocks, *ns).value_or(0));
}

Status Ceilings::FirstWrite(std::vector<double>& gb_per_s, std::string& reason) {
  if (!fio_.reason.empty() || !reason.empty()) return Status::Ok();
  FioJob job = Job(true);
  job.file = place_.folder + "/first-write.dat";
  job.file_state = FioFileState::kPreallocated;
  const auto fio = RunFio(job, place_.folder + "/first-write.fio");
  std::error_code ignored;
  std::filesystem::remove(job.file, ignored);
  if (!fio.ok() && IsInterrupted(fio.status())) return fio.status();
  if (fio.ok()) {
    gb_per_s.push_back(fio->gb_per_s);
  } else {
    reason = fio.status().message();
  }
  return Status::Ok();
}

void Ceilings::Describe(Measurement& measurement) const {
  measurement.fio = fio_;
  measurement.fio_huge = fio_huge_;
  measurement.raw = raw_;
  measurement.fio_cpu_s_per_gb = fio_cpu_s_per_gb_;
  if (place_.folder.empty()) return;
  FioJob job = Job(true);
  job.file = "ceiling.dat";
  measurement.fio_job = "# run it in a folder on the store's filesystem\n" + FioCeilingsText(job);
}

}  // namespace kvbed
