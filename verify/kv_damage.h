// What the bytes of two KV dumps that differ prove about how one came to differ from the other. It
// is looked for in a second pass over them, and nothing is said where the bytes leave it open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/finding.h"
#include "verify/kv_diff.h"
#include "verify/kv_dump.h"

namespace kvbed {

struct KvDamage {
  Damage kind = Damage::kBit;
  std::string says;  // one line for people
};

// The kinds, each of which explains every difference that there is:
//   bit           one bit differs
//   byte_order    each differing element is the other's with its bytes reversed
//   zeroed        each differing element is zero on one side, whole rows among them
//   torn          the same, and that side is zero from there on to its end: in the order layer, K
//                 before V, head, token (over the end of a head at least), or from a token on in
//                 all layers
//   equals_other  what differs is another layer's, head's, part's or stretch of tokens' K or V of A
//   shifted       B has A's rows of a head some bytes off their place
class KvDamageSearch {
 public:
  // `report`: what comparing the same two gave, with a difference. `unit_tokens`: of a block where
  // there are blocks.
  KvDamageSearch(const KvDumpShape& shape, const KvDiffReport& report, uint64_t unit_tokens);

  // Tokens in order, from 0 on, in the pieces of the comparison.
  void Add(const KvDump& a, const KvDump& b, uint64_t first, uint64_t last);
  // Nothing is open any more: the rest needn't be added.
  bool settled() const;
  std::optional<KvDamage> Finish() const;

 private:
  struct Place {
    uint64_t layer = 0, part = 0, head = 0, token = 0;
    auto operator<=>(const Place&) const = default;
  };
  // K or V of a layer over some tokens, all heads: what a block holds of it.
  struct Unit {
    uint64_t digest = 0;
    uint64_t token = 0;  // the first
    uint32_t layer = 0;
    uint32_t part = 0;
  };
  // One dump being all zero where they differ.
  struct Zeroes {
    bool possible = true;
    uint64_t rows = 0;                  // that differ and are zero
    std::optional<Place> last_nonzero;  // row
    std::optional<uint64_t> last_nonzero_token;
  };
  // Chains over what was added so far.
  struct Digests {
    uint64_t a = 0, b = 0;
    bool zero = true;  // of A
    void Add(Bytes from_a, Bytes from_b);
  };

  void AddUnit(const KvDump& a, const KvDump& b, uint64_t layer, KvPart part, uint64_t first,
               uint64_t last);
  void AddRows(Bytes a, Bytes b, Place first_row);
  void AddShift(Bytes a, Bytes b);
  std::optional<KvDamage> ZeroedOrTorn(const Zeroes& zeroes, const char* side) const;
  std::optional<KvDamage> EqualsOther() const;
  std::string RangeText(const Unit& unit) const;

  const KvDumpShape shape_;
  const KvDiffReport report_;
  const uint64_t unit_tokens_;
  const uint64_t element_bytes_;
  bool reversed_ = true;
  uint64_t reversed_elements_ = 0;
  Zeroes zeroes_[2];  // of A, of B
  uint64_t first_differing_token_ = UINT64_MAX;
  bool units_ = true;
  std::vector<Unit> a_units_, b_units_;  // of A, those that aren't all zero; of B, that differ
  std::vector<Digests> heads_;           // by layer, part, head, over all tokens; none: too many
  bool shift_possible_ = true;
  std::optional<int64_t> shift_bytes_;
  uint64_t shifted_bytes_ = 0;  // that are where the shift says
  std::vector<std::byte> a_scratch_, b_scratch_;
};

}  // namespace kvbed
