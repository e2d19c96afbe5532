// The STORE file's bytes.
#include "backends/store_identity.h"

#include <gtest/gtest.h>

#include <random>

#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(StoreIdentityTest, ItComesBackAndItsOffsetsAreTheFormats) {
  const StoreIdentity identity = NewStoreIdentity("slab");
  const std::string page = EncodeStoreIdentity(identity);
  ASSERT_EQ(page.size(), kPageBytes);
  EXPECT_EQ(page.substr(0, 8), "KVBEDSTO");
  EXPECT_EQ(LoadLe<uint32_t>(AsBytes(page), 8), 1u);
  EXPECT_EQ(page.substr(16, 5), std::string("slab\0", 5));
  EXPECT_EQ(page.substr(32, 16), AsText(identity.uuid.bytes));
  ASSERT_OK_AND_ASSIGN(const StoreIdentity decoded, DecodeStoreIdentity(AsBytes(page)));
  EXPECT_EQ(decoded, identity);
  EXPECT_NE(NewStoreIdentity("slab").uuid, identity.uuid);
}

TEST(StoreIdentityTest, AnUnknownVersionOrFlagIsNotSupported) {
  std::string page = EncodeStoreIdentity(NewStoreIdentity("slab"));
  const MutableBytes bytes{reinterpret_cast<std::byte*>(page.data()), page.size()};
  StoreLe<uint32_t>(bytes, 12, 1);
  StoreLe<uint64_t>(bytes, 48, Xxh3_64(bytes.first(48)));
  EXPECT_TRUE(FailsWith(StatusOf(DecodeStoreIdentity(bytes)), StatusCode::kNotSupported, "flags"));
  StoreLe<uint32_t>(bytes, 8, 2);
  EXPECT_TRUE(
      FailsWith(StatusOf(DecodeStoreIdentity(bytes)), StatusCode::kNotSupported, "version 2"));
}

TEST(StoreIdentityTest, EveryChangedByteIsNoticed) {
  const std::string page = EncodeStoreIdentity(NewStoreIdentity("slab"));
  std::mt19937_64 random(7);
  for (size_t at = 0; at < page.size(); ++at) {
    std::string damaged = page;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    EXPECT_FALSE(DecodeStoreIdentity(AsBytes(damaged)).ok()) << at;
  }
  for (size_t size : {size_t{0}, size_t{7}, page.size() - 1}) {
    EXPECT_TRUE(FailsWith(StatusOf(DecodeStoreIdentity(AsBytes(page.substr(0, size)))),
                          StatusCode::kCorruption, "4096 bytes"));
  }
  EXPECT_FALSE(DecodeStoreIdentity(AsBytes(page + "x")).ok());
}

}  // namespace
}  // namespace kvbed
