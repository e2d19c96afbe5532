// The id of a record: which block of which sequence of which model, and which version of it.
// Fixed width, so that no two ids share an encoding; nothing in it depends on process or locale.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "offload/bytes.h"
#include "offload/digest.h"

namespace kvbed {

inline constexpr uint64_t kRecordIdBytes = 40;

struct RecordKey {
  Digest128 model_fingerprint;
  uint64_t sequence_id = 0;  // random at the sequence's start
  uint64_t block_index = 0;
  auto operator<=>(const RecordKey&) const = default;
};

struct RecordId {
  RecordKey key;
  uint64_t generation = 0;  // grows with each change of the block, never reused; 0 is no record
  auto operator<=>(const RecordId&) const = default;

  // 40 bytes: fingerprint 16, sequence id 8, block index 8, generation 8; little-endian.
  void Encode(MutableBytes out) const;
  static RecordId Decode(Bytes in);
  // 80 hexadecimal digits of the encoding, e.g. for a file name.
  std::string ToHex() const;
  // For people: "sequence 0123456789abcdef block 7 generation 42".
  std::string ToString() const;
};

struct RecordIdHash {
  size_t operator()(const RecordId& id) const;
};

// A generation that no earlier one equals, also after a crash or from another process that grows
// the same sequence: the larger of (microseconds since 1970) << 12 | r and `previous` + 1 + r,
// where r are 12 random bits.
uint64_t NextGeneration(uint64_t previous);

// 64 random bits from the kernel, never 0.
uint64_t RandomId();

}  // namespace kvbed
