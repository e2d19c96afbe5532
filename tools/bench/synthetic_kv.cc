#include "tools/bench/synthetic_kv.h"

#include <algorithm>
#include <vector>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "tools/bench/mixed.h"
#include "tools/bench/page_stamps.h"

namespace kvbed {
Result<SyntheticKv> SyntheticKv::Create(const KvGeometry& geometry, uint64_t seed) {
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer base, AlignedBuffer::Allocate(RoundUp(
                                                 geometry.payload_bytes(), sizeof(uint64_t))));
  PageStamps::FillBase(base.bytes(), seed);
  return SyntheticKv(geometry, seed, std::move(base));
}

void SyntheticKv::Fill(Sequence& sequence, uint64_t round) const {
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    const MutableBytes payload = sequence.payload(block);
    std::copy_n(base_.bytes().begin(), payload.size(), payload.begin());
    const uint64_t block_word = Mixed(seed_ ^ Mixed(round ^ Mixed(block)));
    for (uint64_t page = 0; page + sizeof(uint64_t) <= payload.size(); page += kPageBytes) {
      StoreLe<uint64_t>(payload, page, Mixed(block_word ^ page));
    }
    const uint32_t used = sequence.TokensInBlock(block);
    if (used < geometry_.block_tokens) ZeroUnusedRows(payload, geometry_, used);
  }
}

}  // namespace kvbed
