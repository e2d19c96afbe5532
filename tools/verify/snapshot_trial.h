// A small seeded snapshot put into a store, and how it comes back, byte for byte of its records:
// what every fault is judged by. It doesn't know faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "offload/block_store.h"
#include "offload/offloader.h"
#include "offload/status.h"
#include "tools/verify/seeded_kv.h"

namespace kvbed {

// Records of 8 KiB: the header page, 1,792 bytes of payload, and padding.
inline constexpr KvGeometry kTrialGeometry = {
    .layers = 2, .kv_heads = 2, .head_dim = 16, .dtype = DType::kBf16, .block_tokens = 7};
inline constexpr uint64_t kTrialTokens = 24;       // four blocks, the last with room
inline constexpr uint64_t kTrialGrownTokens = 30;  // five, the fourth changed

enum class RecordPart { kAny, kHeader, kPayload, kPadding };
// A byte of a trial's record, by chance.
uint64_t ChooseByte(RecordPart part, std::mt19937_64& random);

// A snapshot as it was put: what must come back.
struct PutSnapshot {
  Manifest manifest;
  std::vector<std::vector<std::byte>> records;  // whole
};

struct PutRequest {
  std::string name;
  uint64_t tokens = kTrialTokens;
  CommitMode mode = CommitMode::kNew;
};
// Grows the sequence and offloads it. One record in flight, so that operations come in one order.
Result<PutSnapshot> PutSeeded(BlockStore& store, SeededKv& kv, const PutRequest& request);

// How a snapshot came back. A restore into poisoned memory; what the sequence was given is served.
struct GotSnapshot {
  Status status;  // why nothing could be read: the manifest, the channel
  RestoreReport report;
  bool poisoned = true;       // the destination was, before
  uint64_t served_wrong = 0;  // records that were served and aren't what was put
  bool manifest_differs = false;
  // The first wrong byte of what was served.
  std::optional<uint64_t> wrong_block;
  std::optional<uint64_t> wrong_byte;  // of its record

  // Every record served, and as it was put.
  bool whole() const {
    return status.ok() && report.whole() && served_wrong == 0 && !manifest_differs &&
           report.blocks_restored == report.blocks;
  }
  bool missing() const { return status.code() == StatusCode::kNotFound; }
  // The first thing that was found, in words; empty for a whole one.
  std::string Text() const;
};
GotSnapshot GetSeeded(BlockStore& store, const PutSnapshot& expected,
                      const RestoreOptions& options = {});

// After one bit was flipped: `canary` is an unverified restore, which shows the byte. Why the first
// finding of the verified one is about another block, check, layer, or K or V; empty when it is
// right, or can't be told.
std::string WhyFindingIsWrong(const GotSnapshot& verified, const GotSnapshot& canary);

}  // namespace kvbed
