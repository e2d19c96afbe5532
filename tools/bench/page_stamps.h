// What makes each 4 KiB page that a benchmark writes unlike every other: random words, and one word
// that is unique to seed, round and page. It allocates nothing and moves nothing.
#pragma once

#include <cstdint>

#include "offload/bytes.h"

namespace kvbed {

class PageStamps {
 public:
  // `round` counts how often a file was written.
  constexpr PageStamps(uint64_t seed, uint64_t round) : seed_(seed), round_(round) {}

  // Random words everywhere, without which a page would compress.
  static void FillBase(MutableBytes memory, uint64_t seed);

  // One word into each page of `block`, whose first page is number `first_page` of its file.
  void Stamp(MutableBytes block, uint64_t first_page) const;
  // Whether each page bears the word that Stamp gave it.
  bool Match(Bytes block, uint64_t first_page) const;
  // Overwrites the words, so that they must come from a file to match.
  static void Poison(MutableBytes memory);

 private:
  uint64_t Word(uint64_t page) const;

  uint64_t seed_;
  uint64_t round_;
};

}  // namespace kvbed
