#include "offload/offloader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/offload/sample_records.h"
#include "tests/offload/scripted_store.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

using Op = StoreRequest::Op;

constexpr uint32_t kIoDepth = 3;
const ModelDigests kModel = {Xxh3_128(AsBytes("w")), Xxh3_128(AsBytes("c")),
                             Xxh3_128(AsBytes("t"))};
const SequenceIdentity kIdentity = {kModel.Fingerprint(), 5, 77};

// A sequence with blocks of 5 tokens whose K and V are seeded by position, and a store.
class OffloaderTest : public testing::Test {
 protected:
  OffloaderTest()
      : pool_(BlockPool::Create(TinyGeometry(), 12).value()),
        sequence_(std::in_place, *pool_, kIdentity) {
    channel_.emplace(store_.OpenChannel({.iodepth = kIoDepth, .memory = {}}).value());
  }

  // What the engine does: rows of K and V for `tokens` more positions, anything but zero.
  void Grow(Sequence& sequence, uint64_t tokens) {
    const KvGeometry g = TinyGeometry();
    ASSERT_OK(sequence.Reserve(sequence.cached_tokens() + tokens));
    const uint64_t row_bytes = g.head_dim * g.element_bytes();
    for (uint64_t i = 0; i < tokens; ++i) {
      const uint64_t position = sequence.cached_tokens();
      const MutableBytes payload = sequence.payload(position / g.block_tokens);
      for (uint64_t head = 0; head < g.payload_bytes(); head += g.head_bytes()) {
        const MutableBytes row =
            payload.subspan(head + position % g.block_tokens * row_bytes, row_bytes);
        std::mt19937_64 random(position * 1000 + head);
        for (std::byte& b : row) b = static_cast<std::byte>(1 + random() % 255);
      }
      sequence.Advance(1);
    }
  }

  Manifest ManifestFor(const std::string& name, const Sequence& sequence) {
    Manifest manifest;
    manifest.name = name;
    manifest.model = kModel;
    manifest.token_ids.resize(sequence.cached_tokens() + 1);
    return manifest;
  }
  Result<OffloadReport> TrySnapshot(const std::string& name, const OffloadOptions& options = {}) {
    Manifest manifest = ManifestFor(name, *sequence_);
    return Offload(store_, *channel_, *sequence_, manifest, options);
  }
  OffloadReport Snapshot(const std::string& name, const OffloadOptions& options = {}) {
    auto report = TrySnapshot(name, options);
    EXPECT_OK(report);
    return report.ok() ? *report : OffloadReport{};
  }
  // Drops the live sequence, poisons the pool and restores into a new one.
  RestoreReport DropAndRestore(const std::string& name, const RestoreOptions& options = {}) {
    sequence_.reset();
    pool_->PoisonAll();
    sequence_.emplace(*pool_, kIdentity);
    auto report = Restore(store_, *channel_, store_.manifests.at(name), *sequence_, options);
    EXPECT_OK(report);
    return report.ok() ? *report : RestoreReport{};
  }
  std::vector<std::byte> Kv() {
    std::vector<std::byte> bytes;
    for (uint64_t block = 0; block < sequence_->blocks(); ++block) {
      const MutableBytes payload = sequence_->payload(block);
      bytes.insert(bytes.end(), payload.begin(), payload.end());
    }
    return bytes;
  }
  std::vector<std::byte>& Stored(const std::string& name, size_t block) {
    return store_.records.at(store_.manifests.at(name).blocks[block].id);
  }

  ScriptedStore store_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<Sequence> sequence_;
  std::optional<StoreChannel> channel_;
};

// ---- offload -----------------------------------------------------------------------------------

TEST_F(OffloaderTest, ASnapshotHoldsEveryBlockSealed) {
  Grow(*sequence_, 18);
  const OffloadReport report = Snapshot("s1", {.keep_latencies = true});
  EXPECT_EQ(report.blocks, 4u);
  EXPECT_EQ(report.blocks_written, 4u);
  EXPECT_EQ(report.kv_bytes, 18u * 64);
  EXPECT_EQ(report.stored_bytes, 4u * 8192);
  EXPECT_EQ(report.written_bytes, 4u * 8192);
  EXPECT_EQ(report.latencies_ns.size(), 4u);
  EXPECT_LE(report.d0_ns, report.d1_ns);
  EXPECT_LE(report.d1_ns, report.d2_ns);
  const Manifest& manifest = store_.manifests.at("s1");
  EXPECT_EQ(manifest.cached_tokens, 18u);
  EXPECT_EQ(manifest.store_uuid, store_.uuid);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(
        VerifyRecord(Stored("s1", i), manifest.ExpectedHeader(i), manifest.blocks[i].digest));
  }
}

TEST_F(OffloaderTest, TheNextSnapshotWritesOnlyWhatChanged) {
  Grow(*sequence_, 18);  // 5 5 5 3
  Snapshot("s1");
  Grow(*sequence_, 4);  // 5 5 5 5 2
  const OffloadReport report = Snapshot("s2");
  EXPECT_EQ(report.blocks, 5u);
  EXPECT_EQ(report.blocks_written, 2u);
  EXPECT_EQ(report.written_bytes, 2u * 8192);
  const auto& s1 = store_.manifests.at("s1").blocks;
  const auto& s2 = store_.manifests.at("s2").blocks;
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(s1[i], s2[i]) << i;
  EXPECT_EQ(s2[3].id.key, s1[3].id.key);
  EXPECT_GT(s2[3].id.generation, s1[3].id.generation);
  const OffloadReport again = Snapshot("s3");
  EXPECT_EQ(again.blocks_written, 0u);
}

TEST_F(OffloaderTest, BothSnapshotsOfAGrownSequenceRestore) {
  Grow(*sequence_, 18);
  const auto kv1 = Kv();
  Snapshot("s1");
  Grow(*sequence_, 4);
  const auto kv2 = Kv();
  Snapshot("s2");
  EXPECT_TRUE(DropAndRestore("s1").whole());
  EXPECT_EQ(Kv(), kv1);
  EXPECT_TRUE(DropAndRestore("s2").whole());
  EXPECT_EQ(Kv(), kv2);
}

TEST_F(OffloaderTest, ARestoredSequenceGrowsIncrementallyToo) {
  Grow(*sequence_, 18);
  Snapshot("s1");
  DropAndRestore("s1");
  EXPECT_EQ(Snapshot("same").blocks_written, 0u);
  Grow(*sequence_, 1);
  EXPECT_EQ(Snapshot("s2").blocks_written, 1u);
  EXPECT_TRUE(DropAndRestore("s2").whole());
}

TEST_F(OffloaderTest, WhatLiesInAnotherStoreIsWrittenToThisOne) {
  Grow(*sequence_, 10);
  Snapshot("s1");
  store_.uuid = Xxh3_128(AsBytes("another"));
  EXPECT_EQ(Snapshot("s2").blocks_written, 2u);
}

TEST_F(OffloaderTest, AtMostIodepthRecordsAreInFlight) {
  Grow(*sequence_, 50);
  Snapshot("s1");
  EXPECT_EQ(store_.in_flight_max, kIoDepth);
  DropAndRestore("s1");
  EXPECT_EQ(store_.in_flight_max, kIoDepth);
}

TEST_F(OffloaderTest, AFailedRecordIsNotCommittedAndWhatWasPutIsDiscarded) {
  Grow(*sequence_, 40);
  store_.on_complete = [](StoreRequest& request) {
    if (request.id.key.block_index == 2) request.status = Status::OutOfSpace("disk is full");
  };
  EXPECT_TRUE(FailsWith(TrySnapshot("s1").status(), StatusCode::kOutOfSpace,
                        "snapshot s1 is not committed: write block 2: disk is full"));
  EXPECT_TRUE(store_.manifests.empty());
  EXPECT_TRUE(store_.records.empty());
  EXPECT_FALSE(store_.discarded.empty());
  EXPECT_EQ(channel_->outstanding(), 0u);
  // It works again afterwards, and with other ids.
  const std::set<RecordId> failed(store_.discarded.begin(), store_.discarded.end());
  store_.on_complete = nullptr;
  EXPECT_EQ(Snapshot("s1").blocks_written, 8u);
  for (const auto& [id, bytes] : store_.records) EXPECT_FALSE(failed.contains(id));
}

TEST_F(OffloaderTest, AFailureDiscardsOnlyWhatThisSnapshotPut) {
  Grow(*sequence_, 18);
  const auto kv = Kv();
  Snapshot("s1");
  Grow(*sequence_, 4);
  store_.commit_status = Status::IoError("commit");
  EXPECT_TRUE(FailsWith(TrySnapshot("s2").status(), StatusCode::kIoError, "not committed"));
  EXPECT_EQ(store_.discarded.size(), 2u);
  EXPECT_EQ(store_.records.size(), 4u);
  EXPECT_TRUE(DropAndRestore("s1").whole());
  EXPECT_EQ(Kv(), kv);
}

TEST_F(OffloaderTest, AFailedFlushFailsTheSnapshotAndAllLaterOnes) {
  Grow(*sequence_, 10);
  store_.flush_status = Status::IoError("fdatasync");
  EXPECT_TRUE(FailsWith(TrySnapshot("s1").status(), StatusCode::kIoError, "fdatasync"));
  store_.flush_status = Status::Ok();  // the disk says that it is well again
  EXPECT_TRUE(FailsWith(TrySnapshot("s1").status(), StatusCode::kIoError, "reopen the store"));
  EXPECT_TRUE(store_.manifests.empty());
}

TEST_F(OffloaderTest, AnExistingNameIsAnErrorUnlessReplaced) {
  Grow(*sequence_, 7);
  Snapshot("s1");
  Grow(*sequence_, 1);
  EXPECT_TRUE(FailsWith(TrySnapshot("s1").status(), StatusCode::kInvalidArgument, "exists"));
  EXPECT_EQ(store_.manifests.at("s1").cached_tokens, 7u);
  EXPECT_EQ(Snapshot("s1", {.mode = CommitMode::kReplace}).blocks_written, 1u);
  EXPECT_EQ(store_.manifests.at("s1").cached_tokens, 8u);
}

TEST_F(OffloaderTest, ABrokenChannelEndsTheSnapshotAndTheRestore) {
  Grow(*sequence_, 40);
  Snapshot("s1");
  Grow(*sequence_, 20);
  store_.reap_status = Status::IoError("the ring is gone");
  EXPECT_TRUE(FailsWith(TrySnapshot("s2").status(), StatusCode::kIoError, "the ring is gone"));
  EXPECT_EQ(channel_->outstanding(), 0u);
  sequence_.reset();
  sequence_.emplace(*pool_, kIdentity);
  const auto report = Restore(store_, *channel_, store_.manifests.at("s1"), *sequence_, {});
  EXPECT_TRUE(FailsWith(report.status(), StatusCode::kIoError, "the ring is gone"));
  EXPECT_EQ(pool_->free_records(), 12u);
}

TEST_F(OffloaderTest, AnEmptySequenceIsASnapshotOfNothing) {
  EXPECT_EQ(Snapshot("s0").blocks, 0u);
  EXPECT_TRUE(DropAndRestore("s0").whole());
  EXPECT_EQ(sequence_->cached_tokens(), 0u);
}

// ---- restore -----------------------------------------------------------------------------------

TEST_F(OffloaderTest, ARestoreGivesTheSameBytesAndCountsThem) {
  Grow(*sequence_, 33);
  const auto kv = Kv();
  Snapshot("s1");
  const RestoreReport report = DropAndRestore("s1", {.keep_latencies = true});
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(Kv(), kv);
  EXPECT_EQ(sequence_->cached_tokens(), 33u);
  EXPECT_EQ(report.blocks, 7u);
  EXPECT_EQ(report.blocks_restored, 7u);
  EXPECT_EQ(report.kv_bytes, 33u * 64);
  EXPECT_EQ(report.stored_bytes, 7u * 8192);
  EXPECT_EQ(report.latencies_ns.size(), 7u);
}

TEST_F(OffloaderTest, TheQueueIsRefilledBeforeLandedRecordsAreVerified) {
  Grow(*sequence_, 60);
  Snapshot("s1");
  store_.in_flight_at_reap.clear();
  DropAndRestore("s1");
  // Full at each reap until the last records are under way.
  const auto& in_flight = store_.in_flight_at_reap;
  ASSERT_GE(in_flight.size(), 4u);
  for (size_t i = 0; i + 3 < in_flight.size(); ++i) EXPECT_EQ(in_flight[i], kIoDepth) << i;
}

TEST_F(OffloaderTest, TheTimesFitEachOther) {
  Grow(*sequence_, 60);
  Snapshot("s1");
  for (int round = 0; round < 40; ++round) {
    // An engine that reads inline reads nothing while a record is verified.
    store_.asynchronous = round % 2 == 0;
    const RestoreReport report = DropAndRestore("s1");
    EXPECT_GT(report.verify_ns, 0u);
    EXPECT_GT(report.read_ns, 0u);
    if (store_.asynchronous) {
      EXPECT_GT(report.overlap_ns, 0u);
    } else {
      EXPECT_EQ(report.overlap_ns, 0u);
    }
    EXPECT_LE(report.overlap_ns, report.verify_ns);
    EXPECT_LE(report.overlap_ns, report.read_ns);
    EXPECT_LE(report.read_ns + report.verify_ns - report.overlap_ns, report.wall_ns);
    EXPECT_LE(report.first_done_ns, report.wall_ns);
  }
}

TEST_F(OffloaderTest, FindingsComeInTokenOrderAndThePrefixIsDelivered) {
  Grow(*sequence_, 40);
  const auto kv = Kv();
  Snapshot("s1");
  for (size_t block : {6, 3, 5}) Stored("s1", block)[4096 + block] ^= std::byte{1};
  const RestoreReport report = DropAndRestore("s1");
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(report.findings[0].first_token, 15u);
  EXPECT_EQ(report.findings[1].first_token, 25u);
  EXPECT_EQ(report.findings[2].first_token, 30u);
  EXPECT_FALSE(report.whole());
  EXPECT_EQ(report.blocks_restored, 3u);
  EXPECT_EQ(sequence_->cached_tokens(), 15u);
  EXPECT_EQ(Kv(), std::vector(kv.begin(), kv.begin() + 3 * 320));
  EXPECT_EQ(pool_->free_records(), 12u - 3);
  EXPECT_EQ(report.findings[0].place.substr(0, 12), "scripted at ");
}

TEST_F(OffloaderTest, AFindingIsExplainedAndReadOnceMore) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  Stored("s1", 1)[4096] ^= std::byte{0x40};
  const Finding finding = DropAndRestore("s1").findings.at(0);
  EXPECT_EQ(finding.check, Check::kPayload);
  EXPECT_EQ(finding.damage, Damage::kBit);
  EXPECT_EQ(finding.token, 5u);
  EXPECT_EQ(finding.reread, Reread::kSame);
}

// Nothing is repaired, hidden or removed by reading it.
TEST_F(OffloaderTest, ABadRecordIsFoundAgainEachTimeAndIsLeftAsItIs) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  Stored("s1", 2)[5000] ^= std::byte{1};
  const auto records = store_.records;
  for (int round = 0; round < 3; ++round) {
    const RestoreReport report = DropAndRestore("s1");
    ASSERT_EQ(report.findings.size(), 1u) << round;
    EXPECT_EQ(report.findings[0].id, store_.manifests.at("s1").blocks[2].id);
    EXPECT_EQ(report.blocks_restored, 2u);
  }
  EXPECT_EQ(store_.records, records);
  EXPECT_TRUE(store_.discarded.empty());
}

TEST_F(OffloaderTest, AReadThatWentWrongOnceIsToldFromABadRecord) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  int reads = 0;
  const auto reread_when = [&](std::function<void(StoreRequest&, int)> damage) {
    reads = 0;
    store_.on_complete = [&, damage](StoreRequest& request) {
      if (request.op == Op::kGet && request.id.key.block_index == 1) damage(request, ++reads);
    };
    return DropAndRestore("s1").findings.at(0).reread;
  };
  EXPECT_EQ(reread_when([](StoreRequest& r, int n) {
              if (n == 1) r.record[4100] ^= std::byte{1};
            }),
            Reread::kGood);
  EXPECT_EQ(reread_when([](StoreRequest& r, int n) {
              r.record[static_cast<size_t>(4100 + n)] ^= std::byte{1};
            }),
            Reread::kDifferent);
  EXPECT_EQ(reread_when([](StoreRequest& r, int n) {
              r.record[4100] ^= std::byte{1};
              if (n == 2) r.status = Status::IoError("EIO");
            }),
            Reread::kFailed);
  EXPECT_EQ(reread_when([](StoreRequest& r, int) { r.record[4100] ^= std::byte{1}; }),
            Reread::kSame);
}

TEST_F(OffloaderTest, SwappedAndStaleRecordsAreNamed) {
  Grow(*sequence_, 18);
  Snapshot("s1");
  Grow(*sequence_, 1);
  Snapshot("s2");
  Stored("s2", 3) = Stored("s1", 3);
  std::swap(Stored("s2", 0), Stored("s2", 1));
  const auto findings = DropAndRestore("s2").findings;
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].check, Check::kKey);
  EXPECT_EQ(findings[0].other_id->key.block_index, 1u);
  EXPECT_EQ(findings[0].damage, Damage::kEqualsOther);
  EXPECT_EQ(findings[2].check, Check::kGeneration);
  EXPECT_EQ(findings[2].message, "an older state of this block is here");
}

TEST_F(OffloaderTest, AMissingRecordIsAFinding) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  store_.records.erase(store_.manifests.at("s1").blocks[2].id);
  const RestoreReport report = DropAndRestore("s1");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].check, Check::kMissing);
  EXPECT_EQ(report.findings[0].reread, Reread::kSame);
  EXPECT_EQ(report.blocks_restored, 2u);
}

TEST_F(OffloaderTest, AShortRecordIsAFinding) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  store_.on_complete = [](StoreRequest& request) {
    if (request.op == Op::kGet && request.id.key.block_index == 3) {
      request.status = Status::Corruption("the file ends");
      request.short_bytes = 5000;
    }
  };
  const RestoreReport report = DropAndRestore("s1");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].check, Check::kShort);
  EXPECT_EQ(report.findings[0].byte_offset, 5000u);
  EXPECT_EQ(report.findings[0].expected, "8192 bytes");
  EXPECT_EQ(report.findings[0].reread, Reread::kSame);
  EXPECT_EQ(report.blocks_restored, 3u);
}

TEST_F(OffloaderTest, AnIoErrorIsNoFinding) {
  Grow(*sequence_, 20);
  Snapshot("s1");
  store_.on_complete = [](StoreRequest& request) {
    if (request.id.key.block_index >= 1) request.status = Status::IoError("EIO");
  };
  const RestoreReport report = DropAndRestore("s1");
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.failed_reads.size(), 3u);
  EXPECT_EQ(report.failed_reads[0].block, 1u);
  EXPECT_EQ(report.failed_reads[2].block, 3u);
  EXPECT_FALSE(report.whole());
  EXPECT_EQ(sequence_->cached_tokens(), 5u);
}

// The loader that skips the copy: its destination was poisoned, so every block is found out.
TEST_F(OffloaderTest, ASkippedCopyIsFoundInEveryBlock) {
  Grow(*sequence_, 38);
  Snapshot("s1");
  const RestoreReport report = DropAndRestore("s1", {.skip_copy = true});
  ASSERT_EQ(report.findings.size(), 8u);
  for (const Finding& finding : report.findings) EXPECT_EQ(finding.check, Check::kPoison);
  EXPECT_EQ(report.findings[0].reread, Reread::kGood);
  EXPECT_EQ(sequence_->cached_tokens(), 0u);
  EXPECT_EQ(report.read_ns, 0u);
}

TEST_F(OffloaderTest, WithoutVerificationDamageIsServed) {
  Grow(*sequence_, 20);
  const auto kv = Kv();
  Snapshot("s1");
  Stored("s1", 1)[4096] ^= std::byte{1};
  const RestoreReport report = DropAndRestore("s1", {.verify = false});
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.verify_ns, 0u);
  EXPECT_NE(Kv(), kv);
}

TEST_F(OffloaderTest, APoolThatIsTooSmallIsAnErrorAndKeepsNothing) {
  Grow(*sequence_, 40);
  Snapshot("s1");
  const auto small = BlockPool::Create(TinyGeometry(), 7).value();
  Sequence sequence(*small, kIdentity);
  const auto report = Restore(store_, *channel_, store_.manifests.at("s1"), sequence, {});
  EXPECT_TRUE(FailsWith(report.status(), StatusCode::kOutOfSpace, "--pool-bytes"));
  EXPECT_EQ(small->free_records(), 7u);
}

TEST_F(OffloaderTest, ASnapshotOfSomethingElseIsRefused) {
  Grow(*sequence_, 10);
  Snapshot("s1");
  const Manifest& manifest = store_.manifests.at("s1");
  const auto refusal = [&](BlockPool& pool, const SequenceIdentity& identity) {
    Sequence sequence(pool, identity);
    return Restore(store_, *channel_, manifest, sequence, {}).status();
  };
  SequenceIdentity other = kIdentity;
  other.model_fingerprint = Xxh3_128(AsBytes("other"));
  EXPECT_TRUE(FailsWith(refusal(*pool_, other), StatusCode::kInvalidArgument, "another model"));
  other = kIdentity;
  other.rope_identity = 6;
  EXPECT_TRUE(FailsWith(refusal(*pool_, other), StatusCode::kInvalidArgument, "another RoPE"));
  other = kIdentity;
  other.sequence_id = 78;
  EXPECT_TRUE(FailsWith(refusal(*pool_, other), StatusCode::kInvalidArgument, "another sequence"));
  KvGeometry geometry = TinyGeometry();
  geometry.block_tokens = 4;
  const auto pool = BlockPool::Create(geometry, 4).value();
  EXPECT_TRUE(
      FailsWith(refusal(*pool, kIdentity), StatusCode::kInvalidArgument, "blocks of 5 tokens"));
}

}  // namespace
}  // namespace kvbed
