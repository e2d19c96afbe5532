#include "engine/model/byte_level_bpe.h"

#include <algorithm>

#include "offload/check.h"

namespace kvbed {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr TokenId kNoToken = -1;

uint64_t PairKey(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// The heap's front is the pair of the lowest rank, of equal ones the leftmost.
bool After(const ByteLevelBpe::Scratch::Candidate& a, const ByteLevelBpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(std::span<const std::string> bytes_of, std::span<const Merge> merges,
                           bool ignore_merges) {
  byte_ids_.fill(kNoToken);
  for (size_t id = 0; id < bytes_of.size(); ++id) {
    if (bytes_of[id].size() == 1)
      byte_ids_[static_cast<uint8_t>(bytes_of[id][0])] = static_cast<TokenId>(id);
    if (ignore_merges && !bytes_of[id].empty())
      whole_words_.emplace(bytes_of[id], static_cast<TokenId>(id));
  }
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank)
    merges_.emplace(PairKey(merges[rank].left, merges[rank].right),
                    Ranked{static_cast<uint32_t>(rank), merges[rank].merged});
}

bool ByteLevelBpe::Encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out,
                          size_t* missing) const {
  KVBED_CHECK(word.size() < kNone);
  if (!whole_words_.empty()) {
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
      out.push_back(whole->second);
      return true;
    }
  }
  scratch.symbols.clear();
  const auto size = static_cast<uint32_t>(word.size());
  for (uint32_t i = 0; i < size; ++i) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(word[i])];
    if (id == kNoToken) {
      *missing = i;
      return false;
    }
    scratch.symbols.push_back({id, i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1});
  }
  MergeAll(scratch);
  // Symbol 0 is never merged into one before it, so the list starts there.
  for (uint32_t i = size == 0 ? kNone : 0; i != kNone; i = scratch.symbols[i].next)
    out.push_back(scratch.symbols[i].id);
  return true;
}

// Puts the pair that begins at symbol `left` into the heap, when there is a merge for it.
void ByteLevelBpe::Offer(Scratch& scratch, uint32_t left) const {
  const Scratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.next == kNone) return;
  const TokenId right_id = scratch.symbols[symbol.next].id;
  const auto merge = merges_.find(PairKey(symbol.id, right_id));
  if (merge == merges_.end()) return;
  scratch.heap.push_back({merge->second.rank, left, symbol.id, right_id, merge->second.merged});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), After);
}

void ByteLevelBpe::MergeAll(Scratch& scratch) const {
  scratch.heap.clear();
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  for (uint32_t i = 0; i < symbols.size(); ++i) Offer(scratch, i);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), After);
    const Scratch::Candidate top = scratch.heap.back();
    scratch.heap.pop_back();
    Scratch::Symbol& left = symbols[top.left];
    // Stale when one of the two has been merged since.
    if (left.id != top.left_id || left.next == kNone || symbols[left.next].id != top.right_id)
      continue;
    Scratch::Symbol& right = symbols[left.next];
    left.id = top.merged;
    left.next = right.next;
    if (right.next != kNone) symbols[right.next].previous = top.left;
    right.id = kNoToken;
    Offer(scratch, top.left);
    if (left.previous != kNone) Offer(scratch, left.previous);
  }
}

}  // namespace kvbed
