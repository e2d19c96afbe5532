#include "offload/record_id.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>

#include "offload/clock.h"

namespace kvbed {

void RecordId::Encode(MutableBytes out) const {
  KVBED_CHECK(out.size() >= kRecordIdBytes);
  std::copy(key.model_fingerprint.bytes.begin(), key.model_fingerprint.bytes.end(), out.begin());
  StoreLe<uint64_t>(out, 16, key.sequence_id);
  StoreLe<uint64_t>(out, 24, key.block_index);
  StoreLe<uint64_t>(out, 32, generation);
}

RecordId RecordId::Decode(Bytes in) {
  KVBED_CHECK(in.size() >= kRecordIdBytes);
  RecordId id;
  std::copy_n(in.begin(), 16, id.key.model_fingerprint.bytes.begin());
  id.key.sequence_id = LoadLe<uint64_t>(in, 16);
  id.key.block_index = LoadLe<uint64_t>(in, 24);
  id.generation = LoadLe<uint64_t>(in, 32);
  return id;
}

std::string RecordId::ToHex() const {
  std::array<std::byte, kRecordIdBytes> encoded;
  Encode(encoded);
  return kvbed::ToHex(encoded);
}

std::string RecordId::ToString() const {
  return fmt::format("sequence {:016x} block {} generation {}", key.sequence_id, key.block_index,
                     generation);
}

size_t RecordIdHash::operator()(const RecordId& id) const {
  std::array<std::byte, kRecordIdBytes> encoded;
  id.Encode(encoded);
  return Xxh3_64(encoded);
}

uint64_t RandomId() {
  uint64_t value = 0;
  while (value == 0) {
    KVBED_CHECK(::getrandom(&value, sizeof(value), 0) == sizeof(value));
  }
  return value;
}

uint64_t NextGeneration(uint64_t previous) {
  const uint64_t random = RandomId() & 0xfff;
  const uint64_t stamp = (UnixNs() / 1000) << 12 | random;
  // Behind a clock that was set back, the random bits still keep two processes apart that grow the
  // same sequence from the same generation.
  return std::max(previous + 1 + random, stamp);
}

}  // namespace kvbed
