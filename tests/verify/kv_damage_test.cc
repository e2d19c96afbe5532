// What the bytes of two dumps prove, and what they leave open.
#include "verify/kv_damage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/verify/sample_kv.h"

namespace kvbed {
namespace {

std::optional<KvDamage> FindDamage(const SampleKv& a, const SampleKv& b,
                                   uint64_t piece_tokens = 1000, uint64_t unit_tokens = 4) {
  const auto for_each_piece = [&](auto& into) {
    const KvDump from_a = a.Dump(), from_b = b.Dump();
    for (uint64_t token = 0; token < a.tokens; token += piece_tokens) {
      into.Add(from_a, from_b, token, std::min(a.tokens, token + piece_tokens));
    }
  };
  KvDiff diff(a.shape, a.shape.element);
  for_each_piece(diff);
  KvDamageSearch search(a.shape, diff.report(), unit_tokens);
  for_each_piece(search);
  return search.Finish();
}

// In pieces as a snapshot's records give, and in one.
std::optional<Damage> KindOf(const SampleKv& a, const SampleKv& b) {
  const auto whole = FindDamage(a, b), pieces = FindDamage(a, b, 20);
  EXPECT_EQ(whole.has_value(), pieces.has_value());
  if (whole && pieces) {
    EXPECT_EQ(whole->kind, pieces->kind) << whole->says << " / " << pieces->says;
  }
  return whole ? std::optional(whole->kind) : std::nullopt;
}

TEST(KvDamage, NothingIsProvedWhereNothingDiffers) {
  const SampleKv a = MakeSampleKv();
  EXPECT_EQ(KindOf(a, a), std::nullopt);
}

TEST(KvDamage, NothingIsProvedByRounding) {
  const SampleKv a = MakeSampleKv();
  SampleKv b = a;
  std::mt19937 random(9);
  b.ForEach([&](const KvAt& at) {
    if (random() % 3 == 0) b.Element(at)[0] ^= static_cast<std::byte>(1 + random() % 3);
  });
  EXPECT_EQ(KindOf(a, b), std::nullopt);
  EXPECT_EQ(KindOf(a, MakeSampleKv(KvElement::kBf16, 40, 2)), std::nullopt);
}

TEST(KvDamage, OneBit) {
  const SampleKv a = MakeSampleKv();
  SampleKv b = a;
  b.Element({1, KvPart::kV, 0, 17, 3})[1] ^= std::byte{0x10};
  const auto damage = FindDamage(a, b);
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->kind, Damage::kBit);
  EXPECT_NE(damage->says.find("bit 12"), std::string::npos) << damage->says;
  b.Element({1, KvPart::kV, 0, 17, 3})[1] ^= std::byte{0x20};
  EXPECT_EQ(KindOf(a, b), std::nullopt);
}

TEST(KvDamage, ByteOrder) {
  for (const KvElement element : {KvElement::kBf16, KvElement::kFp32}) {
    const SampleKv a = MakeSampleKv(element);
    SampleKv b = a;
    b.ForEach([&](const KvAt& at) {
      if (at.layer == 1) std::ranges::reverse(b.Element(at));
    });
    EXPECT_EQ(KindOf(a, b), Damage::kByteOrder);
    b.Element({1, KvPart::kK, 0, 0, 0})[0] ^= std::byte{4};
    EXPECT_EQ(KindOf(a, b), std::nullopt);
  }
}

TEST(KvDamage, ZeroedOnEitherSide) {
  const SampleKv a = MakeSampleKv();
  SampleKv b = a;
  std::ranges::fill(b.Head(1, KvPart::kK, 1), std::byte{0});
  EXPECT_EQ(KindOf(a, b), Damage::kZeroed);
  EXPECT_EQ(KindOf(b, a), Damage::kZeroed);
  EXPECT_EQ(FindDamage(b, a)->says, "A is zero where they differ");
  // Zero in the end, and no more than a head.
  SampleKv last = a;
  std::ranges::fill(last.Head(2, KvPart::kV, 1), std::byte{0});
  EXPECT_EQ(KindOf(a, last), Damage::kZeroed);
  // All of it.
  SampleKv all = a;
  std::ranges::fill(all.bytes, std::byte{0});
  EXPECT_EQ(KindOf(a, all), Damage::kZeroed);
  // Elements that were flushed to zero are no damage of this kind: no whole row is.
  SampleKv flushed = a;
  for (uint64_t token = 0; token < 40; ++token)
    flushed.Set({0, KvPart::kK, 0, token, 1}, uint16_t{0});
  EXPECT_EQ(KindOf(a, flushed), std::nullopt);
  // Something else differs too.
  b.Element({0, KvPart::kK, 0, 0, 0})[0] ^= std::byte{1};
  EXPECT_EQ(KindOf(a, b), std::nullopt);
}

TEST(KvDamage, Torn) {
  SampleKv a = MakeSampleKv();
  SampleKv layers = a;
  for (const uint64_t layer : {1, 2}) {
    for (const KvPart part : {KvPart::kK, KvPart::kV}) {
      for (const uint64_t head : {0, 1}) {
        if (layer == 1 && part == KvPart::kK) continue;
        std::ranges::fill(layers.Head(layer, part, head), std::byte{0});
      }
    }
  }
  EXPECT_EQ(KindOf(a, layers), Damage::kTorn);
  SampleKv tokens = a;
  tokens.ForEach([&](const KvAt& at) {
    if (at.token >= 21) tokens.Set(at, uint16_t{0});
  });
  EXPECT_EQ(KindOf(a, tokens), Damage::kTorn);
  EXPECT_NE(FindDamage(a, tokens)->says.find("from token 21"), std::string::npos);
  // It goes on behind.
  tokens.Set({0, KvPart::kK, 0, 39, 0}, uint16_t{0x3f80});
  a.Set({0, KvPart::kK, 0, 39, 0}, uint16_t{0x3f80});
  EXPECT_EQ(KindOf(a, tokens), Damage::kZeroed);
}

TEST(KvDamage, EqualsOther) {
  SampleKv a = MakeSampleKv();
  // Heads in another order, in one layer.
  SampleKv heads = a;
  std::ranges::swap_ranges(heads.Head(1, KvPart::kK, 0), heads.Head(1, KvPart::kK, 1));
  EXPECT_EQ(KindOf(a, heads), Damage::kEqualsOther);
  EXPECT_EQ(FindDamage(a, heads)->says,
            "B's K of layer 1, KV head 0 is A's K of layer 1, KV head 1");
  // K and V for each other, everywhere.
  SampleKv parts = a;
  for (const uint64_t layer : {0, 1, 2}) {
    for (const uint64_t head : {0, 1}) {
      std::ranges::swap_ranges(parts.Head(layer, KvPart::kK, head),
                               parts.Head(layer, KvPart::kV, head));
    }
  }
  EXPECT_EQ(KindOf(a, parts), Damage::kEqualsOther);
  // Two blocks of four tokens, in all layers.
  SampleKv blocks = a;
  blocks.ForEach([&](const KvAt& at) {
    const uint64_t block = at.token / 4;
    if (block != 1 && block != 7) return;
    KvAt other = at;
    other.token = (block == 1 ? 28 : 4) + at.token % 4;
    std::ranges::copy(a.Element(other), blocks.Element(at).begin());
  });
  EXPECT_EQ(KindOf(a, blocks), Damage::kEqualsOther);
  EXPECT_NE(
      FindDamage(a, blocks)->says.find("from token 4 on is A's K of layer 0 from token 28 on"),
      std::string::npos)
      << FindDamage(a, blocks)->says;
  // All but one of them.
  blocks.Element({0, KvPart::kK, 0, 5, 0})[0] ^= std::byte{1};
  EXPECT_EQ(KindOf(a, blocks), std::nullopt);
}

TEST(KvDamage, Shifted) {
  SampleKv a = MakeSampleKv();
  for (const int bytes : {3, 16, 32, -3, -16}) {
    SampleKv b = a;
    for (uint64_t layer = 0; layer < 3; ++layer) {
      for (const KvPart part : {KvPart::kK, KvPart::kV}) {
        for (const uint64_t head : {0, 1}) {
          const MutableBytes rows = b.Head(layer, part, head);
          const MutableBytes from = a.Head(layer, part, head);
          for (size_t i = 0; i < rows.size(); ++i) {
            rows[i] =
                from[(i + rows.size() - static_cast<size_t>(bytes + 100) + 100) % rows.size()];
          }
        }
      }
    }
    EXPECT_EQ(KindOf(a, b), Damage::kShifted) << bytes;
    const auto damage = FindDamage(a, b);
    EXPECT_NE(damage->says.find(bytes > 0 ? "late" : "early"), std::string::npos) << damage->says;
    if (bytes == 32) EXPECT_NE(damage->says.find("(2 tokens)"), std::string::npos);
    b.Element({1, KvPart::kK, 0, 30, 0})[0] ^= std::byte{1};
    EXPECT_EQ(KindOf(a, b), std::nullopt) << bytes;
  }
}

}  // namespace
}  // namespace kvbed
