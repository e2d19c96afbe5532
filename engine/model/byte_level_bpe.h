// Byte-pair encoding of one word: its bytes, merged pair by pair in the order of the merge list.
// It doesn't know special tokens nor how text is cut into words.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/model/tokenizer_definition.h"

namespace kvbed {

class ByteLevelBpe {
 public:
  // `bytes_of` are the tokens' bytes by id, those with an empty string taking no part; they must
  // outlive this object. Ids in `merges` must lie within it.
  ByteLevelBpe(std::span<const std::string> bytes_of, std::span<const Merge> merges,
               bool ignore_merges);

  // Memory that is used again from word to word. One thread.
  struct Scratch {
    struct Symbol {
      TokenId id;
      uint32_t previous, next;
    };
    struct Candidate {
      uint32_t rank, left;  // `left`: the symbol's index
      TokenId left_id, right_id, merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Appends the ids of `word` (below 4 GiB). False, with `out` unchanged, when the vocabulary lacks
  // a byte of it, whose offset is then in `*missing`.
  bool Encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out,
              size_t* missing) const;

 private:
  struct Ranked {
    uint32_t rank;
    TokenId merged;
  };
  void Offer(Scratch& scratch, uint32_t left) const;
  void MergeAll(Scratch& scratch) const;

  std::array<TokenId, 256> byte_ids_;
  std::unordered_map<uint64_t, Ranked> merges_;                // by left id << 32 | right id
  std::unordered_map<std::string_view, TokenId> whole_words_;  // filled for ignore_merges only
};

}  // namespace kvbed
