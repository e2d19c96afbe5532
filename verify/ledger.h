// The ledger: what the cached run computed, kept as a JSON file outside every store, so that a
// resume in another process can be compared with it. It doesn't know how to run a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/digest.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/manifest.h"
#include "offload/model_digests.h"
#include "offload/numeric_environment.h"
#include "offload/status.h"
#include "verify/kv_digest.h"
#include "verify/logits_trace.h"

namespace kvbed {

inline constexpr uint64_t kLedgerBytesMax = uint64_t{256} << 20;

struct Ledger {
  std::string model_name;  // for people
  ModelDigests model;
  NumericEnvironment environment;
  SamplerState sampler;  // at the snapshot

  std::string snapshot_name;
  std::string store_spec;  // for people
  Digest128 store_uuid;
  uint64_t sequence_id = 0;
  uint64_t rope_identity = 0;
  KvGeometry geometry;
  uint64_t cached_tokens = 0;
  std::optional<int32_t> pending_token;
  std::vector<Digest128> block_digests;  // the manifest's record digests

  KvDigest kv_at_snapshot;
  std::vector<LogitsStep> steps;  // of the decode calls after the snapshot; may be empty
  KvDigest kv_at_end;             // after these calls

  bool operator==(const Ledger&) const = default;
};

// The part of a ledger that is the snapshot's.
Ledger LedgerOf(const Manifest& manifest);

std::string EncodeLedger(const Ledger& ledger);
// `origin` names the file in messages. Corruption for what isn't a ledger, with the field that is
// missing or wrong; not supported for another version's schema.
Result<Ledger> DecodeLedger(std::string_view text, std::string_view origin);

// Not found when absent, an I/O error for what is no regular file; as DecodeLedger otherwise. A
// file above kLedgerBytesMax is corruption.
Result<Ledger> ReadLedger(const std::string& path);

// What a ledger says of a manifest.
struct LedgerMatch {
  // Not empty: the ledger is of another model or sequence, so it can't judge this snapshot. Says
  // what differs.
  std::string foreign;
  // The same sequence in another state than the ledger's, e.g. an older snapshot in the store.
  std::vector<Finding> findings;
  bool operator==(const LedgerMatch&) const = default;
};
LedgerMatch MatchLedger(const Ledger& ledger, const Manifest& manifest);

}  // namespace kvbed
