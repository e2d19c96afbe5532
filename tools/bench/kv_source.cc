#include "tools/bench/kv_source.h"

#include <algorithm>
#include <vector>

#include "offload/bytes.h"
#include "offload/digest.h"

namespace kvbed {

void ZeroUnusedRows(MutableBytes payload, const KvGeometry& geometry, uint32_t tokens_used) {
  const uint64_t head_bytes = geometry.head_bytes();
  const uint64_t used_bytes = head_bytes / geometry.block_tokens * tokens_used;
  for (uint64_t head = 0; head < payload.size(); head += head_bytes) {
    const MutableBytes unused = payload.subspan(head + used_bytes, head_bytes - used_bytes);
    std::fill(unused.begin(), unused.end(), std::byte{0});
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
