#include "offload/flipped_bit.h"

#include <array>
#include <utility>
#include <vector>

#include "offload/digest.h"

// Hashing anew for each bit would cost 8 n^2 bytes of hashing, seconds for a slice of 64 KiB. XXH3
// of more than 240 bytes has eight accumulators. A flipped bit adds a constant to the two of a
// pair, and from there to the end nothing but these two differ, whose blocks add constants too:
// some ten instructions a KiB for each bit. What finds a bit is then confirmed with the library's
// XXH3.
//
// Names and constants as in the algorithm's specification, "XXH3 algorithm overview":
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md

namespace kvbed {
namespace {

constexpr size_t kStripeBytes = 64;
constexpr size_t kStripesPerBlock = 16;  // for the default secret
constexpr size_t kBlockBytes = kStripeBytes * kStripesPerBlock;
constexpr size_t kShortInputMax = 240;  // up to here XXH3 is another function

constexpr uint64_t kPrime32_1 = 0x9e3779b1, kPrime32_2 = 0x85ebca77, kPrime32_3 = 0xc2b2ae3d;
constexpr uint64_t kPrime64_1 = 0x9e3779b185ebca87, kPrime64_2 = 0xc2b2ae3d27d4eb4f,
                   kPrime64_3 = 0x165667b19e3779f9, kPrime64_4 = 0x85ebca77c2b2ae63,
                   kPrime64_5 = 0x27d4eb2f165667c5;
constexpr uint64_t kPrimeMx1 = 0x165667919e3779f9;

constexpr std::array<uint8_t, 192> kSecret = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};
constexpr size_t kScrambleSecretAt = kSecret.size() - kStripeBytes;
constexpr size_t kLastStripeSecretAt = kSecret.size() - kStripeBytes - 7;
constexpr size_t kMergeSecretAt = 11;

using Accumulators = std::array<uint64_t, 8>;

uint64_t SecretWord(size_t at) { return LoadLe<uint64_t>(std::as_bytes(std::span(kSecret)), at); }

// What a word adds to its own accumulator; its neighbour's gets the word itself.
uint64_t Product(uint64_t word, uint64_t secret) {
  const uint64_t key = word ^ secret;
  return (key & 0xffffffff) * (key >> 32);
}

void Accumulate(Accumulators& acc, Bytes stripe, size_t secret_at) {
  for (size_t i = 0; i < 8; ++i) {
    const auto word = LoadLe<uint64_t>(stripe, i * 8);
    acc[i ^ 1] += word;
    acc[i] += Product(word, SecretWord(secret_at + i * 8));
  }
}

uint64_t Scrambled(uint64_t acc, uint64_t secret) {
  return ((acc ^ (acc >> 47)) ^ secret) * kPrime32_1;
}

uint64_t MultiplyFold(uint64_t a, uint64_t b) {
  __extension__ using Product128 = unsigned __int128;
  const Product128 product = static_cast<Product128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// What the accumulators of pair `pair` add to the sum before the avalanche.
uint64_t PairSum(size_t pair, uint64_t even, uint64_t odd) {
  const size_t secret_at = kMergeSecretAt + pair * 16;
  return MultiplyFold(even ^ SecretWord(secret_at), odd ^ SecretWord(secret_at + 8));
}

uint64_t Avalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 37)) * kPrimeMx1;
  return hash ^ (hash >> 32);
}

// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the right
// bits.
constexpr uint64_t Inverse(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

uint64_t InverseAvalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 32)) * Inverse(kPrimeMx1);
  return hash ^ (hash >> 37);
}

// One hash of more than kShortInputMax bytes, with what is needed to change a bit of it.
class LongHash {
 public:
  explicit LongHash(Bytes bytes) : bytes_(bytes) {
    Accumulators acc = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                        kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
    const size_t stripes = (bytes.size() - 1) / kStripeBytes;
    Accumulators added{};
    for (size_t stripe = 0; stripe < stripes; ++stripe) {
      const size_t in_block = stripe % kStripesPerBlock;
      Accumulate(added, bytes.subspan(stripe * kStripeBytes, kStripeBytes), in_block * 8);
      if (in_block + 1 < kStripesPerBlock) continue;
      Add(acc, added);
      blocks_.push_back({acc, std::exchange(added, {})});
      for (size_t i = 0; i < 8; ++i)
        acc[i] = Scrambled(acc[i], SecretWord(kScrambleSecretAt + i * 8));
    }
    Accumulate(added, bytes.last(kStripeBytes), kLastStripeSecretAt);
    Add(acc, added);
    blocks_.push_back({acc, added});
  }

  uint64_t Digest() const { return Avalanche(Sum()); }

  // Bytes that only one stripe covers; the rest is covered by the last stripe too, or by it alone.
  size_t SearchableBytes() const {
    return (bytes_.size() - kStripeBytes) / kStripeBytes * kStripeBytes;
  }

  std::optional<uint64_t> FindFlippedBit(uint64_t wanted) const {
    const uint64_t wanted_sum = InverseAvalanche(wanted);
    for (size_t at = 0; at < SearchableBytes(); at += 8) {
      const size_t block = at / kBlockBytes, i = at / 8 % 8;
      const Accumulators& end = blocks_.back().at_end;
      const uint64_t wanted_pair = wanted_sum - Sum() + PairSum(i / 2, end[i & 6], end[i | 1]);
      const uint64_t secret = SecretWord(at % kBlockBytes / kStripeBytes * 8 + i * 8);
      const auto word = LoadLe<uint64_t>(bytes_, at);
      for (uint64_t bit = 0; bit < 64; ++bit) {
        const uint64_t flipped = word ^ (uint64_t{1} << bit);
        const uint64_t own = Product(flipped, secret) - Product(word, secret);
        if (PairSumAfter(block, i, own, flipped - word) == wanted_pair) return at * 8 + bit;
      }
    }
    return std::nullopt;
  }

 private:
  struct Block {
    Accumulators at_end;  // before it is scrambled
    Accumulators added;   // by its stripes
  };

  static void Add(Accumulators& acc, const Accumulators& added) {
    for (size_t i = 0; i < 8; ++i) acc[i] += added[i];
  }

  uint64_t Sum() const {
    const Accumulators& end = blocks_.back().at_end;
    uint64_t sum = bytes_.size() * kPrime64_1;
    for (size_t pair = 0; pair < 4; ++pair) sum += PairSum(pair, end[pair * 2], end[pair * 2 + 1]);
    return sum;
  }

  // The pair's part of the sum when accumulator `i` of a block gets `own` more and its neighbour
  // `other` more.
  uint64_t PairSumAfter(size_t block, size_t i, uint64_t own, uint64_t other) const {
    const size_t j = i ^ 1;
    uint64_t a = blocks_[block].at_end[i] + own, b = blocks_[block].at_end[j] + other;
    const uint64_t secret_a = SecretWord(kScrambleSecretAt + i * 8);
    const uint64_t secret_b = SecretWord(kScrambleSecretAt + j * 8);
    for (size_t next = block + 1; next < blocks_.size(); ++next) {
      a = Scrambled(a, secret_a) + blocks_[next].added[i];
      b = Scrambled(b, secret_b) + blocks_[next].added[j];
    }
    return i % 2 == 0 ? PairSum(i / 2, a, b) : PairSum(i / 2, b, a);
  }

  Bytes bytes_;
  std::vector<Block> blocks_;  // the last one is what is behind the whole ones, and the last stripe
};

bool FlipGives(MutableBytes bytes, uint64_t bit, uint64_t wanted) {
  const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
  bytes[bit / 8] ^= mask;
  const bool gives = Xxh3_64(bytes) == wanted;
  bytes[bit / 8] ^= mask;
  return gives;
}

}  // namespace

std::optional<uint64_t> FindFlippedBit(MutableBytes bytes, uint64_t wanted) {
  if (bytes.size() > kFlippedBitBytesMax) return std::nullopt;
  size_t begin = 0;
  if (bytes.size() > kShortInputMax) {
    const LongHash hash(bytes);
    KVBED_CHECK(hash.Digest() == Xxh3_64(bytes));
    const auto bit = hash.FindFlippedBit(wanted);
    if (bit && FlipGives(bytes, *bit, wanted)) return bit;
    begin = hash.SearchableBytes();
  }
  for (uint64_t bit = begin * 8; bit < bytes.size() * 8; ++bit) {
    if (FlipGives(bytes, bit, wanted)) return bit;
  }
  return std::nullopt;
}

}  // namespace kvbed
