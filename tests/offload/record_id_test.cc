#include "offload/record_id.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "offload/model_digests.h"

namespace kvbed {
namespace {

RecordId SampleId() {
  RecordId id;
  for (size_t i = 0; i < 16; ++i) id.key.model_fingerprint.bytes[i] = static_cast<std::byte>(i);
  id.key.sequence_id = 0x1122334455667788;
  id.key.block_index = 7;
  id.generation = 42;
  return id;
}

TEST(RecordId, Encoding) {
  EXPECT_EQ(SampleId().ToHex(),
            "000102030405060708090a0b0c0d0e0f"
            "8877665544332211"
            "0700000000000000"
            "2a00000000000000");
  EXPECT_EQ(SampleId().ToString(), "sequence 1122334455667788 block 7 generation 42");
}

TEST(RecordId, EachFieldChangesTheEncodingAndTheDecodedIdIsTheSame) {
  std::set<std::string> seen;
  const auto expect_new = [&](const RecordId& id) {
    EXPECT_TRUE(seen.insert(id.ToHex()).second) << id.ToString();
    std::array<std::byte, kRecordIdBytes> encoded;
    id.Encode(encoded);
    EXPECT_EQ(RecordId::Decode(encoded), id);
  };
  for (int bit = 0; bit < 64; ++bit) {
    RecordId id = SampleId();
    id.key.sequence_id ^= uint64_t{1} << bit;
    expect_new(id);
    id = SampleId();
    id.key.block_index ^= uint64_t{1} << bit;
    expect_new(id);
    id = SampleId();
    id.generation ^= uint64_t{1} << bit;
    expect_new(id);
  }
}

// Fixed width: digits can't move from one field into the next.
TEST(RecordId, FieldsDoNotRunIntoEachOther) {
  RecordId a = SampleId(), b = SampleId();
  a.key.block_index = 1;
  a.generation = 23;
  b.key.block_index = 12;
  b.generation = 3;
  EXPECT_NE(a.ToHex(), b.ToHex());
}

TEST(RecordId, ModelFingerprintTellsItsPartsApart) {
  const Digest128 x = Xxh3_128(AsBytes("x")), y = Xxh3_128(AsBytes("y")), none;
  std::set<Digest128> seen;
  for (const ModelDigests& model : {ModelDigests{x, y, none}, ModelDigests{y, x, none},
                                    ModelDigests{x, none, y}, ModelDigests{none, x, y}}) {
    EXPECT_TRUE(seen.insert(model.Fingerprint()).second);
  }
}

TEST(RecordId, GenerationsGrow) {
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t next = NextGeneration(last);
    ASSERT_GT(next, last);
    last = next;
  }
}

TEST(RecordId, GenerationsGrowBehindAClockThatWasSetBack) {
  const uint64_t future = uint64_t{1} << 63;
  std::set<uint64_t> seen;
  for (int i = 0; i < 20; ++i) {
    const uint64_t next = NextGeneration(future);
    EXPECT_GT(next, future);
    seen.insert(next);
  }
  // Two processes that grow one sequence don't meet at `previous` + 1.
  EXPECT_GT(seen.size(), 10u);
}

TEST(RecordId, RandomIdsDiffer) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(RandomId()).second);
  EXPECT_FALSE(seen.contains(0));
}

TEST(RecordId, HashDependsOnContentsOnly) {
  const RecordId id = SampleId();
  RecordId other = SampleId();
  EXPECT_EQ(RecordIdHash()(id), RecordIdHash()(other));
  other.generation = 43;
  EXPECT_NE(RecordIdHash()(id), RecordIdHash()(other));
}

}  // namespace
}  // namespace kvbed
