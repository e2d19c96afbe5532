#include "verify/store_check.h"

#include <fmt/format.h>

#include "tests/offload/scripted_store.h"
#include "tests/verify/stored_snapshots.h"

namespace kvbed {
namespace {

class StoreCheckTest : public StoredSnapshots {
 protected:
  StoreCheck Found(const std::string& snapshot = "") const {
    const auto store = Open();
    auto check = CheckStore(*store, {.snapshot = snapshot});
    EXPECT_OK(check);
    return check.ok() ? std::move(*check) : StoreCheck{};
  }
  // The states of a, b and wide.
  static std::string States(const StoreCheck& check) {
    std::string text;
    for (const CheckedSnapshot& one : check.snapshots) {
      text += fmt::format("{} {}; ", one.summary.name, SnapshotStateName(one.state));
    }
    return text;
  }
  // What a store that checks its files finds in place of `check`.
  static Check OrItsOwn(Check check) { return GetParam().own_check ? Check::kStore : check; }
};

constexpr const char* kAllWhole = "a whole; b whole; wide whole; ";

TEST_P(StoreCheckTest, AWholeStoreIsWholeAndNothingOfItChanges) {
  const auto before = ImageOf(folder_);
  const StoreCheck check = Found();
  EXPECT_EQ(States(check), kAllWhole);
  EXPECT_TRUE(check.findings.empty());
  EXPECT_FALSE(check.damaged());
  EXPECT_TRUE(check.all_read());
  // Three and two of the sequence, two of them shared, and two wide ones.
  EXPECT_EQ(check.records, 5u + 2u);
  EXPECT_EQ(check.read_bytes, 5 * 8192u + 2 * 28'672u);
  EXPECT_TRUE(check.leftovers.named().empty()) << check.leftovers.named().front().path;
  EXPECT_TRUE(ImageOf(folder_) == before);
}

TEST_P(StoreCheckTest, AFlippedBitAnywhereInARecordIsFoundInEverySnapshotThatNamesIt) {
  for (const auto& [offset, check] :
       {std::pair{0, Check::kMagic}, std::pair{20, Check::kHeaderChecksum},
        std::pair{4096 + 100, Check::kPayload}, std::pair{8191, Check::kPadding}}) {
    FlipInRecord("a", 1, static_cast<uint64_t>(offset));
    const auto before = ImageOf(folder_);
    const StoreCheck found = Found();
    EXPECT_TRUE(ImageOf(folder_) == before);
    EXPECT_EQ(States(found), "a damaged; b damaged; wide whole; ") << offset;
    ASSERT_EQ(found.findings.size(), 1u);
    const Finding& finding = found.findings[0].finding;
    EXPECT_EQ(finding.check, OrItsOwn(check)) << CheckName(finding.check);
    EXPECT_EQ(finding.id.key.block_index, 1u);
    EXPECT_EQ(finding.first_token, 16u);
    EXPECT_EQ(finding.reread, Reread::kSame);
    EXPECT_NE(finding.place.find(folder_), std::string::npos) << finding.place;
    EXPECT_EQ(found.findings[0].snapshots, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(found.damaged_records, 1u);
    EXPECT_TRUE(found.snapshots[0].lost && found.snapshots[1].lost && !found.snapshots[2].lost);
    FlipInRecord("a", 1, static_cast<uint64_t>(offset));
    EXPECT_EQ(States(Found()), kAllWhole);
  }
}

TEST_P(StoreCheckTest, OneSnapshotIsCheckedAlone) {
  FlipInRecord("a", 2, 4096);  // the tail that only a has
  EXPECT_EQ(States(Found("a")), "a damaged; ");
  const StoreCheck other = Found("b");
  EXPECT_EQ(States(other), "b whole; ");
  EXPECT_EQ(other.records, 4u);
  const auto store = Open();
  EXPECT_TRUE(
      FailsWith(StatusOf(CheckStore(*store, {.snapshot = "c"})), StatusCode::kNotFound, "c"));
}

TEST_P(StoreCheckTest, SwappedRecordsAreNamedForWhatTheyAre) {
  const RecordLocation first = Where("a", 0), second = Where("a", 1);
  const std::string bytes = BytesOf("a", 0), others = BytesOf("a", 1);
  WriteAt(first.path, first.offset, others);
  WriteAt(second.path, second.offset, bytes);
  const StoreCheck found = Found();
  ASSERT_EQ(found.findings.size(), 2u);
  for (const RecordFinding& one : found.findings) {
    EXPECT_EQ(one.finding.check, OrItsOwn(Check::kKey));
    if (!GetParam().own_check) EXPECT_EQ(one.finding.damage, Damage::kEqualsOther);
  }
}

TEST_P(StoreCheckTest, AFileThatIsCutOrGoneIsShortOrMissing) {
  const RecordLocation place = Where("wide", 1);
  const std::string away = dir_ / "away";
  std::filesystem::copy_file(place.path, away);
  std::filesystem::resize_file(place.path, place.offset + 5000);
  StoreCheck found = Found("wide");
  EXPECT_EQ(States(found), "wide damaged; ");
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings.back().finding.check, OrItsOwn(Check::kShort));
  std::filesystem::remove(place.path);
  found = Found("wide");
  EXPECT_EQ(States(found), "wide damaged; ");
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings.back().finding.check, Check::kMissing);
  EXPECT_GE(found.missing_records, 1u);
  EXPECT_EQ(found.damaged_records, 0u);
  EXPECT_TRUE(found.snapshots[0].lost);
  std::filesystem::copy_file(away, place.path);
  EXPECT_EQ(States(Found()), kAllWhole);
}

TEST_P(StoreCheckTest, ADamagedManifestIsDamageAndANewerVersionsIsNot) {
  if (!GetParam().manifests_are_files) return;  // RocksDB checks its own blocks
  Flip(ManifestFile("a"), 70);
  StoreCheck found = Found();
  EXPECT_EQ(States(found), "a damaged; b whole; wide whole; ");
  EXPECT_TRUE(found.snapshots[0].lost);
  Flip(ManifestFile("a"), 70);
  Flip(ManifestFile("a"), 8);
  found = Found();
  EXPECT_EQ(States(found), "a newer; b whole; wide whole; ");
  EXPECT_FALSE(found.snapshots[0].lost || found.damaged() || found.all_read());
  Flip(ManifestFile("a"), 8);
  std::filesystem::resize_file(ManifestFile("a"), 0);
  EXPECT_EQ(States(Found()), "a damaged; b whole; wide whole; ");
}

TEST_P(StoreCheckTest, WhatLiesBesideTheSnapshotsIsNamed) {
  {
    const auto store = Open(StoreAccess::kWrite);
    ASSERT_OK(store->RemoveManifest("wide"));
  }
  std::ofstream(TemporaryPath(folder_ + "/STORE")) << "abc";
  std::ofstream(folder_ + "/notes.txt") << "12345";
  std::filesystem::create_directory(folder_ + "/lost+found");
  const auto before = ImageOf(folder_);
  const StoreCheck found = Found();
  EXPECT_EQ(States(found), "a whole; b whole; ");
  EXPECT_FALSE(found.damaged());
  EXPECT_EQ(found.leftovers.total(LeftoverKind::kTemporary).count, 1u);
  EXPECT_EQ(found.leftovers.total(LeftoverKind::kUnknown).count, 2u);
  // What was removed lies in free slots still; files and blobs went.
  EXPECT_EQ(found.leftovers.total(LeftoverKind::kRecord).count, GetParam().slots ? 2u : 0u);
  for (const Leftover& one : found.leftovers.named()) {
    if (one.kind != LeftoverKind::kRecord) continue;
    EXPECT_EQ(one.id->key.sequence_id, 78u);
    EXPECT_TRUE(one.place_is_free);
    EXPECT_EQ(one.size_bytes, 28'672u);
  }
  EXPECT_TRUE(ImageOf(folder_) == before);
}

INSTANTIATE_TEST_SUITE_P(Kept, StoreCheckTest, testing::ValuesIn(KeptStores()),
                         [](const auto& one) { return std::string(one.param.name); });

// ---- what only a store that obeys the test can do
// ------------------------------------------------

class ScriptedCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    GrowingSequence sequence(PaddedGeometry(), 77);
    sequence.Grow(100);
    sequence.Snapshot(store_, "s");
    store_.in_flight_max = 0;
  }

  ScriptedStore store_;
};

TEST_F(ScriptedCheckTest, ManyRecordsAreInFlightWithinTheMemory) {
  ASSERT_OK(CheckStore(store_, {.iodepth = 2, .memory_bytes = 3 * 8192}));
  EXPECT_EQ(store_.in_flight_max, 3u);
  store_.in_flight_max = 0;
  ASSERT_OK(CheckStore(store_, {.memory_bytes = 1}));
  EXPECT_EQ(store_.in_flight_max, 1u);
  store_.in_flight_max = 0;
  ASSERT_OK(CheckStore(store_, {}));
  EXPECT_EQ(store_.in_flight_max, 7u);
}

TEST_F(ScriptedCheckTest, ARecordThatIsRightWhenReadAgainIsAFindingAndNotLost) {
  bool flipped = false;
  store_.on_complete = [&](StoreRequest& request) {
    if (request.id.key.block_index == 3 && !std::exchange(flipped, true)) {
      request.record[5000] ^= std::byte{4};
    }
  };
  ASSERT_OK_AND_ASSIGN(const StoreCheck check, CheckStore(store_, {}));
  ASSERT_EQ(check.findings.size(), 1u);
  EXPECT_EQ(check.findings[0].finding.reread, Reread::kGood);
  EXPECT_EQ(check.snapshots[0].state, SnapshotState::kDamaged);
  EXPECT_FALSE(check.snapshots[0].lost);
  EXPECT_EQ(check.records, 7u);
}

TEST_F(ScriptedCheckTest, AReadThatFailsIsNoDamage) {
  store_.on_complete = [](StoreRequest& request) {
    if (request.id.key.block_index == 3) request.status = Status::IoError("bad sector");
  };
  ASSERT_OK_AND_ASSIGN(const StoreCheck check, CheckStore(store_, {}));
  EXPECT_EQ(check.snapshots[0].state, SnapshotState::kUnread);
  EXPECT_FALSE(check.damaged() || check.all_read() || check.snapshots[0].lost);
  ASSERT_EQ(check.unread.size(), 1u);
  EXPECT_EQ(check.unread[0].status.message(), "bad sector");
}

TEST_F(ScriptedCheckTest, ARecordThatIsNotCopiedIsPoison) {
  store_.on_complete = [](StoreRequest& request) {
    // The destination as the check left it: the store says ok and brought nothing.
    std::fill_n(request.record.begin(), kPageBytes, kPoisonByte);
  };
  ASSERT_OK_AND_ASSIGN(const StoreCheck check, CheckStore(store_, {}));
  EXPECT_EQ(check.damaged_records, 7u);
  EXPECT_EQ(check.findings[0].finding.check, Check::kPoison);
}

TEST_F(ScriptedCheckTest, ASnapshotThatIsRemovedMeanwhileIsLeftOut) {
  store_.on_complete = [this](StoreRequest& request) {
    store_.manifests.erase("s");
    request.status = Status::NotFound("removed meanwhile");
  };
  ASSERT_OK_AND_ASSIGN(const StoreCheck check, CheckStore(store_, {}));
  EXPECT_TRUE(check.snapshots.empty() && check.findings.empty());
  EXPECT_EQ(check.missing_records, 0u);
}

TEST_F(ScriptedCheckTest, ABrokenChannelAndAStopEndIt) {
  store_.reap_status = Status::IoError("the queue broke");
  EXPECT_TRUE(FailsWith(StatusOf(CheckStore(store_, {})), StatusCode::kIoError, "queue broke"));
  store_.reap_status = Status::Ok();
  uint64_t done = 0, total = 0;
  StoreCheckOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    done = done_bytes;
    total = total_bytes;
  };
  ASSERT_OK(CheckStore(store_, options));
  EXPECT_EQ(done, 7 * 8192u);
  EXPECT_EQ(total, done);
  options.stop = [] { return true; };
  EXPECT_TRUE(FailsWith(StatusOf(CheckStore(store_, options)), StatusCode::kIoError, "stopped"));
}

}  // namespace
}  // namespace kvbed
