// The rules by which bytes moved prove that storage was measured, each with evidence that breaks
// it.
#include "tools/bench/byte_proof.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A direct run whose counters all agree.
ByteEvidence Honest(uint64_t bytes = 2 * kGiB) {
  ByteEvidence evidence;
  evidence.direct = true;
  evidence.app = {bytes, bytes};
  evidence.process = evidence.device = evidence.app;
  evidence.source = CounterSource::kSectors;
  return evidence;
}

TEST(ByteProof, HoldsWhenAllCountersAgree) {
  const ByteVerdict verdict = JudgeBytes(Honest());
  EXPECT_EQ(verdict.read_ratio, 1);
  EXPECT_EQ(verdict.write_ratio, 1);
  EXPECT_FALSE(verdict.other_io);
  EXPECT_TRUE(verdict.failures.empty());
  EXPECT_TRUE(verdict.remarks.empty());
}

TEST(ByteProof, FailsWhenACacheAnswered) {
  ByteEvidence cached = Honest();
  cached.device->read_bytes = cached.app.read_bytes * 97 / 100;
  const ByteVerdict verdict = JudgeBytes(cached);
  ASSERT_EQ(verdict.failures.size(), 1u);
  EXPECT_NE(verdict.failures[0].find("cache"), std::string::npos);
  EXPECT_NEAR(*verdict.worse_ratio, 0.97, 1e-6);

  cached.device->read_bytes = cached.app.read_bytes * 985 / 1000;
  EXPECT_TRUE(JudgeBytes(cached).failures.empty()) << "0.985 is near enough";
}

TEST(ByteProof, FailsWhenWritesDidNotReachTheDevice) {
  ByteEvidence lost = Honest();
  lost.device->written_bytes = 0;
  EXPECT_EQ(JudgeBytes(lost).failures.size(), 1u);
}

TEST(ByteProof, AsksNothingOfBufferedIoButToStayUnpublished) {
  ByteEvidence buffered = Honest();
  buffered.direct = false;
  buffered.device->read_bytes = 0;
  const ByteVerdict verdict = JudgeBytes(buffered);
  EXPECT_TRUE(verdict.failures.empty());
  EXPECT_EQ(verdict.remarks.size(), 1u);
}

TEST(ByteProof, TooManyBytesFailOnlyForAGibibyteThatTheProcessMovedExactly) {
  ByteEvidence more = Honest();
  more.device->read_bytes = more.app.read_bytes * 110 / 100;
  EXPECT_EQ(JudgeBytes(more).failures.size(), 1u);

  ByteEvidence small = Honest(kGiB / 2);
  small.device->read_bytes = small.app.read_bytes * 110 / 100;
  EXPECT_TRUE(JudgeBytes(small).failures.empty());
  EXPECT_TRUE(JudgeBytes(small).other_io);

  ByteEvidence inexact = more;
  inexact.process->read_bytes = inexact.app.read_bytes * 110 / 100;
  EXPECT_TRUE(JudgeBytes(inexact).failures.empty());
  EXPECT_TRUE(JudgeBytes(inexact).other_io);

  ByteEvidence unknown = more;
  unknown.process.reset();
  EXPECT_TRUE(JudgeBytes(unknown).failures.empty());
}

TEST(ByteProof, AMirrorMayWriteTwice) {
  ByteEvidence mirror = Honest();
  mirror.redundancy = "md raid1";
  mirror.device->written_bytes *= 2;
  const ByteVerdict verdict = JudgeBytes(mirror);
  EXPECT_TRUE(verdict.failures.empty());
  EXPECT_FALSE(verdict.other_io);
  EXPECT_EQ(verdict.write_ratio, 2);
  EXPECT_EQ(verdict.worse_ratio, 2) << "the one that is farther from 1";
  mirror.redundancy.clear();
  EXPECT_EQ(JudgeBytes(mirror).failures.size(), 1u);
}

TEST(ByteProof, NoCountersAreNeverOk) {
  ByteEvidence blind = Honest();
  blind.device.reset();
  blind.source = CounterSource::kUnavailable;
  blind.source_reason = "tmpfs";
  const ByteVerdict verdict = JudgeBytes(blind);
  EXPECT_TRUE(verdict.failures.empty());
  EXPECT_EQ(verdict.worse_ratio, std::nullopt);
  ASSERT_EQ(verdict.remarks.size(), 1u);
  EXPECT_NE(verdict.remarks[0].find("tmpfs"), std::string::npos);
}

TEST(ByteProof, ANeighboursBytesDontHideThatThisProcessMovedNone) {
  ByteEvidence idle = Honest();
  idle.process->read_bytes = 0;
  EXPECT_TRUE(JudgeBytes(idle).failures.empty()) << "its counters may be of other bytes";
  idle.process_counts = true;
  ASSERT_EQ(JudgeBytes(idle).failures.size(), 1u);
  EXPECT_NE(JudgeBytes(idle).failures[0].find("the process read 0"), std::string::npos);
  idle.device->read_bytes = 0;
  EXPECT_EQ(JudgeBytes(idle).failures.size(), 1u) << "one reason for one cause";
  idle.process.reset();
  idle.device = idle.app;
  EXPECT_TRUE(JudgeBytes(idle).failures.empty()) << "/proc/self/io can't be read";
}

TEST(ByteProof, NfsThatTheClientsPageCacheTookPartInIsNotDirect) {
  ByteEvidence nfs = Honest();
  nfs.source = CounterSource::kMountStats;
  nfs.past_cache = nfs.app;
  EXPECT_TRUE(JudgeBytes(nfs).failures.empty());
  // The server read ahead what the cache then answered.
  nfs.past_cache->read_bytes = 0;
  ASSERT_EQ(JudgeBytes(nfs).failures.size(), 1u);
  EXPECT_NE(JudgeBytes(nfs).failures[0].find("page cache"), std::string::npos);
  nfs.direct = false;
  EXPECT_TRUE(JudgeBytes(nfs).failures.empty());
}

TEST(ByteProof, MemoryIsNeverADisk) {
  ByteEvidence zram = Honest();
  zram.memory = "zram0";
  ASSERT_EQ(JudgeBytes(zram).remarks.size(), 1u);
  EXPECT_EQ(JudgeBytes(zram).remarks[0], "zram0 is memory and not a disk");

  ByteEvidence tmpfs = Honest();
  tmpfs.memory = "tmpfs";
  tmpfs.device.reset();
  tmpfs.source = CounterSource::kUnavailable;
  EXPECT_EQ(JudgeBytes(tmpfs).remarks.size(), 1u);
  EXPECT_TRUE(JudgeBytes(tmpfs).failures.empty());
}

TEST(ByteProof, WeakCountersAreRemarked) {
  ByteEvidence weak = Honest();
  weak.weakness = "the cache's too";
  ASSERT_EQ(JudgeBytes(weak).remarks.size(), 1u);
  EXPECT_NE(JudgeBytes(weak).remarks[0].find("the cache's too"), std::string::npos);
}

TEST(ByteProof, WithoutCountersThereIsNoDeviceToCount) {
  const ByteEvidence nothing = EvidenceBy(DeviceCounters());
  EXPECT_EQ(nothing.source, CounterSource::kUnavailable);
  EXPECT_EQ(nothing.device, std::nullopt);
  EXPECT_FALSE(nothing.process_counts);
}

TEST(ByteProof, WhatWasNotAskedForHasNoRatio) {
  ByteEvidence reads_only = Honest();
  reads_only.app.written_bytes = 0;
  const ByteVerdict verdict = JudgeBytes(reads_only);
  EXPECT_EQ(verdict.write_ratio, std::nullopt);
  EXPECT_EQ(verdict.read_ratio, 1);
}

}  // namespace
}  // namespace kvbed
