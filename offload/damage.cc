#include "offload/damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "offload/flipped_bit.h"
#include "offload/record_layout.h"

namespace kvbed {
namespace {

using namespace record_layout;  // NOLINT: this file is about nothing else

constexpr size_t kSectorBytes = 512;
// Trying each bit of a slice hashes it 8 times its length. This many bytes take about half a
// second.
constexpr uint64_t kSearchBytesMax = uint64_t{9} << 30;

std::string HexByte(std::byte value) { return ToHex({&value, 1}); }

uint64_t SetBits(Bytes a, Bytes b) {
  uint64_t bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bits += static_cast<uint64_t>(std::popcount(std::to_integer<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

// Explains one record. Each Try* method says whether it found a proof.
class Explainer {
 public:
  Explainer(Bytes record, const RecordHeader& expected, const Digest128& expected_digest,
            Finding& finding)
      : record_(record),
        header_(expected),
        geometry_(expected.geometry),
        digest_(expected_digest),
        finding_(finding),
        count_(DigestCount(geometry_)) {}

  void Run() {
    if (record_.size() != geometry_.record_bytes() || finding_.check == Check::kPoison) return;
    if (finding_.check == Check::kPadding) {
      TryPaddingBit();
    } else if (finding_.check == Check::kPayload) {
      FindFailing();
      TryByteOrder() || TryPayloadBit() || TryZeroOrTorn() || TryPayloadShift();
    } else {
      TryAllZero() || TryOtherRecord() || TryHeaderAlone() || TryShiftOn() || TryShiftBack();
    }
  }

 private:
  Bytes PayloadAt(size_t record_offset) const {
    return record_.subspan(record_offset, geometry_.payload_bytes());
  }

  // Where the slices of digest `index` lie in the payload; the digest covers one after the other.
  std::vector<uint64_t> SlicesOf(uint32_t index) const {
    const DigestLayers layers = LayersOfDigest(geometry_, index);
    std::vector<uint64_t> offsets;
    for (uint32_t layer = layers.first; layer < layers.last; ++layer) {
      offsets.push_back(geometry_.PartOffset(layer, layers.part));
    }
    return offsets;
  }

  // The bytes that digest `index` covers.
  std::vector<std::byte> Covered(uint32_t index) const {
    std::vector<std::byte> bytes;
    for (uint64_t offset : SlicesOf(index)) {
      const Bytes slice = record_.subspan(kPageBytes + offset, geometry_.part_bytes());
      bytes.insert(bytes.end(), slice.begin(), slice.end());
    }
    return bytes;
  }

  // Digest `index` of a payload that begins `shift` bytes behind its place; null when what it
  // covers is not all within the record.
  std::optional<uint64_t> ShiftedDigest(uint32_t index, int64_t shift) const {
    const DigestLayers layers = LayersOfDigest(geometry_, index);
    const uint64_t end =
        geometry_.PartOffset(layers.last - 1, layers.part) + geometry_.part_bytes();
    const int64_t begin = static_cast<int64_t>(kPageBytes) + shift;
    if (begin < 0 || static_cast<uint64_t>(begin) + end > record_.size()) return std::nullopt;
    return TableDigest(record_.subspan(static_cast<size_t>(begin)), geometry_, index);
  }

  // Whether the payload that begins at `record_offset` is the one that the manifest means.
  bool PayloadIsRight(size_t record_offset) const {
    std::vector<std::byte> table(count_ * sizeof(uint64_t));
    for (uint32_t i = 0; i < count_; ++i) {
      StoreLe<uint64_t>(table, i * sizeof(uint64_t),
                        TableDigest(PayloadAt(record_offset), geometry_, i));
    }
    return Xxh3_128(table) == digest_;
  }

  bool Prove(Damage damage) {
    finding_.damage = damage;
    return true;
  }

  void NameByte(uint64_t record_offset, std::byte expected) {
    finding_.byte_offset = record_offset;
    finding_.expected = HexByte(expected);
    finding_.actual = HexByte(record_[record_offset]);
  }

  // ---- the padding ----

  bool TryPaddingBit() {
    const Bytes padding = record_.subspan(kPageBytes + geometry_.payload_bytes());
    const std::vector<std::byte> zeroes(padding.size());
    return SetBits(padding, zeroes) == 1 && Prove(Damage::kBit);
  }

  // ---- the payload; its digest table is the manifest's ----

  void FindFailing() {
    for (uint32_t i = 0; i < count_; ++i) {
      if (TableDigest(PayloadAt(kPageBytes), geometry_, i) != StoredTableDigest(record_, i)) {
        failing_.push_back(i);
      }
    }
  }

  bool TryByteOrder() {
    const auto matches_reversed = [&](uint32_t index) {
      std::vector<std::byte> bytes = Covered(index);
      const auto element_bytes = static_cast<ptrdiff_t>(geometry_.element_bytes());
      for (auto at = bytes.begin(); at != bytes.end(); at += element_bytes) {
        std::reverse(at, at + element_bytes);
      }
      return Xxh3_64(bytes) == StoredTableDigest(record_, index);
    };
    return std::all_of(failing_.begin(), failing_.end(), matches_reversed) &&
           Prove(Damage::kByteOrder);
  }

  bool TryPayloadBit() {
    const uint32_t index = failing_[0];
    std::vector<std::byte> bytes = Covered(index);
    const auto bit = FindFlippedBit(bytes, StoredTableDigest(record_, index));
    if (!bit) return false;
    const uint64_t slice = *bit / 8 / geometry_.part_bytes();
    const uint64_t payload_offset = SlicesOf(index)[slice] + *bit / 8 % geometry_.part_bytes();
    const KvCoordinate at = geometry_.CoordinateAt(payload_offset);
    const std::byte flip{static_cast<unsigned char>(1u << *bit % 8)};
    NameByte(kPageBytes + payload_offset, record_[kPageBytes + payload_offset] ^ flip);
    finding_.layer = at.layer;
    finding_.kv = at.part;
    finding_.head = at.kv_head;
    finding_.token = header_.first_position + at.token;
    finding_.dim = at.dim;
    finding_.message = fmt::format(
        "bit {} of a byte of {} of layer {}, KV head {}, token {}, dim {} is flipped", *bit % 8,
        at.part == KvPart::kK ? "K" : "V", at.layer, at.kv_head, *finding_.token, at.dim);
    return Prove(Damage::kBit);
  }

  bool TryZeroOrTorn() {
    const auto is_zero = [&](uint32_t index) { return AllZero(Covered(index)); };
    const bool suffix = failing_.back() == count_ - 1 && failing_.size() == count_ - failing_[0];
    const bool any_zero = std::any_of(failing_.begin(), failing_.end(), is_zero);
    if (suffix && any_zero && ZeroToTheEndFrom(failing_[0])) return Prove(Damage::kTorn);
    if (is_zero(failing_[0])) return Prove(Damage::kZeroed);
    return suffix && failing_[0] > 0 && failing_.size() >= 2 && Prove(Damage::kTorn);
  }

  // Whether, from a sector boundary in or before slice `index` + 1 on, everything is zero.
  bool ZeroToTheEndFrom(uint32_t index) const {
    const uint64_t begin = kPageBytes + SlicesOf(index)[0];
    size_t last = record_.size();
    while (last > begin && record_[last - 1] == std::byte{0}) --last;
    return RoundUp(last, kSectorBytes) <= begin + geometry_.part_bytes();
  }

  // The header page in its place, the payload not: bytes were lost or put in between.
  bool TryPayloadShift() {
    const uint32_t index = failing_[0];
    const std::vector<std::byte> here = Covered(index);
    // Bytes that all equal look the same from anywhere.
    if (std::memcmp(here.data(), here.data() + 1, here.size() - 1) == 0) return false;
    if (here.size() * 2 * kPageBytes > kSearchBytesMax) return false;
    for (int64_t distance = 1; distance <= static_cast<int64_t>(kPageBytes); ++distance) {
      for (int64_t shift : {distance, -distance}) {
        if (ShiftedDigest(index, shift) == StoredTableDigest(record_, index)) {
          return ProveShift(shift, "the payload");
        }
      }
    }
    return false;
  }

  bool ProveShift(int64_t shift, std::string_view what) {
    finding_.expected = "at its place";
    finding_.actual = fmt::format("{:+} bytes", shift);
    finding_.message = fmt::format("{} lies {} bytes {} its place", what, std::abs(shift),
                                   shift > 0 ? "behind" : "before");
    return Prove(Damage::kShifted);
  }

  // ---- the header page ----

  bool TryAllZero() { return AllZero(record_) && Prove(Damage::kZeroed); }

  bool TryOtherRecord() {
    const auto other = DecodeRecordHeader(record_);
    if (!other.ok() || other->id == header_.id) return false;
    if (other->geometry.record_bytes() != record_.size()) return false;
    if (VerifyRecord(record_, *other, RecordDigestOf(record_))) return false;
    finding_.other_id = other->id;
    return Prove(Damage::kEqualsOther);
  }

  // The payload is right, so all of the header page is known.
  bool TryHeaderAlone() {
    if (!PayloadIsRight(kPageBytes)) return false;
    if (DecodeRecordHeader(record_).ok()) return false;  // not damaged: another header altogether
    std::array<std::byte, kPageBytes> page;
    WriteHeaderPage(page, header_, PayloadAt(kPageBytes));
    const auto [want, have] = std::mismatch(page.begin(), page.end(), record_.begin());
    if (want == page.end()) return false;
    const auto first = static_cast<size_t>(want - page.begin());
    NameByte(first, *want);
    if (SetBits(page, record_.first(kPageBytes)) == 1) return Prove(Damage::kBit);
    size_t last = kPageBytes;
    while (page[last - 1] == record_[last - 1]) --last;
    const size_t begin = first / kSectorBytes * kSectorBytes;
    const bool zeroed = AllZero(record_.subspan(begin, RoundUp(last, kSectorBytes) - begin));
    return zeroed && Prove(Damage::kZeroed);
  }

  // A whole header page further on, with what follows it matching its digests.
  bool TryShiftOn() {
    const std::string_view text = AsText(record_);
    for (size_t at = text.find(kRecordMagic, 1); at != std::string_view::npos;
         at = text.find(kRecordMagic, at + 1)) {
      const Bytes moved = record_.subspan(at);
      const auto header = DecodeRecordHeader(moved);
      if (!header.ok()) continue;
      const KvGeometry& geometry = header->geometry;
      const uint64_t there = moved.size() - kPageBytes;
      uint32_t matching = 0, wrong = 0;
      for (uint32_t i = 0; i < DigestCount(geometry); ++i) {
        const DigestLayers layers = LayersOfDigest(geometry, i);
        const uint64_t end =
            geometry.PartOffset(layers.last - 1, layers.part) + geometry.part_bytes();
        if (end > there) continue;
        const bool right =
            TableDigest(moved.subspan(kPageBytes), geometry, i) == StoredTableDigest(moved, i);
        ++(right ? matching : wrong);
      }
      if (matching == 0 || wrong > 0) continue;
      if (header->id != header_.id) finding_.other_id = header->id;
      return ProveShift(static_cast<int64_t>(at), "the record");
    }
    return false;
  }

  // The record's first bytes are lost, its payload follows too early.
  bool TryShiftBack() {
    const uint32_t last = count_ - 1;
    uint64_t searched_bytes = 0;
    for (size_t shift = 1; shift <= kPageBytes; ++shift) {
      const size_t entry_at = kDigestTableAt + last * sizeof(uint64_t);
      if (shift <= entry_at) {
        // One slice against the digest that was moved with it sorts nearly all out.
        searched_bytes += geometry_.part_bytes();
        if (ShiftedDigest(last, -static_cast<int64_t>(shift)) !=
            LoadLe<uint64_t>(record_, entry_at - shift)) {
          continue;
        }
      } else if (shift % kSectorBytes != 0) {
        continue;
      }
      searched_bytes += geometry_.payload_bytes();
      if (searched_bytes > kSearchBytesMax) return false;
      if (PayloadIsRight(kPageBytes - shift)) {
        return ProveShift(-static_cast<int64_t>(shift), "the record");
      }
    }
    return false;
  }

  const Bytes record_;
  const RecordHeader& header_;
  const KvGeometry& geometry_;
  const Digest128& digest_;
  Finding& finding_;
  const uint32_t count_;
  std::vector<uint32_t> failing_;  // digests that the payload doesn't match, in order
};

}  // namespace

void ExplainDamage(Bytes record, const RecordHeader& expected, const Digest128& expected_digest,
                   Finding& finding) {
  Explainer(record, expected, expected_digest, finding).Run();
}

}  // namespace kvbed
