// Records and a manifest as an earlier version wrote them: decoded and verified for ever.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/offload/golden_samples.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

std::string ReadGolden(const std::string& name) {
  std::ifstream file(KVBED_GOLDEN_DIR "/record/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class GoldenRecordTest : public testing::TestWithParam<GoldenRecord> {};

TEST_P(GoldenRecordTest, IsDecodedAndVerified) {
  const GoldenRecord& golden = GetParam();
  std::string record = ReadGolden(golden.file);
  ASSERT_EQ(record.size(), golden.geometry.record_bytes());
  ASSERT_OK_AND_ASSIGN(const RecordHeader header, DecodeRecordHeader(AsBytes(record)));
  EXPECT_EQ(header, SampleHeader(golden.geometry, golden.tokens_used));
  const Digest128 digest = RecordDigestOf(AsBytes(record));
  EXPECT_EQ(digest.ToHex(), golden.digest);
  EXPECT_FALSE(VerifyRecord(AsBytes(record), header, digest));
  record[5000] ^= 1;
  EXPECT_TRUE(VerifyRecord(AsBytes(record), header, digest));
}

TEST_P(GoldenRecordTest, IsStillWrittenThisWay) {
  const GoldenRecord& golden = GetParam();
  SampleRecord record = MakeRecord(SampleHeader(golden.geometry, golden.tokens_used), golden.seed);
  EXPECT_TRUE(AsText(record.bytes()) == ReadGolden(golden.file));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenRecordTest, testing::ValuesIn(GoldenRecords()));

// The example in FORMAT.md.
TEST(GoldenRecord, AnElementIsWhereTheFormatDocumentSays) {
  const std::string record = ReadGolden("bf16-5-padded.record");
  ASSERT_OK_AND_ASSIGN(const RecordHeader header, DecodeRecordHeader(AsBytes(record)));
  EXPECT_EQ(4096 + header.geometry.ElementOffset({1, KvPart::kV, 0, 17 - 15, 3}), 4358u);
  EXPECT_EQ(ToHex(AsBytes(record).subspan(4358, 2)), "eab6");
}

TEST(GoldenManifest, IsDecodedAndStillWrittenThisWay) {
  const std::string bytes = ReadGolden("manifest");
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, DecodeManifest(AsBytes(bytes)));
  EXPECT_EQ(manifest, SampleManifest());
  EXPECT_TRUE(EncodeManifest(SampleManifest()) == bytes);
}

}  // namespace
}  // namespace kvbed
