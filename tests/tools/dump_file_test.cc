// Dump files in the layouts of several engines give the K and V that were packed into them.
#include "tools/diff/dump_file.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_dump.h"
#include "verify/kv_diff.h"

namespace kvbed {
namespace {

class DumpFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& bytes) {
    WriteDump(dir_ / "dump", bytes);
    return dir_ / "dump";
  }
  // Is what the file gives, bit for bit, `kv`?
  testing::AssertionResult Gives(const std::string& bytes, const DumpOptions& options,
                                 SampleKv kv) {
    const auto file = DumpFile::Open(Write(bytes), options);
    if (!file.ok()) return testing::AssertionFailure() << file.status().message();
    const KvDump& dump = file->dump();
    if (!(dump.shape == kv.shape)) return testing::AssertionFailure() << "another shape";
    if (dump.end_token < kv.tokens) return testing::AssertionFailure() << dump.end_token;
    KvDiff diff(kv.shape, kv.shape.element);
    diff.Add(kv.Dump(), dump, 0, kv.tokens);
    if (!diff.report().equal()) return testing::AssertionFailure() << "other bytes";
    // And it would be seen if it weren't.
    kv.bytes.back() ^= std::byte{1};
    KvDiff control(kv.shape, kv.shape.element);
    control.Add(kv.Dump(), dump, 0, kv.tokens);
    if (control.report().equal()) return testing::AssertionFailure() << "it compares nothing";
    return testing::AssertionSuccess();
  }
  testing::AssertionResult Fails(const std::string& bytes, const DumpOptions& options,
                                 StatusCode code, std::string_view says) {
    const Status status = StatusOf(DumpFile::Open(Write(bytes), options));
    if (status.message().find(dir_ / "dump") == std::string::npos) {
      return testing::AssertionFailure() << "doesn't name the file: " << status.message();
    }
    return FailsWith(status, code, says);
  }

  const TempDir dir_;
  const SampleKv kv_ = MakeSampleKv();
};

TEST_F(DumpFileTest, ReadsADynamicCache) {
  EXPECT_TRUE(Gives(SafetensorsFile(DynamicCacheTensors(kv_)), {}, kv_));
}

TEST_F(DumpFileTest, ReadsEachTypeOfElement) {
  const std::pair<KvElement, const char*> types[] = {
      {KvElement::kBf16, "BF16"},       {KvElement::kFp16, "F16"}, {KvElement::kFp32, "F32"},
      {KvElement::kFp8E4m3, "F8_E4M3"}, {KvElement::kInt8, "I8"},  {KvElement::kFp8E5m2, "F8_E5M2"},
      {KvElement::kByte, "U8"},
  };
  for (const auto& [element, dtype] : types) {
    const SampleKv kv = MakeSampleKv(element);
    EXPECT_TRUE(Gives(SafetensorsFile(DynamicCacheTensors(kv), dtype), {}, kv)) << dtype;
  }
  EXPECT_TRUE(Fails(SafetensorsFile({{"k.0", {4}, "12345678"}, {"v.0", {4}, "12345678"}}, "I16"),
                    {}, StatusCode::kNotSupported, "I16"));
}

TEST_F(DumpFileTest, ReadsOneTensorInAnyOrderOfAxes) {
  for (const char* layout : {"L2HTD", "L2THD", "2LTHD", "T2LHD", "DTHL2", "2LHDT", "1L2HTD"}) {
    const PackedKv packed = PackKv(kv_, layout);
    DumpOptions options;
    options.layout = layout;
    EXPECT_TRUE(Gives(SafetensorsFile({{"kv", packed.shape, packed.bytes}}), options, kv_))
        << layout;
    options.shape = packed.shape;
    EXPECT_TRUE(Gives(packed.bytes, options, kv_)) << layout;
  }
}

TEST_F(DumpFileTest, ReadsPagedCachesByTheirBlockTable) {
  const std::vector<uint64_t> table = {9, 0, 4, 11, 2};
  DumpOptions options;
  options.layout = "2NTHD";
  options.block_table = "9,0,4,11,2";
  EXPECT_TRUE(Gives(SafetensorsFile(PagedTensors(kv_, 8, table, 12)), options, kv_));
  for (const char* layout : {"NL2HTD", "L2NHTD", "N2LTHD", "LN2THD"}) {
    const PackedKv packed = PackKv(kv_, layout, 8, table, 12);
    options.layout = layout;
    EXPECT_TRUE(Gives(SafetensorsFile({{"kv", packed.shape, packed.bytes}}), options, kv_))
        << layout;
  }
  // vLLM's older K: a head's dims in groups, tokens between them.
  const PackedKv split = PackKv(kv_, "L2NHDTx", 8, table, 12, 4);
  options.layout = "L2NHDTx";
  EXPECT_TRUE(Gives(SafetensorsFile({{"kv", split.shape, split.bytes}}), options, kv_));
  // Blocks of one token: a slot each.
  std::vector<uint64_t> slots;
  std::string list;
  for (uint64_t token = 0; token < kv_.tokens; ++token) {
    slots.push_back(token * 7 % 53);
    list += std::to_string(slots.back()) + ",";
  }
  const PackedKv pool = PackKv(kv_, "L2NHD", 1, slots, 53);
  options.layout = "L2NHD";
  options.block_table = list;
  EXPECT_TRUE(Gives(SafetensorsFile({{"kv", pool.shape, pool.bytes}}), options, kv_));
}

TEST_F(DumpFileTest, ReadsDimensionsThatHoldTwoAxes) {
  PackedKv packed = PackKv(kv_, "2LTHD");
  packed.shape = {2, 3, 40, 16};
  DumpOptions options;
  options.layout = "2LT(HD)";
  options.kv_heads = 2;
  EXPECT_TRUE(Gives(SafetensorsFile({{"kv", packed.shape, packed.bytes}}), options, kv_));
  PackedKv slots = PackKv(kv_, "L2NTHD", 8, {1, 0, 3, 2, 4}, 5);
  slots.shape = {3, 2, 40, 2, 8};
  options.layout = "L2(NT)HD";
  options.block_tokens = 8;
  options.block_table = "1,0,3,2,4";
  EXPECT_TRUE(Gives(SafetensorsFile({{"kv", slots.shape, slots.bytes}}), options, kv_));
}

TEST_F(DumpFileTest, RefusesMalformedFiles) {
  const std::string good = SafetensorsFile(DynamicCacheTensors(kv_));
  EXPECT_TRUE(Fails(good.substr(0, good.size() - 1), {}, StatusCode::kCorruption, "past the end"));
  EXPECT_TRUE(Fails(good.substr(0, 100), {}, StatusCode::kCorruption, "past the end"));
  EXPECT_TRUE(Fails("", {}, StatusCode::kCorruption, "too short"));
  EXPECT_TRUE(Fails(std::string(64, 'x'), {}, StatusCode::kCorruption, "needs --kv-shape"));
  // A damaged safetensors file isn't taken for a raw dump.
  const Status damaged = StatusOf(DumpFile::Open(Write(good.substr(0, 100)), {}));
  EXPECT_EQ(damaged.message().find("--kv-shape"), std::string::npos) << damaged.ToString();
  EXPECT_TRUE(Fails("PK\x03\x04 and more of it", {}, StatusCode::kNotSupported, "torch.save"));
  EXPECT_EQ(StatusOf(DumpFile::Open(dir_.path(), {})).code(), StatusCode::kNotSupported);
  EXPECT_EQ(StatusOf(DumpFile::Open(dir_ / "none", {})).code(), StatusCode::kNotFound);
  auto tensors = DynamicCacheTensors(kv_);
  tensors.erase(tensors.begin() + 2);
  EXPECT_TRUE(Fails(SafetensorsFile(tensors), {}, StatusCode::kCorruption, "K of layer 1"));
  tensors = DynamicCacheTensors(kv_);
  tensors[3].shape = {1, 2, 8, 40};
  EXPECT_TRUE(Fails(SafetensorsFile(tensors), {}, StatusCode::kCorruption, "of one shape"));
  for (DumpTensor& one : tensors) one.shape = {2, 1, 40, 8};
  EXPECT_TRUE(Fails(SafetensorsFile(tensors), {}, StatusCode::kCorruption, "can't be 2"));
  for (DumpTensor& one : tensors) one.shape = {640};
  EXPECT_TRUE(Fails(SafetensorsFile(tensors), {}, StatusCode::kInvalidArgument, "--layout"));
}

TEST_F(DumpFileTest, RefusesOptionsThatDontFit) {
  const auto refused = [&](const DumpOptions& options, std::string_view says,
                           StatusCode code = StatusCode::kInvalidArgument) {
    return Fails(SafetensorsFile(DynamicCacheTensors(kv_)), options, code, says);
  };
  EXPECT_TRUE(refused({.key_pattern = "k.{layer}"}, "matches none"));
  EXPECT_TRUE(refused({.layout = "L1HTD"}, "in both"));
  EXPECT_TRUE(refused({.layout = "2HTD"}, "in both"));
  EXPECT_TRUE(refused({.layout = "HT"}, "no D"));
  EXPECT_TRUE(refused({.layout = "1NTD"}, "--block-table"));
  // Entry 1 is above what there is, but only when its tokens are asked for.
  DumpOptions paged{.layout = "1NTD", .block_table = "1,2"};
  EXPECT_TRUE(refused(paged, "entry 1 of the block table is 2", StatusCode::kCorruption));
  paged.tokens = 40;
  EXPECT_OK(DumpFile::Open(Write(SafetensorsFile(DynamicCacheTensors(kv_))), paged));
  paged.tokens = 41;
  EXPECT_TRUE(refused(paged, "entry 1", StatusCode::kCorruption));
  DumpOptions raw;
  raw.shape = {3, 2, 2, 40, 9};
  EXPECT_TRUE(refused(raw, "--kv-shape 3,2,2,40,9 of bf16 takes", StatusCode::kCorruption));
  // A row or a list of layers that no model has.
  raw.shape = {1, 2, 1, 1, 70'000};
  EXPECT_TRUE(
      Fails(std::string(280'000, 'x'), raw, StatusCode::kInvalidArgument, "head_dim 70000"));
  raw.shape = {70'000, 2, 1, 1, 1};
  EXPECT_TRUE(Fails(std::string(280'000, 'x'), raw, StatusCode::kInvalidArgument, "70000 layers"));
  raw.shape = {UINT64_MAX, 2};
  EXPECT_TRUE(refused(raw, "above 2^64"));
}

}  // namespace
}  // namespace kvbed
