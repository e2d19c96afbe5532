// fio as a ceiling: its job for one transfer, run, and what its result says.
// It doesn't know what it is compared with.
#pragma once

#include <cstdint>
#include <string>

#include "offload/status.h"

namespace kvbed {

enum class FioFileState : uint8_t {
  kWritten,       // every byte was written before
  kPreallocated,  // made anew and preallocated by fio, which is not in its clock
};

struct FioJob {
  bool write = false;
  std::string file;
  uint64_t block_bytes = 0;
  uint64_t blocks = 0;
  uint32_t iodepth = 16;
  bool huge_pages = false;  // buffers in hugetlb memory
  FioFileState file_state = FioFileState::kWritten;
  std::string ioengine = "io_uring";
  bool direct = true;       // else the page cache, which fio doesn't drop before it starts
  bool random = false;      // each block once, in fio's random order
  bool registered = false;  // buffers and file, as kvbed's
};

// A job file that `fio FILE` runs.
std::string FioJobText(const FioJob& job);

// One job file with which anyone can rerun both ceilings: the file is written once, then the timed
// write and the timed read follow, one after another. `file` should be relative.
std::string FioCeilingsText(const FioJob& job);

struct FioResult {
  uint64_t bytes = 0;
  double gb_per_s = 0;  // writes: until their fsync was done
  double cpu_s_per_gb = 0;
};

// `output` is what `fio --output-format=json` wrote. An I/O error when fio reports one, or when it
// moved another number of bytes than the job has.
Result<FioResult> ParseFioOutput(const std::string& output, const FioJob& job);

// "fio-3.33". Not found when fio is not installed.
Result<std::string> FioVersion();

// Runs the job, whose text is written to `job_file` first.
Result<FioResult> RunFio(const FioJob& job, const std::string& job_file);

// Whether hugetlb memory suffices for the job's buffers: not found, with how much there is, if not.
Status CheckHugePages(const FioJob& job, const std::string& meminfo);

}  // namespace kvbed
