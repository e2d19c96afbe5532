// Offload and restore: a sequence's blocks to a store as one committed snapshot, and back into the
// pool, a bounded number in flight and each record verified as it lands. It knows no model and no
// particular store.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/manifest.h"
#include "offload/sequence.h"
#include "offload/status.h"

namespace kvbed {

struct OffloadOptions {
  CommitMode mode = CommitMode::kNew;
  // False for a store whose flush waits for nothing (sync=none): there is no D1, d1_ns stays 0.
  bool sync = true;
  bool keep_latencies = false;
};

struct OffloadReport {
  uint64_t blocks = 0;          // in the snapshot
  uint64_t blocks_written = 0;  // the others were in the store already
  uint64_t kv_bytes = 0;        // KV of the cached tokens
  uint64_t stored_bytes = 0;    // records of the snapshot
  uint64_t written_bytes = 0;   // records written now
  uint64_t hash_ns = 0;
  uint64_t d0_ns = 0;          // from the start until all writes completed
  uint64_t d1_ns = 0;          // until the data were durable
  uint64_t d2_ns = 0;          // until the snapshot was published
  uint64_t first_done_ns = 0;  // from the start until the first record completed
  uint64_t last_done_ns = 0;
  std::vector<uint64_t> latencies_ns;  // when asked for, one for each record written
};

// Writes the blocks of `sequence` that the store doesn't hold yet, flushes, and commits `manifest`,
// whose sequence, geometry, model, blocks and cached_tokens are set here; name, tokens, sampler and
// environment are the caller's. On failure nothing is committed and what was put is discarded.
// At most the channel's iodepth records are in flight. `channel` must be `store`'s.
Result<OffloadReport> Offload(BlockStore& store, StoreChannel& channel, Sequence& sequence,
                              Manifest& manifest, const OffloadOptions& options);

struct RestoreOptions {
  bool verify = true;
  bool keep_latencies = false;
  // Test hook of the verdict: reads nothing and takes the destination for restored.
  bool skip_copy = false;
};

// A record that could not be read for another reason than its bytes.
struct FailedRead {
  uint64_t block = 0;
  Status status;
};

struct RestoreReport {
  uint64_t blocks = 0;           // in the snapshot
  uint64_t blocks_restored = 0;  // whole and verified, from the first on; what the sequence has now
  uint64_t kv_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t wall_ns = 0;
  // Wall time with a read in flight: submitted and not yet reaped, or with an engine that reads
  // inline, in its calls.
  uint64_t read_ns = 0;
  uint64_t verify_ns = 0;      // all verification
  uint64_t overlap_ns = 0;     // the part of verify_ns while a read was in flight
  uint64_t first_done_ns = 0;  // from the start until the first record completed
  uint64_t last_done_ns = 0;
  std::vector<uint64_t> latencies_ns;
  std::vector<Finding> findings;         // in token order; empty is a whole snapshot
  std::vector<FailedRead> failed_reads;  // in token order

  bool whole() const { return findings.empty() && failed_reads.empty(); }
};

// Reads every record of `manifest` into free records of the sequence's pool and verifies it. The
// sequence must be empty and of the manifest's identity; it gets the blocks before the first that
// failed. An error (not a finding) when the pool is too small or the channel breaks. The queue is
// refilled before a landed record is verified, so hashing runs while others are being read.
Result<RestoreReport> Restore(BlockStore& store, StoreChannel& channel, const Manifest& manifest,
                              Sequence& sequence, const RestoreOptions& options);

}  // namespace kvbed
