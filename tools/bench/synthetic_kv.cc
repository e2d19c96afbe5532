#include "tools/bench/synthetic_kv.h"

#include <algorithm>
#include <vector>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "tools/bench/mixed.h"
#include "tools/bench/page_stamps.h"

namespace kvbed {
namespace {

void ZeroUnusedRows(MutableBytes payload, const KvGeometry& geometry, uint32_t tokens_used) {
  const uint64_t head_bytes = geometry.head_bytes();
  const uint64_t used_bytes = head_bytes / geometry.block_tokens * tokens_used;
  for (uint64_t head = 0; head < payload.size(); head += head_bytes) {
    const MutableBytes unused = payload.subspan(head + used_bytes, head_bytes - used_bytes);
    std::fill(unused.begin(), unused.end(), std::byte{0});
  }
}

}  // namespace

Result<SyntheticKv> SyntheticKv::Create(const KvGeometry& geometry, uint64_t seed) {
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer base, AlignedBuffer::Allocate(geometry.payload_bytes()));
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

double DuplicatePagePercent(Sequence& sequence) {
  std::vector<uint64_t> pages;
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    const Bytes payload = sequence.payload(block);
    for (uint64_t at = 0; at + kPageBytes <= payload.size(); at += kPageBytes) {
      pages.push_back(Xxh3_64(payload.subspan(at, kPageBytes)));
    }
  }
  if (pages.empty()) return 0;
  std::sort(pages.begin(), pages.end());
  const auto distinct = std::unique(pages.begin(), pages.end()) - pages.begin();
  return 100 * (1 - static_cast<double>(distinct) / static_cast<double>(pages.size()));
}

}  // namespace kvbed
