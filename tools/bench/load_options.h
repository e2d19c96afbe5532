// The options of `kvbed bench` that say under what load and for how long a cell is measured, and
// what of them doesn't go together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/status.h"
#include "tools/bench/measurement.h"
#include "tools/command_line.h"

namespace kvbed {

struct LoadOptions {
  uint32_t sequences = 1;
  uint32_t numjobs = 1;
  uint32_t tp = 1;
  std::optional<uint64_t> pool_bytes;
  std::optional<double> mix_gb_per_s;
  bool aged = false;
  std::optional<uint64_t> working_set_bytes;
  std::optional<std::string> cache;
  std::string profile = "bench";
  uint32_t rounds_max = 0;   // 0: not given
  uint32_t repetitions = 0;  // 0: not given
  bool fio = false;          // also where the profile has none
  bool no_fio = false;
  std::optional<double> tbw;
};

// Under the headings Load and How.
void AddLoadOptions(OptionSet& set, LoadOptions& options);

// Invalid argument for options that don't go together, whatever the cell.
Status CheckLoadOptions(const LoadOptions& options, bool from_model);

// The contexts that are measured when none is given.
std::vector<uint64_t> DefaultContexts(const LoadOptions& options);

// Sets the cell's fields; invalid argument, naming cell or store, when they can't be had there.
Status ApplyLoadOptions(const LoadOptions& options, BenchCell& cell);

}  // namespace kvbed
