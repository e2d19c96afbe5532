// What is written is what the reader reads.
#include "engine/model/safetensors_writer.h"

#include <gtest/gtest.h>

#include "engine/model/safetensors_file.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(SafetensorsWriter, IsReadBack) {
  const std::string header = SafetensorsHeader(
      {{"layers.1.keys", "BF16", {1, 2}, 4}, {"a\"\n", "F32", {}, 4}, {"none", "U8", {0}, 0}},
      {{"format", "pt"}, {"model", "\xff not UTF-8"}});
  EXPECT_EQ(header.size() % 8, 0u);
  const std::string file = header + "abcd" + "efgh";
  ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(AsBytes(file)));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "layers.1.keys");
  EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(AsText(tensors[0].data), "abcd");
  EXPECT_EQ(tensors[1].name, "a\"\n");
  EXPECT_EQ(AsText(tensors[1].data), "efgh");
  // One byte less is seen.
  EXPECT_FALSE(ParseSafetensors(AsBytes(file).first(file.size() - 1)).ok());
}

}  // namespace
}  // namespace kvbed
