#include "verify/kv_damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>

#include "offload/digest.h"

namespace kvbed {
namespace {

// Above these nothing is kept to be found again. They are 125,000 tokens of 32 layers in blocks of
// 16, and take 12 MB.
constexpr size_t kUnitsMax = 500'000;
constexpr uint64_t kHeadsMax = 500'000;
// Of a head's rows, gathered to be looked at.
constexpr uint64_t kGatheredBytesMax = uint64_t{1} << 20;
// Fewer bytes than these in another place could be chance.
constexpr size_t kProbeBytes = 16;
constexpr uint64_t kShiftedBytesMin = 64;
// A reversed element may be chance too, with 16 bits of each.
constexpr uint64_t kReversedElementsMin = 4;

bool IsConstant(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == bytes[0]; });
}

bool SameBytes(Bytes a, Bytes b) { return std::memcmp(a.data(), b.data(), a.size()) == 0; }

// How many bytes of `b` from its first difference on are where a shift says; nullopt when one
// isn't, or when fewer than a probe would be left.
std::optional<uint64_t> ShiftedBytes(Bytes a, Bytes b, size_t first, int64_t shift) {
  const auto distance = static_cast<size_t>(shift < 0 ? -shift : shift);
  if (first + distance + kProbeBytes > b.size()) return std::nullopt;
  const size_t bytes = b.size() - first - distance;
  const Bytes from_a = a.subspan(first + (shift < 0 ? distance : 0), bytes);
  const Bytes from_b = b.subspan(first + (shift < 0 ? 0 : distance), bytes);
  if (!SameBytes(from_a, from_b)) return std::nullopt;
  return bytes;
}

std::optional<int64_t> FindShift(Bytes a, Bytes b, size_t first) {
  for (const size_t eighths : {4, 2, 6}) {
    const size_t at = first + (b.size() - first) * eighths / 8;
    if (at + kProbeBytes > b.size()) continue;
    const Bytes probe = b.subspan(at, kProbeBytes);
    if (IsConstant(probe)) continue;
    for (size_t from = 0; from + kProbeBytes <= a.size();) {
      const void* hit = ::memmem(a.data() + from, a.size() - from, probe.data(), probe.size());
      if (hit == nullptr) break;
      const auto found = static_cast<size_t>(static_cast<const std::byte*>(hit) - a.data());
      const int64_t shift = static_cast<int64_t>(at) - static_cast<int64_t>(found);
      if (shift != 0 && ShiftedBytes(a, b, first, shift)) return shift;
      from = found + 1;
    }
  }
  return std::nullopt;
}

const char* PartLetter(uint64_t part) { return part == 0 ? "K" : "V"; }

uint64_t RowsGathered(const KvDumpShape& shape) {
  return std::max<uint64_t>(1, kGatheredBytesMax / shape.row_bytes());
}

}  // namespace

void KvDamageSearch::Digests::Add(Bytes from_a, Bytes from_b) {
  const auto chain = [](uint64_t before, Bytes more) {
    const std::array<uint64_t, 2> both = {before, Xxh3_64(more)};
    return Xxh3_64(std::as_bytes(std::span(both)));
  };
  a = chain(a, from_a);
  b = chain(b, from_b);
  zero = zero && AllZero(from_a);
}

KvDamageSearch::KvDamageSearch(const KvDumpShape& shape, const KvDiffReport& report,
                               uint64_t unit_tokens)
    : shape_(shape),
      report_(report),
      unit_tokens_(std::min(unit_tokens, RowsGathered(shape))),
      element_bytes_(KvElementBytes(report.element)),
      reversed_(element_bytes_ > 1) {
  const uint64_t heads = shape.layers * 2 * shape.kv_heads;
  if (heads <= kHeadsMax) heads_.resize(heads);
}

bool KvDamageSearch::settled() const { return report_.differing_bits <= 1; }

void KvDamageSearch::Add(const KvDump& a, const KvDump& b, uint64_t first, uint64_t last) {
  if (settled()) return;
  const uint64_t row_bytes = shape_.row_bytes();
  const uint64_t shift_rows = RowsGathered(shape_);
  a_scratch_.resize(shift_rows * row_bytes);
  b_scratch_.resize(shift_rows * row_bytes);
  for (uint64_t layer = 0; layer < shape_.layers; ++layer) {
    for (const KvPart part : {KvPart::kK, KvPart::kV}) {
      for (uint64_t token = first; token < last; token += unit_tokens_) {
        AddUnit(a, b, layer, part, token, std::min(token + unit_tokens_, last));
      }
      for (uint64_t head = 0; shift_possible_ && head < shape_.kv_heads; ++head) {
        for (uint64_t token = first; token < last; token += shift_rows) {
          const uint64_t end = std::min(token + shift_rows, last);
          const uint64_t bytes = (end - token) * row_bytes;
          a.CopyRows(layer, part, head, token, end, a_scratch_);
          b.CopyRows(layer, part, head, token, end, b_scratch_);
          AddShift(Bytes(a_scratch_).first(bytes), Bytes(b_scratch_).first(bytes));
        }
      }
    }
  }
}

void KvDamageSearch::AddUnit(const KvDump& a, const KvDump& b, uint64_t layer, KvPart part,
                             uint64_t first, uint64_t last) {
  const uint64_t bytes = (last - first) * shape_.row_bytes();
  const auto part_index = static_cast<uint64_t>(part);
  const Bytes from_a = Bytes(a_scratch_).first(bytes), from_b = Bytes(b_scratch_).first(bytes);
  Digests unit;
  for (uint64_t head = 0; head < shape_.kv_heads; ++head) {
    a.CopyRows(layer, part, head, first, last, a_scratch_);
    b.CopyRows(layer, part, head, first, last, b_scratch_);
    unit.Add(from_a, from_b);
    if (!heads_.empty()) {
      heads_[(layer * 2 + part_index) * shape_.kv_heads + head].Add(from_a, from_b);
    }
    AddRows(from_a, from_b, {layer, part_index, head, first});
  }
  if (!units_) return;
  const auto unit_of = [&](uint64_t digest) {
    return Unit{digest, first, static_cast<uint32_t>(layer), static_cast<uint32_t>(part_index)};
  };
  if (!unit.zero) a_units_.push_back(unit_of(unit.a));
  if (unit.a != unit.b) b_units_.push_back(unit_of(unit.b));
  if (a_units_.size() + b_units_.size() > kUnitsMax) {
    units_ = false;
    a_units_ = {};
    b_units_ = {};
  }
}

void KvDamageSearch::AddRows(Bytes a, Bytes b, Place place) {
  const uint64_t row_bytes = shape_.row_bytes();
  for (uint64_t at = 0; at < a.size(); at += row_bytes, ++place.token) {
    const Bytes rows[2] = {a.subspan(at, row_bytes), b.subspan(at, row_bytes)};
    const bool differs = !SameBytes(rows[0], rows[1]);
    if (differs) first_differing_token_ = std::min(first_differing_token_, place.token);
    for (size_t side = 0; side < 2; ++side) {
      Zeroes& zeroes = zeroes_[side];
      if (!zeroes.possible) continue;
      if (AllZero(rows[side])) {
        if (differs) ++zeroes.rows;
      } else {
        if (!zeroes.last_nonzero || *zeroes.last_nonzero < place) zeroes.last_nonzero = place;
        zeroes.last_nonzero_token = std::max(zeroes.last_nonzero_token.value_or(0), place.token);
      }
    }
    if (!differs) continue;
    for (uint64_t i = 0; i < row_bytes; i += element_bytes_) {
      const Bytes one[2] = {rows[0].subspan(i, element_bytes_), rows[1].subspan(i, element_bytes_)};
      if (SameBytes(one[0], one[1])) continue;
      for (size_t side = 0; side < 2; ++side) {
        if (!AllZero(one[side])) zeroes_[side].possible = false;
      }
      reversed_ = reversed_ && std::equal(one[0].begin(), one[0].end(), one[1].rbegin());
      ++reversed_elements_;
      if (!reversed_ && !zeroes_[0].possible && !zeroes_[1].possible) break;
    }
  }
}

void KvDamageSearch::AddShift(Bytes a, Bytes b) {
  if (!shift_possible_ || SameBytes(a, b)) return;
  const auto first =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  if (!shift_bytes_) shift_bytes_ = FindShift(a, b, first);
  const auto bytes = shift_bytes_ ? ShiftedBytes(a, b, first, *shift_bytes_) : std::nullopt;
  shift_possible_ = bytes.has_value();
  shifted_bytes_ += bytes.value_or(0);
}

std::optional<KvDamage> KvDamageSearch::Finish() const {
  if (report_.differing_bits == 0) return std::nullopt;
  if (report_.differing_bits == 1) {
    const int bit = std::countr_zero(report_.first->a ^ report_.first->b);
    return KvDamage{Damage::kBit, fmt::format("one bit differs: bit {} of one element", bit)};
  }
  if (reversed_ && reversed_elements_ >= kReversedElementsMin) {
    return KvDamage{Damage::kByteOrder,
                    "each element that differs is the other's with its bytes reversed"};
  }
  for (const size_t side : {1, 0}) {
    if (auto damage = ZeroedOrTorn(zeroes_[side], side == 0 ? "A" : "B")) return damage;
  }
  if (auto damage = EqualsOther()) return damage;
  if (shift_possible_ && shift_bytes_ && shifted_bytes_ >= kShiftedBytesMin) {
    const auto distance = static_cast<uint64_t>(std::abs(*shift_bytes_));
    const uint64_t row_bytes = shape_.row_bytes();
    const std::string rows = distance % row_bytes == 0
                                 ? fmt::format(" ({} tokens)", distance / row_bytes)
                                 : std::string();
    return KvDamage{Damage::kShifted,
                    fmt::format("B has A's rows of a head {} bytes{} too {}", distance, rows,
                                *shift_bytes_ > 0 ? "late" : "early")};
  }
  return std::nullopt;
}

std::optional<KvDamage> KvDamageSearch::ZeroedOrTorn(const Zeroes& zeroes, const char* side) const {
  if (!zeroes.possible || zeroes.rows == 0) return std::nullopt;
  const KvDifference& first = *report_.first;
  const Place start{first.layer, static_cast<uint64_t>(first.part), first.head, first.token};
  const bool to_last_head = first.layer + 1 == shape_.layers && first.part == KvPart::kV &&
                            first.head + 1 == shape_.kv_heads;
  if (zeroes.last_nonzero && *zeroes.last_nonzero <= start && !to_last_head) {
    return KvDamage{Damage::kTorn,
                    fmt::format("{} is zero from the first difference to its end", side)};
  }
  if (zeroes.last_nonzero_token && *zeroes.last_nonzero_token < first_differing_token_) {
    return KvDamage{Damage::kTorn, fmt::format("{} is zero from token {} to its end in all layers",
                                               side, first_differing_token_)};
  }
  return KvDamage{Damage::kZeroed, fmt::format("{} is zero where they differ", side)};
}

std::string KvDamageSearch::RangeText(const Unit& unit) const {
  return fmt::format("{} of layer {} from token {} on", PartLetter(unit.part), unit.layer,
                     unit.token);
}

std::optional<KvDamage> KvDamageSearch::EqualsOther() const {
  // Whole heads first: what names a layer, part or head is more than what names stretches of it.
  std::vector<std::pair<uint64_t, size_t>> by_digest;
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (!heads_[i].zero) by_digest.emplace_back(heads_[i].a, i);
  }
  std::sort(by_digest.begin(), by_digest.end());
  std::optional<std::pair<size_t, size_t>> example;
  bool all = true;
  for (size_t i = 0; all && i < heads_.size(); ++i) {
    if (heads_[i].a == heads_[i].b) continue;
    const auto found =
        std::lower_bound(by_digest.begin(), by_digest.end(), std::pair(heads_[i].b, size_t{0}));
    all = found != by_digest.end() && found->first == heads_[i].b;
    if (all && !example) example = {i, found->second};
  }
  if (all && example) {
    const auto text = [&](size_t head) {
      const size_t part = head / shape_.kv_heads;
      return fmt::format("{} of layer {}, KV head {}", PartLetter(part % 2), part / 2,
                         head % shape_.kv_heads);
    };
    return KvDamage{Damage::kEqualsOther,
                    fmt::format("B's {} is A's {}", text(example->first), text(example->second))};
  }
  if (!units_ || b_units_.empty()) return std::nullopt;
  std::vector<Unit> sorted = a_units_;
  const auto by = [](const Unit& one, const Unit& other) { return one.digest < other.digest; };
  std::stable_sort(sorted.begin(), sorted.end(), by);
  for (const Unit& unit : b_units_) {
    if (!std::binary_search(sorted.begin(), sorted.end(), unit, by)) return std::nullopt;
  }
  const Unit& other = *std::lower_bound(sorted.begin(), sorted.end(), b_units_[0], by);
  return KvDamage{Damage::kEqualsOther,
                  fmt::format("B's {} is A's {}", RangeText(b_units_[0]), RangeText(other))};
}

}  // namespace kvbed
