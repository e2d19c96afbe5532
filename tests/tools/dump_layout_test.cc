// Layout strings, name patterns and block tables: what they mean, and what is said of wrong ones.
#include "tools/diff/dump_layout.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_dump.h"
#include "tools/diff/block_table.h"
#include "tools/diff/dump_names.h"

namespace kvbed {
namespace {

using Names = std::vector<std::string>;

Result<PlacedAxes> Place(std::string_view text, const std::vector<uint64_t>& shape,
                         const SharedCounts& shared = {}) {
  KVBED_ASSIGN_OR_RETURN(const DumpLayout layout, ParseDumpLayout(text));
  return PlaceAxes(layout, shape, 2, shared);
}

TEST(DumpLayout, GivesCountsAndStrides) {
  ASSERT_OK_AND_ASSIGN(const PlacedAxes axes, Place("L2HTD", {4, 2, 3, 10, 8}));
  EXPECT_EQ(axes.layer.count, 4u);
  EXPECT_EQ(axes.dim.stride_bytes, 2u);
  EXPECT_EQ(axes.token.stride_bytes, 16u);
  EXPECT_EQ(axes.head.stride_bytes, 160u);
  EXPECT_EQ(axes.part.stride_bytes, 480u);
  EXPECT_EQ(axes.layer.stride_bytes, 960u);
  // Heads inside tokens.
  ASSERT_OK_AND_ASSIGN(const PlacedAxes other, Place("L2THD", {4, 2, 10, 3, 8}));
  EXPECT_EQ(other.head.stride_bytes, 16u);
  EXPECT_EQ(other.token.stride_bytes, 48u);
}

TEST(DumpLayout, TakesABatchOfOneAndSharedDimensions) {
  ASSERT_OK_AND_ASSIGN(const PlacedAxes batch, Place("HTD", {1, 3, 10, 8}));
  EXPECT_EQ(batch.head.count, 3u);
  ASSERT_OK_AND_ASSIGN(const PlacedAxes hidden, Place("2LT(HD)", {2, 4, 10, 24}, {.kv_heads = 3}));
  EXPECT_EQ(hidden.head.count, 3u);
  EXPECT_EQ(hidden.dim.count, 8u);
  EXPECT_EQ(hidden.head.stride_bytes, 16u);
  ASSERT_OK_AND_ASSIGN(const PlacedAxes pages, Place("(NT)HD", {64, 3, 8}, {.block_tokens = 16}));
  EXPECT_EQ(pages.block.count, 4u);
  EXPECT_EQ(pages.token.count, 16u);
}

TEST(DumpLayout, RefusesWhatIsNone) {
  const auto refused = [](std::string_view text, std::string_view says) {
    return FailsWith(ParseDumpLayout(text).status(), StatusCode::kInvalidArgument, says);
  };
  EXPECT_TRUE(refused("L2HTQ", "'Q'"));
  EXPECT_TRUE(refused("LLTD", "twice"));
  EXPECT_TRUE(refused("L2HT", "no D"));
  EXPECT_TRUE(refused("L2HD", "neither T nor N"));
  EXPECT_TRUE(refused("T(HD", "brackets"));
  EXPECT_TRUE(refused("THD)", "brackets"));
  EXPECT_TRUE(refused("T()D", "empty"));
  EXPECT_TRUE(refused("", "no D"));
  const auto misplaced = [](std::string_view text, const std::vector<uint64_t>& shape,
                            std::string_view says, const SharedCounts& shared = {}) {
    return FailsWith(Place(text, shape, shared).status(), StatusCode::kInvalidArgument, says);
  };
  EXPECT_TRUE(misplaced("L2HTD", {4, 2, 3, 10}, "has 5 dimensions"));
  EXPECT_TRUE(misplaced("HTD", {2, 3, 10, 8}, "has 3 dimensions"));
  EXPECT_TRUE(misplaced("L2HTD", {4, 3, 3, 10, 8}, "the dimension 2"));
  EXPECT_TRUE(misplaced("1HTD", {2, 3, 10, 8}, "the dimension 1"));
  EXPECT_TRUE(misplaced("HTD", {3, 0, 8}, "can't be 0"));
  EXPECT_TRUE(misplaced("T(HD)", {10, 24}, "--kv-heads"));
  EXPECT_TRUE(misplaced("T(HD)", {10, 24}, "no multiple", {.kv_heads = 5}));
}

TEST(KeyPattern, MatchesNamesWithLayerAndPart) {
  ASSERT_OK_AND_ASSIGN(const KeyPattern pattern, KeyPattern::Parse("c.{layer}.{k|v}.x"));
  const auto match = pattern.MatchName("c.12.v.x");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->layer, 12u);
  EXPECT_EQ(match->part, KvPart::kV);
  for (const char* other : {"c.12.v", "c..v.x", "c.1a.v.x", "cc.1.v.x", "c.1.w.x", ""}) {
    EXPECT_FALSE(pattern.MatchName(other)) << other;
  }
  for (const char* bad :
       {"", "a{", "a}", "{nolayer}", "{layer}{layer}", "{k|v}{k|v}", "{k|k}", "{a|b|c}"}) {
    EXPECT_EQ(KeyPattern::Parse(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(NameTensors, KnowsCommonNames) {
  const Names names = {"layers.1.values", "layers.0.keys", "layers.1.keys", "layers.0.values",
                       "lengths"};
  ASSERT_OK_AND_ASSIGN(const NamedTensors found, NameTensors(names, std::nullopt));
  EXPECT_EQ(found.pattern.text(), "layers.{layer}.{keys|values}");
  EXPECT_EQ(found.layers, 2u);
  EXPECT_EQ(found.tensors, (std::vector<size_t>{1, 3, 2, 0}));
  EXPECT_EQ(found.rest, std::vector<size_t>{4});
  ASSERT_OK_AND_ASSIGN(const NamedTensors one, NameTensors({"whatever"}, std::nullopt));
  EXPECT_EQ(one.tensors.size(), 1u);
  for (const std::string_view pattern : KnownKeyPatterns()) EXPECT_OK(KeyPattern::Parse(pattern));
}

TEST(NameTensors, SaysWhatIsMissingTwiceOrUnknown) {
  const auto fails = [](const Names& names, std::optional<std::string> given, StatusCode code,
                        std::string_view says) {
    return FailsWith(NameTensors(names, given).status(), code, says);
  };
  EXPECT_TRUE(fails({"key_cache.0", "value_cache.0", "key_cache.2", "value_cache.2"}, {},
                    StatusCode::kCorruption, "K of layer 1 is missing"));
  EXPECT_TRUE(fails({"key_cache.0", "value_cache.0", "key_cache.1"}, {}, StatusCode::kCorruption,
                    "V of layer 1 is missing"));
  EXPECT_TRUE(fails({"key_cache.0", "key_cache.00", "value_cache.0"}, {}, StatusCode::kCorruption,
                    "key_cache.0 and key_cache.00 are both K of layer 0"));
  EXPECT_TRUE(fails({"a", "b"}, {}, StatusCode::kCorruption, "--key-pattern"));
  EXPECT_TRUE(fails({}, {}, StatusCode::kCorruption, "none"));
  EXPECT_TRUE(fails({"a", "b"}, "{layer}.{k|v}", StatusCode::kInvalidArgument, "matches none"));
  EXPECT_TRUE(
      fails({"k.0", "v.0", "key.0", "value.0"}, {}, StatusCode::kInvalidArgument, "fit both"));
}

TEST(BlockTable, IsReadFromTextFilesAndLists) {
  const TempDir dir;
  const std::vector<uint64_t> blocks = {5, 3, 9};
  EXPECT_EQ(ReadBlockTable("5,3,9").value(), blocks);
  for (const char* text : {"5 3 9\n", "[5, 3, 9]", "[[5, 3, 9, -1, -1]]", "5\n3\n9\n-1"}) {
    WriteDump(dir / "table", text);
    EXPECT_EQ(ReadBlockTable(dir / "table").value(), blocks) << text;
  }
  for (const char* text :
       {"", "[]", "5,x", "5.5", "[5, 3", "[[5], [3]]", "-1", "5,-1,3", "99999999999999999999"}) {
    WriteDump(dir / "table", text);
    EXPECT_TRUE(FailsWith(ReadBlockTable(dir / "table").status(), StatusCode::kCorruption, "table"))
        << text;
  }
  EXPECT_EQ(ReadBlockTable("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBlockTable("99999999999999999999").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBlockTable(dir / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace kvbed
