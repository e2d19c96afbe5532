#include "tools/bench/page_stamps.h"

#include "offload/aligned_buffer.h"
#include "tools/bench/mixed.h"

namespace kvbed {
namespace {

constexpr uint64_t kPoisonWord = ~uint64_t{0};

}  // namespace

void PageStamps::FillBase(MutableBytes memory, uint64_t seed) {
  for (uint64_t at = 0; at + sizeof(uint64_t) <= memory.size(); at += sizeof(uint64_t)) {
    StoreLe<uint64_t>(memory, at, Mixed(seed ^ Mixed(at)));
  }
}

void PageStamps::Stamp(MutableBytes block, uint64_t first_page) const {
  for (uint64_t at = 0; at < block.size(); at += kPageBytes) {
    StoreLe<uint64_t>(block, at, Word(first_page + at / kPageBytes));
  }
}

bool PageStamps::Match(Bytes block, uint64_t first_page) const {
  for (uint64_t at = 0; at < block.size(); at += kPageBytes) {
    if (LoadLe<uint64_t>(block, at) != Word(first_page + at / kPageBytes)) return false;
  }
  return true;
}

void PageStamps::Poison(MutableBytes memory) {
  for (uint64_t at = 0; at < memory.size(); at += kPageBytes) {
    StoreLe<uint64_t>(memory, at, kPoisonWord);
  }
}

uint64_t PageStamps::Word(uint64_t page) const {
  return Mixed(Mixed(seed_ ^ Mixed(round_)) ^ Mixed(page));
}

}  // namespace kvbed
