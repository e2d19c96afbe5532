#include "tools/bench/load_options.h"

#include <fmt/format.h>

#include "backends/byte_size.h"
#include "tools/bench/steady_state.h"
#include "tools/given_value.h"

namespace kvbed {
namespace {

constexpr uint32_t kRepetitions = 5;
constexpr uint32_t kCiRepetitions = 2;
constexpr uint32_t kRoundsMax = 25;  // as in SNIA's PTS
constexpr double kTbwMost = 1e6;     // 10^18 bytes

OptionSet::Parse NumberInto(const char* name, double most, std::optional<double>& value) {
  return [name, most, &value](const std::string& text) -> Status {
    KVBED_ASSIGN_OR_RETURN(value, ParseGivenNumber(name, text, most));
    return Status::Ok();
  };
}

OptionSet::Parse BytesInto(const char* name, std::optional<uint64_t>& value) {
  return [name, &value](const std::string& text) -> Status {
    KVBED_ASSIGN_OR_RETURN(value, ParseByteSize(text, name));
    return Status::Ok();
  };
}

BenchProfile ProfileOf(const LoadOptions& options) {
  if (options.profile == "ci") return BenchProfile::kCi;
  return options.profile == "steady" ? BenchProfile::kSteady : BenchProfile::kBench;
}

uint32_t RepetitionsOf(const LoadOptions& options) {
  switch (ProfileOf(options)) {
    case BenchProfile::kCi: return options.repetitions ? options.repetitions : kCiRepetitions;
    case BenchProfile::kSteady: return kSteadyWindow;
    case BenchProfile::kBench: break;
  }
  return options.repetitions ? options.repetitions : kRepetitions;
}

Status CheckCache(const BenchCell& cell) {
  const StoreSettings& settings = cell.store.settings;
  if (settings.direct == DirectMode::kOff || settings.fs == DbFileSystem::kPosix) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "--cache is about buffered I/O, and {} is direct: add direct=off to it, or --direct off",
      cell.store.spec.ToString()));
}

Status CheckNeedsFiles(const LoadOptions& options, const BenchCell& cell) {
  const char* option = options.aged                ? "--aged"
                       : options.working_set_bytes ? "--working-set"
                       : options.cache             ? "--cache"
                                                   : nullptr;
  if (option == nullptr || cell.store.spec.kind != StoreKind::kMemory) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} needs a store with files, and memory: has none", option));
}

}  // namespace

void AddLoadOptions(OptionSet& set, LoadOptions& options) {
  set.Group("Load");
  set.Number("--sequences",
             "sequences moved at once, each over its own queues; their first tokens are one "
             "decode call [1]",
             options.sequences, 1, 256);
  set.Number("--numjobs", "queues of each sequence, each with a thread that verifies [1]",
             options.numjobs, 1, 256);
  set.Number("--tp", "ranks of tensor parallelism: records with a rank's KV heads each [1]",
             options.tp, 1, 1024);
  set.Value("--pool-bytes", "SIZE",
            "memory for records, as in 2GiB; a longer context goes through it in rounds [what the "
            "context needs]",
            BytesInto("--pool-bytes", options.pool_bytes));
  set.Value("--mix", "RATE",
            "restore also while another snapshot is offloaded at so many GB/s, as in 0.5",
            NumberInto("--mix", kGivenMost, options.mix_gb_per_s));
  set.Flag("--aged", options.aged,
           "before measuring, fill the store (--working-set, or 4 times the cell), free a random "
           "half and refill it");
  set.Value("--working-set", "SIZE",
            "write so much in distinct snapshots first, and restore those in seeded order, never "
            "the newest",
            BytesInto("--working-set", options.working_set_bytes));
  set.Value(
      "--cache", "warm|cold",
      "a baseline with direct=off: read once before the clock, or dropped from the page "
      "cache, which is checked",
      [&options](const std::string& text) {
        if (text != "warm" && text != "cold") {
          return Status::InvalidArgument(fmt::format("--cache takes warm or cold, not {}", text));
        }
        options.cache = text;
        return Status::Ok();
      });
  set.Group("How");
  set.OneOf("--profile",
            "ci: seconds, without fio; bench; steady: preconditioned, then rounds until the last "
            "five stay within 20 % and a slope of 10 % [bench]",
            options.profile, {"ci", "bench", "steady"});
  set.Number("--rounds-max", "rounds at most under --profile steady [25]", options.rounds_max,
             kSteadyWindow, 10000);
  set.Number("-r,--repetitions", "timed repetitions after a warm-up [5; ci: 2]",
             options.repetitions, 1, 10000);
  const OptionHandle with = set.Flag("--fio", options.fio, "run fio under --profile ci too");
  const OptionHandle without = set.Flag("--no-fio", options.no_fio, "leave fio out");
  set.Exclude(with, without);
  set.Value("--tbw", "TB", "terabytes that the drive is rated for: say how many tokens they buy",
            NumberInto("--tbw", kTbwMost, options.tbw));
}

Status CheckLoadOptions(const LoadOptions& options, bool from_model) {
  const bool steady = ProfileOf(options) == BenchProfile::kSteady;
  if (from_model && options.pool_bytes) {
    return Status::InvalidArgument(
        "--pool-bytes is for --shape: a model's cache has to be in memory as a whole");
  }
  if (from_model && options.tp != 1) {
    return Status::InvalidArgument("--tp is for --shape: the model runs here as one rank");
  }
  if (from_model && options.working_set_bytes) {
    return Status::InvalidArgument(
        "--working-set is for --shape: a model's snapshots would all hold the same data");
  }
  if (options.mix_gb_per_s && options.cache) {
    return Status::InvalidArgument(
        "--mix and --cache don't go together: an offload fills the page cache again");
  }
  if (steady && options.repetitions != 0) {
    return Status::InvalidArgument(
        "-r doesn't go with --profile steady, which ends by itself: give --rounds-max");
  }
  if (!steady && options.rounds_max != 0) {
    return Status::InvalidArgument("--rounds-max is for --profile steady");
  }
  return Status::Ok();
}

std::vector<uint64_t> DefaultContexts(const LoadOptions& options) {
  return {ProfileOf(options) == BenchProfile::kCi ? uint64_t{1024} : uint64_t{8192}};
}

Status ApplyLoadOptions(const LoadOptions& options, BenchCell& cell) {
  cell.sequences = options.sequences;
  cell.numjobs = options.numjobs;
  cell.tp = options.tp;
  cell.pool_bytes = options.pool_bytes;
  cell.mix_gb_per_s = options.mix_gb_per_s;
  cell.aged = options.aged;
  cell.working_set_bytes = options.working_set_bytes;
  cell.profile = ProfileOf(options);
  cell.rounds_max = options.rounds_max != 0 ? options.rounds_max : kRoundsMax;
  cell.repetitions = RepetitionsOf(options);
  cell.fio = options.fio || (!options.no_fio && cell.profile != BenchProfile::kCi);
  cell.tbw = options.tbw;
  if (options.cache) {
    cell.cache = *options.cache == "warm" ? CacheState::kWarm : CacheState::kCold;
  }
  KVBED_RETURN_IF_ERROR(CheckNeedsFiles(options, cell));
  if (cell.cache) KVBED_RETURN_IF_ERROR(CheckCache(cell));
  if (cell.working_set_bytes && cell.sets() < 2) {
    return Status::InvalidArgument(fmt::format(
        "--working-set must be more than one snapshot, and one of {} tokens of {} has {} bytes",
        cell.ctx_tokens, cell.shape.name, cell.stored_bytes()));
  }
  return Status::Ok();
}

}  // namespace kvbed
