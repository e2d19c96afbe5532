// The benchmark's own readers and writers: the raw one moves the bytes, the null one none.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backends/io.h"
#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/null_io.h"
#include "tools/bench/raw_transfer.h"

namespace kvbed {
namespace {

constexpr uint64_t kBlockBytes = 3 * kPageBytes;
constexpr uint64_t kBlocks = 21;

class RawTransferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(written_, AlignedBuffer::Allocate(kBlockBytes * kBlocks));
    ASSERT_OK_AND_ASSIGN(read_, AlignedBuffer::Allocate(kBlockBytes * kBlocks));
    for (size_t i = 0; i < written_.size_bytes(); ++i) {
      written_.bytes()[i] = static_cast<std::byte>(i / kBlockBytes + i);
    }
    ASSERT_OK_AND_ASSIGN(io_, OpenIo(IoEngine::kAuto));
  }
  RawTransfer Transfer(bool write) const {
    return {.write = write,
            .file = dir_ / "f",
            .direct = false,
            .block_bytes = kBlockBytes,
            .blocks = kBlocks,
            .iodepth = 4};
  }
  bool Equal() const { return std::ranges::equal(written_.bytes(), read_.bytes()); }

  TempDir dir_;
  std::unique_ptr<Io> io_;
  AlignedBuffer written_;
  AlignedBuffer read_;
};

TEST_F(RawTransferTest, ReadsBackWhatItWrote) {
  ASSERT_OK(RunRawTransfer(*io_, Transfer(true), written_.bytes()));
  ASSERT_FALSE(Equal());
  ASSERT_OK_AND_ASSIGN(const uint64_t ns, RunRawTransfer(*io_, Transfer(false), read_.bytes()));
  EXPECT_GT(ns, 0u);
  EXPECT_TRUE(Equal());
}

TEST_F(RawTransferTest, AFewBlocksOfMemoryTakeTurns) {
  const PageStamps stamps(3, 9);
  const MutableBytes few = written_.bytes().first(4 * kBlockBytes);
  for (BlockOrderKind order : {BlockOrderKind::kSequential, BlockOrderKind::kRandom}) {
    RawTransfer transfer = Transfer(true);
    transfer.order = order;
    {
      ASSERT_OK_AND_ASSIGN(const auto channel, RawChannel::Open(*io_, transfer, few));
      ASSERT_OK_AND_ASSIGN(const RawPass pass, channel->Pass({.stamps = &stamps}));
      EXPECT_TRUE(pass.latencies_ns.empty());
    }
    ASSERT_OK(RunRawTransfer(*io_, Transfer(false), read_.bytes()));
    EXPECT_TRUE(stamps.Match(read_.bytes(), 0)) << "each block went to its own place";
    PageStamps::Poison(read_.bytes());
  }
}

TEST_F(RawTransferTest, LatenciesOfManyBlocksAreThinnedOut) {
  ASSERT_OK_AND_ASSIGN(const auto channel,
                       RawChannel::Open(*io_, Transfer(true), written_.bytes()));
  ASSERT_OK_AND_ASSIGN(const RawPass all, channel->Pass({.latencies_most = kBlocks}));
  EXPECT_EQ(all.latencies_ns.size(), kBlocks);
  ASSERT_OK_AND_ASSIGN(const RawPass some, channel->Pass({.latencies_most = 10}));
  EXPECT_EQ(some.latencies_ns.size(), 7u) << "every third of 21";
  EXPECT_EQ(channel->HeldBlocks().size(), 4u);
}

TEST_F(RawTransferTest, AFileThatIsTooShortIsAnErrorAndNoRate) {
  RawTransfer half = Transfer(true);
  half.blocks = kBlocks / 2;
  ASSERT_OK(RunRawTransfer(*io_, half, written_.bytes()));
  EXPECT_FALSE(RunRawTransfer(*io_, Transfer(false), read_.bytes()).ok());
  EXPECT_FALSE(RunRawTransfer(*io_, {.file = dir_ / "absent", .blocks = 1}, read_.bytes()).ok());
}

TEST_F(RawTransferTest, OverTheNullIoNothingMoves) {
  ASSERT_OK(RunRawTransfer(*io_, Transfer(true), written_.bytes()));
  ASSERT_OK_AND_ASSIGN(auto base, OpenIo(IoEngine::kPsync));
  const auto null = MakeNullIo(std::move(base));
  ASSERT_OK(RunRawTransfer(*null, Transfer(false), read_.bytes()));
  EXPECT_TRUE(AllZero(read_.bytes()));
}

TEST_F(RawTransferTest, TheNullIoKeepsItsSmallFiles) {
  ASSERT_OK_AND_ASSIGN(auto base, OpenIo(IoEngine::kPsync));
  const auto null = MakeNullIo(std::move(base));
  ASSERT_OK(PublishFile(*null, dir_ / "manifest", AsBytes("text"), RenameMode::kNoReplace));
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(*null, dir_ / "manifest", 100));
  EXPECT_EQ(text, "text");
}

}  // namespace
}  // namespace kvbed
