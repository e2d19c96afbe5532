// The ceilings beside each repetition: fio as it comes, fio with huge pages, and the tool's own raw
// reader and writer, with the same bytes on the same filesystem at the same moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/io.h"
#include "offload/bytes.h"
#include "offload/status.h"
#include "tools/bench/fio.h"
#include "tools/bench/measurement.h"

namespace kvbed {

struct CeilingPlace {
  std::string folder;  // on the store's filesystem; empty: there are no files, so no ceilings
  uint64_t block_bytes = 0;
  uint64_t blocks = 0;
  uint32_t iodepth = 16;
  bool direct = true;
  bool overwrites = true;  // the store puts records where others were
  bool fio = true;
  std::string no_fio_reason;
  std::string no_files_reason;
};

class Ceilings {
 public:
  explicit Ceilings(CeilingPlace place);

  // One transfer of each kind. A warm-up's isn't kept. A kind that fails has a reason from then on;
  // the error is an interruption.
  Status Write(Io& io, MutableBytes memory, bool warm_up);
  Status Read(Io& io, MutableBytes memory, bool warm_up);

  // fio into a file that was preallocated and never written, which is removed then: GB/s, absent
  // for the reason in `reason`.
  Status FirstWrite(std::vector<double>& gb_per_s, std::string& reason);

  // Samples, reasons and the job's text.
  void Describe(Measurement& measurement) const;
  const std::string& fio_reason() const { return fio_.reason; }

 private:
  FioJob Job(bool write) const;
  Status Fio(bool write, bool huge, bool warm_up, CeilingSamples& samples);
  void Raw(Io& io, MutableBytes memory, bool write, bool warm_up);

  const CeilingPlace place_;
  CeilingSamples fio_;
  CeilingSamples fio_huge_;
  CeilingSamples raw_;
  std::vector<double> fio_cpu_s_per_gb_;
};

}  // namespace kvbed
