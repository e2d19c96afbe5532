#include "tools/verify/seeded_kv.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "offload/bytes.h"
#include "offload/check.h"
#include "offload/digest.h"

namespace kvbed {
namespace {

constexpr uint64_t kSeededRope = 0x726F7065;  // any

// SplitMix64 (Steele et al., 2014).
uint64_t NextOf(uint64_t& state) {
  state += 0x9E3779B97F4A7C15;
  uint64_t mixed = state;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
  return mixed ^ mixed >> 31;
}

// One token's K or V of one head.
void FillRow(MutableBytes row, uint64_t sequence_id, uint64_t place, uint64_t position) {
  uint64_t state = sequence_id;
  state = NextOf(state) ^ place;
  state = NextOf(state) ^ position;
  for (size_t at = 0; at < row.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = NextOf(state);
    std::memcpy(row.data() + at, &bits, std::min(sizeof(bits), row.size() - at));
  }
}

// Keeps sign and mantissa of any bits, and sets the exponent to that of 0.5 or 1.
void MakeFinite(MutableBytes row, DType dtype) {
  if (dtype == DType::kFp32) {
    for (size_t at = 0; at < row.size(); at += 4) {
      const auto bits = LoadLe<uint32_t>(row, at);
      StoreLe<uint32_t>(row, at, (bits & 0x80FFFFFF) | 0x3F000000);
    }
    return;
  }
  for (size_t at = 0; at < row.size(); at += 2) {
    const auto bits = LoadLe<uint16_t>(row, at);
    StoreLe<uint16_t>(row, at, static_cast<uint16_t>((bits & 0x80FF) | 0x3F00));
  }
}

}  // namespace

ModelDigests SeededModel() {
  return {Xxh3_128(AsBytes("kvbed verify: weights")), Xxh3_128(AsBytes("kvbed verify: config")),
          Xxh3_128(AsBytes("kvbed verify: tokenizer"))};
}

SequenceIdentity SeededIdentity(uint64_t sequence_id) {
  return {SeededModel().Fingerprint(), kSeededRope, sequence_id};
}

Result<std::unique_ptr<BlockPool>> MakePoisonedPool(const KvGeometry& geometry, uint64_t tokens) {
  KVBED_ASSIGN_OR_RETURN(
      std::unique_ptr<BlockPool> pool,
      BlockPool::Create(geometry, static_cast<uint32_t>(geometry.BlocksFor(tokens))));
  pool->PoisonAll();
  return pool;
}

bool AllPoisoned(const BlockPool& pool) {
  for (uint32_t record = 0; record < pool.records(); ++record) {
    if (!pool.IsPoisoned(record)) return false;
  }
  return true;
}

Status GrowSeeded(Sequence& sequence, uint64_t tokens, SeededValues values) {
  const KvGeometry& g = sequence.pool().geometry();
  const uint64_t cached = sequence.cached_tokens();
  KVBED_CHECK(tokens >= cached);
  KVBED_RETURN_IF_ERROR(sequence.Reserve(tokens));
  const uint64_t row_bytes = g.head_dim * g.element_bytes();
  for (uint64_t position = cached; position < tokens; ++position) {
    const MutableBytes payload = sequence.payload(position / g.block_tokens);
    uint64_t place = 0;
    for (uint32_t layer = 0; layer < g.layers; ++layer) {
      for (const KvPart part : {KvPart::kK, KvPart::kV}) {
        for (uint32_t head = 0; head < g.kv_heads; ++head) {
          const auto row = static_cast<uint32_t>(position % g.block_tokens);
          const uint64_t offset = g.ElementOffset({layer, part, head, row, 0});
          const MutableBytes bytes = payload.subspan(offset, row_bytes);
          FillRow(bytes, sequence.identity().sequence_id, place++, position);
          if (values == SeededValues::kFinite) MakeFinite(bytes, g.dtype);
        }
      }
    }
  }
  sequence.Advance(tokens - cached);
  return Status::Ok();
}

Manifest DescribeSeeded(const Sequence& sequence, const std::string& name) {
  Manifest manifest;
  manifest.name = name;
  manifest.model_name = "seeded KV of kvbed verify";
  manifest.model = SeededModel();
  manifest.prompt_tokens = 1;
  manifest.token_ids.resize(sequence.cached_tokens() + 1);
  for (size_t i = 0; i < manifest.token_ids.size(); ++i) {
    manifest.token_ids[i] = static_cast<int32_t>(i % 1000);
  }
  return manifest;
}

Result<SeededKv> SeededKv::Create(const KvGeometry& geometry, uint64_t sequence_id,
                                  uint64_t tokens_max) {
  KVBED_CHECK(sequence_id != 0);
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockPool> pool, MakePoisonedPool(geometry, tokens_max));
  return SeededKv(std::move(pool), sequence_id);
}

std::vector<std::vector<std::byte>> SeededKv::Records() const {
  std::vector<std::vector<std::byte>> records;
  for (uint64_t block = 0; block < sequence_->blocks(); ++block) {
    const Bytes record = std::as_const(*pool_).record(sequence_->block_table()[block]);
    records.emplace_back(record.begin(), record.end());
  }
  return records;
}

}  // namespace kvbed
