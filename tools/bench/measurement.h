// What the repetitions of one benchmark cell gave: raw samples, nothing judged or summed up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/status.h"
#include "tools/bench/bench_shape.h"
#include "tools/bench/byte_proof.h"
#include "tools/given_value.h"
#include "tools/store_access.h"

namespace kvbed {

class RealKv;

enum class BenchProfile : uint8_t {
  kCi,      // seconds: does it work at all
  kBench,   // repetitions after a warm-up
  kSteady,  // preconditioned, then rounds until they stay the same
};

// What the page cache holds of a snapshot before a buffered restore.
enum class CacheState : uint8_t { kWarm, kCold };

// What is measured: one row of the result.
struct BenchCell {
  BenchShape shape;
  KvGeometry geometry;
  uint64_t ctx_tokens = 0;
  NamedStore store;
  uint32_t repetitions = 5;
  uint64_t seed = 1;
  uint32_t sequences = 1;               // moved at once
  uint32_t numjobs = 1;                 // queues of each
  uint32_t tp = 1;                      // ranks; the geometry is that of one rank
  uint32_t kv_replicas = 1;             // ranks that hold the same KV heads
  std::optional<uint64_t> pool_bytes;   // nullopt: as much as the context needs
  bool from_model = false;              // K and V of a model, else synthetic
  RealKv* real = nullptr;               // the model's, once the cell is measured
  std::optional<SourcedValue> prefill;  // in the place of a recomputation that was measured
  bool fio = true;
  bool keep = false;
  std::optional<std::string> label;
  BenchProfile profile = BenchProfile::kBench;
  uint32_t rounds_max = 25;                   // of kSteady
  std::optional<CacheState> cache;            // nullopt: direct I/O, or whatever is in the cache
  std::optional<uint64_t> working_set_bytes;  // in distinct snapshots before the first restore
  bool aged = false;                          // filled, half freed and refilled before
  std::optional<double> mix_gb_per_s;         // offloaded beside restores
  std::optional<double> tbw;                  // 10^12 bytes that the drive is rated for

  // What is moved at once: each rank of each sequence has records of its own.
  uint32_t streams() const { return sequences * tp; }
  // Of all of them.
  uint64_t blocks() const { return streams() * geometry.BlocksFor(ctx_tokens); }
  uint64_t stored_bytes() const { return blocks() * geometry.record_bytes(); }
  uint64_t kv_bytes() const { return streams() * ctx_tokens * geometry.kv_bytes_per_token(); }
  // Distinct snapshots of the cell that are in the store at once.
  uint64_t sets() const {
    if (!working_set_bytes) return 1;
    return *working_set_bytes / stored_bytes() + (*working_set_bytes % stored_bytes() != 0 ? 1 : 0);
  }
};

struct OffloadSample {
  uint64_t d0_ns = 0;
  uint64_t d1_ns = 0;
  uint64_t d2_ns = 0;
  uint64_t cpu_ns = 0;
  uint64_t hash_ns = 0;
  // Of the records of one sequence, or of several sequences as wholes.
  uint64_t first_done_ns = 0;
  uint64_t last_done_ns = 0;
  bool several_sequences = false;

  // Until the data were durable; with sync=none, until all were written.
  uint64_t durable_ns() const { return d1_ns != 0 ? d1_ns : d0_ns; }
  // What follows this one.
  void AddRound(const OffloadSample& next);
};

struct RestoreSample {
  uint64_t wall_ns = 0;
  uint64_t read_ns = 0;
  uint64_t verify_ns = 0;
  uint64_t overlap_ns = 0;
  uint64_t cpu_ns = 0;
  // Of the records of one sequence, or of several sequences as wholes.
  uint64_t first_done_ns = 0;
  uint64_t last_done_ns = 0;
  bool several_sequences = false;

  void AddRound(const RestoreSample& next);
};

// Samples in GB/s, one for each repetition, and why there are none.
struct CeilingSamples {
  std::vector<double> write;
  std::vector<double> read;
  std::string reason;
};

// From a name to the first token: total_ns = lookup_ns + read_ns + verify_ns + first_decode_ns -
// overlap_ns within 2 %.
struct TtftRestore {
  uint64_t lookup_ns = 0;
  uint64_t read_ns = 0;
  uint64_t verify_ns = 0;
  uint64_t overlap_ns = 0;
  uint64_t first_decode_ns = 0;
  uint64_t total_ns = 0;
};

// What a recomputing engine does until its first new token.
struct Recomputed {
  uint64_t prefill_ns = 0;
  uint64_t first_decode_ns = 0;
};

struct TtftSamples {
  std::vector<TtftRestore> restore;
  std::vector<Recomputed> recompute;
  std::vector<uint64_t> in_memory_ns;
  std::vector<uint64_t> ram_copy_ns;
  uint64_t prefill_tokens_after_restore = 0;
  bool same_logits = true;  // every way's first token has the same logits, bit for bit
};

// What was done to the store before anything was measured.
struct AgedSample {
  uint64_t snapshots = 0;  // written first
  uint64_t freed = 0;      // a random half of them
  uint64_t refilled = 0;   // the rest of the room is left for what is measured
  uint64_t bytes = 0;      // of the first ones
};

// Share of a snapshot's bytes that the page cache held when a restore's clock started, one for each
// restore.
struct CacheSamples {
  std::vector<double> resident;
  std::string method;  // "cachestat", "mincore"
};

// Restores beside an offload at a steady rate.
struct MixSamples {
  uint64_t snapshot_bytes = 0;  // the other snapshot's: the cell's, or what its pool holds
  uint64_t offloaded_bytes = 0;
  uint64_t offload_ns = 0;
  std::vector<uint64_t> restore_ns;
  std::vector<uint64_t> latencies_ns;  // of the restores' records
};

struct Measurement {
  BenchCell cell;
  uint64_t rounds = 1;  // through the pool
  uint64_t pool_bytes = 0;
  StoreInfo store;
  uint64_t huge_page_bytes = 0;  // of the pool
  bool overwrite = false;        // each timed offload went into slots written before

  std::vector<OffloadSample> offload;
  std::vector<RestoreSample> restore;
  std::vector<uint64_t> offload_latencies_ns;
  std::vector<uint64_t> restore_latencies_ns;

  CeilingSamples fio;
  CeilingSamples fio_huge;
  CeilingSamples raw;
  std::vector<double> fio_cpu_s_per_gb;  // of both directions
  std::string fio_job;                   // both directions, as text that fio runs

  // Pairs of the same repetition: slots and a file that were preallocated and never written.
  std::vector<double> first_write_gb_per_s;
  std::vector<double> first_write_fio_gb_per_s;
  std::string first_write_reason;
  std::string first_write_fio_reason;

  // Everything but the disk.
  std::optional<double> null_write_gb_per_s;
  std::optional<double> null_read_gb_per_s;
  std::string null_reason;

  std::optional<TtftSamples> ttft;
  std::string ttft_reason;

  std::optional<AgedSample> aged;
  uint64_t working_set_bytes = 0;     // written before the first restore; 0: none was asked for
  std::optional<CacheSamples> cache;  // of cell.cache
  std::optional<MixSamples> mix;      // of cell.mix_gb_per_s
  // kSteady: GB/s of every round; the samples are those of the last five.
  std::vector<double> round_offload_gb_per_s;
  std::vector<double> round_restore_gb_per_s;
  bool steady = false;

  ByteEvidence bytes;
  double duplicate_pages_percent = 0;

  uint64_t verified_blocks = 0;
  std::vector<Finding> findings;
  Status failure;  // the I/O error that ended it early
};

}  // namespace kvbed
