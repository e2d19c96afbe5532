// The faulty disk itself: each fault does what its name says, and only that.
#include "backends/faulty_io.h"

#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

constexpr uint64_t kRecord = 8192;
constexpr uint64_t kRecords = 4;

class FaultyIoTest : public ::testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override { KVBED_NEEDS_ENGINE(GetParam()); }

  std::unique_ptr<Io> Plain() { return OpenIo(GetParam()).value(); }

  // A disk that plays `faults`, on which "f" holds four durable records of pattern 1.
  void Play(std::vector<Fault> faults, uint64_t seed = 5) {
    queue_.reset();
    file_ = File();
    io_.reset();
    {
      const auto plain = Plain();
      const File file = plain->Open(path_, {.write = true, .create = true}).value();
      const auto queue = plain->OpenQueue({}).value();
      ASSERT_OK(plain->Truncate(file, 0));
      ASSERT_OK(MoveOne(*queue, Write(file, 0, before_.bytes())).status);
    }
    device_ = std::make_unique<FaultDevice>(FaultPlan{.seed = seed, .faults = std::move(faults)});
    io_ = MakeFaultyIo(Plain(), *device_);
    ASSERT_OK_AND_ASSIGN(file_, io_->Open(path_, {.write = true, .direct = true}));
    ASSERT_OK_AND_ASSIGN(queue_, io_->OpenQueue({}));
  }

  MutableBytes Old(uint64_t record) { return before_.bytes().subspan(record * kRecord, kRecord); }
  MutableBytes New(uint64_t record) { return after_.bytes().subspan(record * kRecord, kRecord); }
  Status WriteNew(uint64_t record) {
    return MoveOne(*queue_, Write(file_, record * kRecord, New(record))).status;
  }
  Status ReadIn(uint64_t record) {
    return MoveOne(*queue_, Read(file_, record * kRecord, in_.bytes())).status;
  }
  Status Sync() { return MoveOne(*queue_, Datasync(file_)).status; }
  // The file's record as it is on disk, without faults.
  std::string OnDisk(uint64_t record) { return Contents(path_).substr(record * kRecord, kRecord); }
  bool DiskHas(uint64_t record, Bytes bytes) { return OnDisk(record) == AsText(bytes); }
  static int DifferingBits(Bytes a, Bytes b) {
    int count = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      count += std::popcount(static_cast<unsigned>(a[i] ^ b[i]));
    }
    return count;
  }

  TempDir folder_;
  const std::string path_ = folder_ / "f";
  AlignedBuffer before_ = Pattern(kRecord * kRecords, 1);
  AlignedBuffer after_ = Pattern(kRecord * kRecords, 2);
  AlignedBuffer in_ = Blank(kRecord);
  std::unique_ptr<FaultDevice> device_;
  std::unique_ptr<Io> io_;
  File file_;
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(FaultyIoTest, WithoutFaultsNothingIsChanged) {
  Play({});
  ASSERT_OK(WriteNew(1));
  ASSERT_OK(Sync());
  ASSERT_OK(ReadIn(1));
  EXPECT_TRUE(Equal(in_.bytes(), New(1)));
  EXPECT_TRUE(DiskHas(1, New(1)));
  EXPECT_TRUE(DiskHas(0, Old(0)));
  EXPECT_EQ(device_->struck(), 0u);
}

TEST_P(FaultyIoTest, ABitFlipsInARead) {
  Play({{.kind = FaultKind::kBitFlip, .target = FaultTarget::kRead, .first = 1}});
  ASSERT_OK(ReadIn(0));
  EXPECT_TRUE(Equal(in_.bytes(), Old(0)));
  ASSERT_OK(ReadIn(0));
  EXPECT_EQ(DifferingBits(in_.bytes(), Old(0)), 1);
  ASSERT_OK(ReadIn(0));
  EXPECT_TRUE(Equal(in_.bytes(), Old(0)));
  EXPECT_EQ(device_->struck(), 1u);
}

TEST_P(FaultyIoTest, ABitFlipsInAWriteAndTheCallersMemoryStays) {
  Play({{.kind = FaultKind::kBitFlip, .target = FaultTarget::kWrite}});
  ASSERT_OK(WriteNew(2));
  EXPECT_EQ(DifferingBits(AsBytes(OnDisk(2)), New(2)), 1);
  EXPECT_TRUE(Equal(after_.bytes(), Pattern(kRecord * kRecords, 2).bytes()));
}

TEST_P(FaultyIoTest, AFlipIsAimedAtAByteOfAFile) {
  // Bit 3 of byte 100 of record 1, in whichever read it comes, and as often as it does.
  const FaultPlace place{"f", kRecord + 100};
  Play({{.kind = FaultKind::kBitFlip,
         .target = FaultTarget::kRead,
         .count = kForever,
         .amount = 4,
         .place = place}});
  ASSERT_OK(ReadIn(0));
  EXPECT_TRUE(Equal(in_.bytes(), Old(0)));
  for (int again = 0; again < 2; ++again) {
    ASSERT_OK(ReadIn(1));
    EXPECT_EQ(DifferingBits(in_.bytes(), Old(1)), 1);
    EXPECT_EQ(in_.bytes()[100] ^ Old(1)[100], std::byte{8});
  }
  EXPECT_EQ(device_->struck(), 2u);
  Play({{.kind = FaultKind::kBitFlip,
         .target = FaultTarget::kRead,
         .place = FaultPlace{"another", kRecord + 100}}});
  ASSERT_OK(ReadIn(1));
  EXPECT_EQ(device_->struck(), 0u);
}

TEST_P(FaultyIoTest, AFlipIsAimedAtWhatIsWrittenWhereverItIs) {
  const auto mark_of = [&](uint64_t record) {
    const Bytes mark = New(record).subspan(512, 48);
    return std::vector<std::byte>(mark.begin(), mark.end());
  };
  const uint64_t bit = 1000 * 8 + 1;  // bit 1 of the byte 1000 behind the mark's beginning
  Play({{.kind = FaultKind::kBitFlip,
         .target = FaultTarget::kWrite,
         .amount = bit + 1,
         .mark = mark_of(2)}});
  ASSERT_OK(WriteNew(1));
  ASSERT_OK(WriteNew(2));
  ASSERT_OK(WriteNew(3));
  EXPECT_TRUE(DiskHas(1, New(1)));
  EXPECT_TRUE(DiskHas(3, New(3)));
  const std::string on_disk = OnDisk(2);
  EXPECT_EQ(DifferingBits(AsBytes(on_disk), New(2)), 1);
  EXPECT_EQ(AsBytes(on_disk)[1512] ^ New(2)[1512], std::byte{2});
  // A bit that isn't in the same write is none to flip.
  Play({{.kind = FaultKind::kBitFlip,
         .target = FaultTarget::kWrite,
         .amount = kRecord * 8,
         .mark = mark_of(2)}});
  ASSERT_OK(WriteNew(2));
  EXPECT_EQ(device_->struck(), 0u);
}

TEST_P(FaultyIoTest, TheSameSeedFlipsTheSameBit) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    Play({{.kind = FaultKind::kBitFlip, .target = FaultTarget::kWrite}}, 77);
    ASSERT_OK(WriteNew(0));
    if (round == 0) first = OnDisk(0);
  }
  EXPECT_EQ(OnDisk(0), first);
  Play({{.kind = FaultKind::kBitFlip, .target = FaultTarget::kWrite}}, 78);
  ASSERT_OK(WriteNew(0));
  EXPECT_NE(OnDisk(0), first);
}

TEST_P(FaultyIoTest, ATornWriteKeepsTheOldTail) {
  for (const uint64_t amount : {uint64_t{0}, uint64_t{1500}}) {
    Play({{.kind = FaultKind::kTornWrite, .amount = amount}});
    ASSERT_OK(WriteNew(1));
    const uint64_t torn_at = amount == 0 ? kRecord / 2 : 1024;  // whole sectors
    EXPECT_EQ(OnDisk(1), std::string(AsText(New(1).first(torn_at))) +
                             std::string(AsText(Old(1).subspan(torn_at))));
  }
}

TEST_P(FaultyIoTest, AMisdirectedReadBringsTheNeighbour) {
  Play({{.kind = FaultKind::kMisdirectedRead, .count = 2}});
  ASSERT_OK(ReadIn(1));
  EXPECT_TRUE(Equal(in_.bytes(), Old(2)));
  ASSERT_OK(ReadIn(kRecords - 1));  // none behind it: the one before
  EXPECT_TRUE(Equal(in_.bytes(), Old(kRecords - 2)));
  ASSERT_OK(ReadIn(1));
  EXPECT_TRUE(Equal(in_.bytes(), Old(1)));
}

TEST_P(FaultyIoTest, AMisdirectedWriteHitsTheNeighbour) {
  Play({{.kind = FaultKind::kMisdirectedWrite, .amount = 2 * kRecord}});
  ASSERT_OK(WriteNew(0));
  EXPECT_TRUE(DiskHas(0, Old(0)));
  EXPECT_TRUE(DiskHas(2, New(0)));
}

TEST_P(FaultyIoTest, AStaleRecordStays) {
  Play({{.kind = FaultKind::kStaleRecord}});
  ASSERT_OK(WriteNew(0));
  EXPECT_TRUE(DiskHas(0, Old(0)));
  ASSERT_OK(WriteNew(0));
  EXPECT_TRUE(DiskHas(0, New(0)));
}

TEST_P(FaultyIoTest, ErrorsOfIoCallsNameThePath) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kOpen, .first = 1},
        {.kind = FaultKind::kEnospc, .target = FaultTarget::kAllocate},
        {.kind = FaultKind::kFailedSync},
        {.kind = FaultKind::kEio, .target = FaultTarget::kRename},
        {.kind = FaultKind::kEio, .target = FaultTarget::kUnlink}});
  EXPECT_TRUE(FailsWith(io_->Open(path_, {}).status(), StatusCode::kIoError, path_));
  EXPECT_OK(io_->Open(path_, {}));
  EXPECT_TRUE(FailsWith(io_->Preallocate(file_, 1 << 20), StatusCode::kOutOfSpace, path_));
  EXPECT_TRUE(FailsWith(io_->SyncFile(file_), StatusCode::kIoError, path_));
  EXPECT_TRUE(FailsWith(io_->Rename(path_, path_ + "2", RenameMode::kReplace), StatusCode::kIoError,
                        path_));
  EXPECT_TRUE(FailsWith(io_->Unlink(path_), StatusCode::kIoError, path_));
  EXPECT_EQ(device_->struck(), 5u);
  EXPECT_EQ(io_->FileSize(file_).value(), kRecord * kRecords);
}

TEST_P(FaultyIoTest, APowerCutTakesBackWhatIsNotSynced) {
  Play({});
  ASSERT_OK(WriteNew(0));
  ASSERT_OK(Sync());
  ASSERT_OK(WriteNew(0));
  ASSERT_OK(WriteNew(1));
  ASSERT_OK(WriteNew(1));
  device_->PowerCut();
  EXPECT_OK(device_->power_cut_status());
  EXPECT_TRUE(DiskHas(0, New(0)));
  EXPECT_TRUE(DiskHas(1, Old(1)));
  EXPECT_TRUE(device_->dead());
  EXPECT_FALSE(ReadIn(0).ok());
  EXPECT_FALSE(WriteNew(0).ok());
  EXPECT_FALSE(Sync().ok());
  EXPECT_FALSE(io_->Open(path_, {}).ok());
  EXPECT_FALSE(io_->List(folder_.path()).ok());
  EXPECT_FALSE(io_->OpenQueue({}).ok());
  // A fresh one opens what is left.
  FaultDevice fresh;
  EXPECT_OK(MakeFaultyIo(Plain(), fresh)->Open(path_, {}));
}

TEST_P(FaultyIoTest, APowerCutOfThePlanStrikesBeforeItsOperation) {
  Play({{.kind = FaultKind::kLostWrites, .target = FaultTarget::kWrite, .first = 2}});
  ASSERT_OK(WriteNew(0));
  ASSERT_OK(Sync());
  ASSERT_OK(WriteNew(1));
  EXPECT_FALSE(WriteNew(2).ok());
  EXPECT_TRUE(DiskHas(0, New(0)));
  EXPECT_TRUE(DiskHas(1, Old(1)));
  EXPECT_TRUE(DiskHas(2, Old(2)));
}

TEST_P(FaultyIoTest, ASyncThatDidNotWaitForItsWriteCoversNothing) {
  Play({{.kind = FaultKind::kDelay, .target = FaultTarget::kWrite, .amount = 3'000}});
  // The write is delayed; a second queue syncs meanwhile.
  IoRequest write = Write(file_, 0, New(0));
  IoRequest* const requests[] = {&write};
  queue_->Submit(requests);
  const auto other = io_->OpenQueue({}).value();
  ASSERT_OK(MoveOne(*other, Datasync(file_)).status);
  std::vector<IoRequest*> completed;
  ASSERT_OK(queue_->Reap(1, completed));
  ASSERT_OK(write.status);
  EXPECT_EQ(device_->Trace(),
            (std::vector<std::string>{"open f", "fdatasync f", "write f 0+8192"}));
  device_->PowerCut();
  EXPECT_TRUE(DiskHas(0, Old(0)));
}

TEST_P(FaultyIoTest, WhatAFailedSyncShouldHaveCoveredIsLostWhateverALaterOneSays) {
  Play({{.kind = FaultKind::kFailedSync}});
  ASSERT_OK(WriteNew(0));
  EXPECT_FALSE(Sync().ok());
  ASSERT_OK(WriteNew(1));
  ASSERT_OK(Sync());
  device_->PowerCut();
  EXPECT_TRUE(DiskHas(0, Old(0)));
  EXPECT_TRUE(DiskHas(1, New(1)));
}

TEST_P(FaultyIoTest, ALaterSyncedWriteOverLostOnesStays) {
  Play({{.kind = FaultKind::kFailedSync}});
  ASSERT_OK(MoveOne(*queue_, Write(file_, 0, after_.bytes().first(2 * kRecord))).status);
  EXPECT_FALSE(Sync().ok());
  ASSERT_OK(MoveOne(*queue_, Write(file_, 0, Old(3))).status);
  ASSERT_OK(Sync());
  device_->PowerCut();
  EXPECT_TRUE(DiskHas(0, Old(3)));
  EXPECT_TRUE(DiskHas(1, Old(1)));
}

TEST_P(FaultyIoTest, APowerCutTakesBackLengths) {
  Play({});
  ASSERT_OK(MoveOne(*queue_, Write(file_, kRecords * kRecord, New(0))).status);
  ASSERT_OK(io_->Preallocate(file_, 1 << 20));
  device_->PowerCut();
  EXPECT_EQ(Contents(path_), AsText(before_.bytes()));
  Play({});
  ASSERT_OK(io_->Truncate(file_, 100));
  ASSERT_OK(io_->Truncate(file_, kRecord));
  device_->PowerCut();
  EXPECT_EQ(Contents(path_), AsText(before_.bytes()));
  Play({});
  ASSERT_OK(io_->Truncate(file_, kRecord));
  ASSERT_OK(io_->SyncFile(file_));
  device_->PowerCut();
  EXPECT_EQ(Contents(path_), AsText(Old(0)));
}

TEST_P(FaultyIoTest, APowerCutTakesBackNamesWhoseDirectoryIsNotSynced) {
  Play({});
  const auto create = [&](std::string_view name) {
    return io_->Open(folder_ / name, {.write = true, .create = true}).ok();
  };
  const auto exists = [&](std::string_view name) {
    return std::filesystem::exists(folder_ / name);
  };
  ASSERT_TRUE(create("kept"));
  ASSERT_OK(PublishFile(*io_, folder_ / "m", AsBytes("old"), RenameMode::kReplace));
  ASSERT_TRUE(create("lost"));
  ASSERT_TRUE(create("tmp"));
  ASSERT_OK(io_->Rename(folder_ / "tmp", folder_ / "m", RenameMode::kReplace));
  ASSERT_OK(io_->Unlink(folder_ / "kept"));
  ASSERT_OK(WriteNew(0));
  queue_.reset();
  file_ = File();
  ASSERT_OK(io_->Unlink(path_));
  device_->PowerCut();
  EXPECT_OK(device_->power_cut_status());
  EXPECT_TRUE(exists("kept"));
  EXPECT_FALSE(exists("lost"));
  EXPECT_FALSE(exists("tmp"));
  EXPECT_EQ(Contents(folder_ / "m"), "old");
  EXPECT_EQ(Contents(path_), AsText(before_.bytes()));  // back, with what was durable
}

TEST_P(FaultyIoTest, ADirectorySyncCoversItsOwnNamesOnly) {
  Play({});
  ASSERT_OK(io_->MakeDirectories(folder_ / "d"));
  ASSERT_OK(io_->Open(folder_ / "a", {.write = true, .create = true}));
  ASSERT_OK(io_->Open(folder_ / "d/b", {.write = true, .create = true}));
  ASSERT_OK(io_->SyncDirectory(folder_ / "d"));
  device_->PowerCut();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "d/b"));
}

TEST_P(FaultyIoTest, ReorderedWritesLeaveASeededMixtureOfOldAndNew) {
  bool saw_new_after_old = false;
  bool saw_torn = false;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    std::string first;
    for (int round = 0; round < 2; ++round) {
      Play({}, seed);
      for (uint64_t record = 0; record < kRecords; ++record) ASSERT_OK(WriteNew(record));
      device_->PowerCut(FaultKind::kReorderedWrites);
      ASSERT_OK(device_->power_cut_status());
      if (round == 0) first = Contents(path_);
    }
    const std::string contents = Contents(path_);
    EXPECT_TRUE(contents == first) << "seed " << seed;
    bool old_seen = false;
    for (uint64_t at = 0; at < contents.size(); at += 512) {
      const std::string_view sector = std::string_view(contents).substr(at, 512);
      const bool is_new = sector == AsText(Bytes(after_.bytes()).subspan(at, 512));
      ASSERT_TRUE(is_new || sector == AsText(Bytes(before_.bytes()).subspan(at, 512)))
          << "seed " << seed << " at " << at;
      if (is_new && at % kRecord == 0 && old_seen) saw_new_after_old = true;
      if (!is_new && at % kRecord != 0) {
        saw_torn |= std::string_view(contents).substr(at - at % kRecord, 512) ==
                    AsText(Bytes(after_.bytes()).subspan(at - at % kRecord, 512));
      }
      old_seen |= !is_new;
    }
  }
  EXPECT_TRUE(saw_new_after_old);
  EXPECT_TRUE(saw_torn);
}

TEST_P(FaultyIoTest, ReorderedWritesNeverTouchWhatIsSynced) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Play({}, seed);
    ASSERT_OK(WriteNew(0));
    ASSERT_OK(Sync());
    ASSERT_OK(WriteNew(1));
    device_->PowerCut(FaultKind::kReorderedWrites);
    EXPECT_TRUE(DiskHas(0, New(0))) << seed;
    EXPECT_TRUE(DiskHas(2, Old(2))) << seed;
  }
}

TEST_P(FaultyIoTest, ACrashTakesNothingBackAndStopsEverythingAfterIt) {
  Play({});
  const uint64_t so_far = device_->operations();
  device_->CrashAfter(2);
  ASSERT_OK(WriteNew(0));
  ASSERT_OK(WriteNew(1));
  EXPECT_FALSE(device_->dead());
  EXPECT_FALSE(WriteNew(2).ok());
  EXPECT_TRUE(device_->dead());
  EXPECT_FALSE(io_->Unlink(path_).ok());
  EXPECT_EQ(device_->operations(), so_far + 2);
  device_->PowerCut();  // a dead one has no power to lose
  EXPECT_TRUE(DiskHas(0, New(0)));
  EXPECT_TRUE(DiskHas(1, New(1)));
  EXPECT_TRUE(DiskHas(2, Old(2)));
}

TEST_P(FaultyIoTest, TheTraceTellsTheOrderAndTheFailures) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kWrite, .first = 1},
        {.kind = FaultKind::kFailedSync, .first = 1}});
  device_->ClearTrace();
  ASSERT_OK(WriteNew(1));
  ASSERT_OK(Sync());
  EXPECT_FALSE(WriteNew(0).ok());
  EXPECT_FALSE(io_->SyncFile(file_).ok());
  ASSERT_OK(io_->Preallocate(file_, 65536));
  ASSERT_OK(io_->Rename(path_, folder_ / "g", RenameMode::kReplace));
  ASSERT_OK(io_->Unlink(folder_ / "g"));
  EXPECT_EQ(device_->Trace(),
            (std::vector<std::string>{"write f 8192+8192", "fdatasync f", "write f 0+0 failed",
                                      "fsync f", "fsync f failed", "preallocate f 65536",
                                      "rename f -> g", "unlink g"}));
}

TEST_P(FaultyIoTest, QueuesOfSeveralThreadsShareOneScript) {
  Play({{.kind = FaultKind::kEio, .target = FaultTarget::kWrite, .first = 10, .count = 7}});
  constexpr int kThreads = 4;
  constexpr int kWrites = 10;
  std::vector<int> failures(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto queue = io_->OpenQueue({}).value();
      for (int i = 0; i < kWrites; ++i) {
        const auto record = static_cast<uint64_t>(t);
        failures[t] +=
            MoveOne(*queue, Write(file_, record * kRecord, New(record))).status.ok() ? 0 : 1;
        if (i % 3 != 0) continue;
        EXPECT_OK(MoveOne(*queue, Datasync(file_)).status);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures[0] + failures[1] + failures[2] + failures[3], 7);
  EXPECT_EQ(device_->struck(), 7u);
}

TEST_P(FaultyIoTest, APowerCutWaitsForWhatIsInFlight) {
  Play({});
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto queue = io_->OpenQueue({});
      while (queue.ok() && MoveOne(**queue, Write(file_, t * kRecord, New(t))).status.ok()) {
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  device_->PowerCut();
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(device_->power_cut_status());
  EXPECT_EQ(Contents(path_), AsText(before_.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Engines, FaultyIoTest,
                         ::testing::Values(IoEngine::kIoUring, IoEngine::kPsync),
                         [](const auto& engine) {
                           return std::string(IoEngineName(engine.param));
                         });

}  // namespace
}  // namespace kvbed
