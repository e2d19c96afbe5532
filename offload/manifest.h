// The manifest: the list that makes a snapshot complete, and what a resume needs besides the
// records. Its bytes are the same in every store; where they are kept is the store's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/kv_geometry.h"
#include "offload/model_digests.h"
#include "offload/numeric_environment.h"
#include "offload/record.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr uint32_t kManifestFormatVersion = 1;
// A manifest above this is refused before it is read: a context of 16 Mi tokens in blocks of one.
inline constexpr uint64_t kManifestBytesMax = uint64_t{2} << 30;

struct ManifestBlock {
  RecordId id;
  uint64_t place = 0;  // the store's own, e.g. a slot
  Digest128 digest;    // kept outside the record, so that a misdirected intact record is caught
  uint32_t tokens_used = 0;
  bool operator==(const ManifestBlock&) const = default;
};

struct Manifest {
  std::string name;
  uint64_t created_ns = 0;  // since 1970
  Digest128 store_uuid;

  std::string model_name;  // for people
  ModelDigests model;
  uint64_t rope_identity = 0;
  KvGeometry geometry;

  uint64_t sequence_id = 0;
  uint64_t cached_tokens = 0;
  uint64_t prompt_tokens = 0;
  // The tokens in the cache, then, when there is one, the pending token: picked, not yet cached.
  std::vector<int32_t> token_ids;

  SamplerState sampler;
  NumericEnvironment environment;
  std::vector<ManifestBlock> blocks;

  std::optional<int32_t> pending_token() const;
  // The header that block `index`'s record must have.
  RecordHeader ExpectedHeader(uint64_t index) const;
  uint64_t stored_bytes() const { return blocks.size() * geometry.record_bytes(); }
  bool operator==(const Manifest&) const = default;
};

// Invariants of a manifest: counts that fit each other, one block for every block_tokens cached
// tokens, ids of this model and in block order. Corruption otherwise.
Status ValidateManifest(const Manifest& manifest);

std::string EncodeManifest(const Manifest& manifest);
// Not supported for an unknown version; corruption for a bad checksum, a truncated file or a broken
// invariant. Allocates nothing beyond the size of `bytes`.
Result<Manifest> DecodeManifest(Bytes bytes);

// 1 to 128 of A-Z a-z 0-9 . _ -, no dot at the start. Invalid argument otherwise.
Status ValidateSnapshotName(std::string_view name);

}  // namespace kvbed
