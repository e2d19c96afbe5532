// The safetensors container: what it gives, and what it refuses.
#include "engine/model/safetensors_file.h"

#include <gtest/gtest.h>

#include "tests/engine/model_writers.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

// Parses a file of the header and `data_bytes` of data. Only the status is of interest.
Status Parse(std::string_view header, size_t data_bytes) {
  const std::string file = SafetensorsOf(header, std::string(data_bytes, 'x'));
  return StatusOf(ParseSafetensors(AsBytes(file)));
}

TEST(Safetensors, GivesTensorsInOffsetOrder) {
  const std::string file = SafetensorsOf(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("scalar":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}  )",
      "0123abcdz");
  ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(AsBytes(file)));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].dtype, "F16");
  EXPECT_EQ(tensors[1].shape, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(AsText(tensors[1].data), "abcd");
  EXPECT_EQ(AsText(tensors[2].data), "z");
}

TEST(Safetensors, RefusesWrongHeaderLengths) {
  const std::string good = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_OK(Parse(good, 4));
  for (const size_t size : {0, 1, 7})
    EXPECT_TRUE(FailsWith(StatusOf(ParseSafetensors(AsBytes(std::string(size, 'x')))),
                          StatusCode::kCorruption, "short"));
  for (const uint64_t length : {UINT64_MAX, UINT64_MAX - 7, uint64_t{100'000'001}, uint64_t{61}}) {
    const std::string file = LittleEndian(length) + good;
    EXPECT_TRUE(FailsWith(StatusOf(ParseSafetensors(AsBytes(file))), StatusCode::kCorruption,
                          std::to_string(length)));
  }
  EXPECT_TRUE(FailsWith(Parse(" " + good, 4), StatusCode::kCorruption, "'{'"));
  EXPECT_TRUE(FailsWith(Parse("", 4), StatusCode::kCorruption, "'{'"));
}

TEST(Safetensors, RefusesWrongPlaces) {
  const auto corrupt = [](std::string_view header, size_t bytes, std::string_view word) {
    return FailsWith(Parse(header, bytes), StatusCode::kCorruption, word);
  };
  EXPECT_TRUE(
      corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3, "past the end"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5, "hole"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", 4, "hole"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "tensor a"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4, "data_offsets"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}})",
                      4, "past the end"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
                      5, "overlap"));
  EXPECT_TRUE(corrupt(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                      4, "\"a\" twice"));
}

TEST(Safetensors, RefusesWrongShapes) {
  const auto fails = [](std::string_view dtype, std::string_view shape, StatusCode code,
                        std::string_view word) {
    return FailsWith(Parse(std::string(R"({"a":{"dtype":")") + std::string(dtype) +
                               R"(","shape":)" + std::string(shape) + R"(,"data_offsets":[0,8]}})",
                           8),
                     code, word);
  };
  EXPECT_OK(Parse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  EXPECT_TRUE(fails("F32", "[3]", StatusCode::kCorruption, "takes 12 bytes"));
  EXPECT_TRUE(fails("F32", "[0]", StatusCode::kCorruption, "takes 0 bytes"));
  EXPECT_TRUE(fails("F32", "[9223372036854775810,2]", StatusCode::kCorruption, "overflows"));
  EXPECT_TRUE(fails("F32", "[-2]", StatusCode::kCorruption, "shape"));
  EXPECT_TRUE(fails("F32", "2", StatusCode::kCorruption, "shape"));
  EXPECT_TRUE(fails("Q7_X", "[2]", StatusCode::kNotSupported, "Q7_X"));
  EXPECT_TRUE(FailsWith(Parse(R"({"a":7})", 0), StatusCode::kCorruption, "dtype"));
}

}  // namespace
}  // namespace kvbed
