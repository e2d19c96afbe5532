// The contract of BlockStore, over every store: a new one adds a line at the end.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/external_store.h"
#include "backends/faulty_store.h"
#include "backends/memory_store.h"
#include "backends/open_store.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"

namespace kvbed {
namespace {

struct StoreCase {
  const char* name;
  const char* spec;  // {} is a folder
  bool faulty;       // behind a faulty store without faults
  bool persistent;
  uint64_t log_bytes = 0;  // by which it may grow with use: the text that RocksDB logs
};

[[maybe_unused]] constexpr uint64_t kRocksDbLog = 400 << 10;

std::ostream& operator<<(std::ostream& out, const StoreCase& store) { return out << store.name; }

class StoreContractTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam().spec).find("io_uring") != std::string_view::npos) {
      KVBED_NEEDS_ENGINE(IoEngine::kIoUring);
    }
    store_ = Open(StoreAccess::kCreate);
    ASSERT_NE(store_, nullptr);
  }

  std::unique_ptr<BlockStore> Open(StoreAccess access) {
    std::string text = GetParam().spec;
    for (size_t at; (at = text.find("{}")) != std::string::npos;) {
      text.replace(at, 2, dir_ / "store");
    }
    auto spec = ParseStoreSpec(text);
    EXPECT_OK(spec);
    auto store = OpenStore(*spec, {.access = access, .plugin_host = KVBED_TEST_PLUGIN_HOST});
    EXPECT_OK(store);
    if (!store.ok()) return nullptr;
    if (!GetParam().faulty) return std::move(*store);
    return MakeFaultyStore(std::move(*store), faults_);
  }
  void Reopen(StoreAccess access) {
    store_.reset();
    store_ = Open(access);
  }

  TempDir dir_;
  StoreFaults faults_;
  std::unique_ptr<BlockStore> store_;
};

TEST_P(StoreContractTest, RecordsOfOddSizesComeBackAsTheyWerePut) {
  uint64_t sequence = 1;
  for (uint64_t record_bytes : {8192, 28'672, 372'736, 2'101'248}) {
    const Manifest manifest =
        MakeManifest("s" + std::to_string(sequence), record_bytes, 3, sequence);
    ASSERT_OK(TakeSnapshot(*store_, manifest));
    EXPECT_TRUE(IsWhole(*store_, manifest));
    ++sequence;
  }
  // Sizes live side by side.
  EXPECT_TRUE(IsWhole(*store_, MakeManifest("s1", 8192, 3, 1)));
  EXPECT_EQ(store_->info().records, 12u);
  EXPECT_EQ(store_->info().logical_bytes, 3u * (8192 + 28'672 + 372'736 + 2'101'248));
}

TEST_P(StoreContractTest, MoreRequestsThanTheDepthAllCompleteOnce) {
  Manifest manifest = MakeManifest("s", kSmallRecord, 256);
  TestRequests puts = PutsOf(manifest);
  puts.RunOn(*store_, 4);
  ASSERT_OK(puts.first_error());
  TestRequests gets = GetsOf(manifest);
  gets.RunOn(*store_, 4);
  ASSERT_OK(gets.first_error());
  for (size_t i = 0; i < gets.size(); ++i) EXPECT_TRUE(gets.IsIntact(i)) << i;
  const StoreCounters counters = store_->counters();
  EXPECT_EQ(counters.puts, 256u);
  EXPECT_EQ(counters.gets, 256u);
  EXPECT_EQ(counters.bytes_written, 256 * kSmallRecord);
  EXPECT_EQ(counters.bytes_read, 256 * kSmallRecord);
}

TEST_P(StoreContractTest, PuttingTheSameRecordAgainWritesNothing) {
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(PutAll(*store_, manifest));
  TestRequests again = PutsOf(manifest);
  again.RunOn(*store_);
  ASSERT_OK(again.first_error());
  EXPECT_TRUE(again[0].deduplicated);
  EXPECT_EQ(store_->counters().bytes_written, 2 * kSmallRecord);
  EXPECT_EQ(store_->counters().puts_deduplicated, 2u);
  // Committed ones too.
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  EXPECT_EQ(store_->counters().bytes_written, 2 * kSmallRecord);
}

TEST_P(StoreContractTest, TheSameRecordTwiceInOneBatchIsOneRecord) {
  Manifest manifest = MakeManifest("s", kSmallRecord, 1);
  const std::vector<ManifestBlock> twice(2, manifest.blocks[0]);
  TestRequests puts(StoreRequest::Op::kPut, twice, kSmallRecord);
  puts.RunOn(*store_);
  ASSERT_OK(puts.first_error());
  EXPECT_EQ(puts[0].place, puts[1].place);
  EXPECT_NE(puts[0].deduplicated, puts[1].deduplicated);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  EXPECT_TRUE(IsWhole(*store_, manifest));
}

TEST_P(StoreContractTest, PuttingOtherBytesUnderAnIdIsRefusedAndChangesNothing) {
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  TestRequests other = PutsOf(manifest);
  other[0].digest = DigestOf(manifest.blocks[1].id);
  other[0].record[5000] ^= std::byte{1};
  other.RunOn(*store_);
  EXPECT_TRUE(FailsWith(other[0].status, StatusCode::kInvalidArgument, "other bytes"));
  EXPECT_OK(other[1].status);
  EXPECT_TRUE(IsWhole(*store_, manifest));
}

TEST_P(StoreContractTest, AnUnknownRecordIsNotFoundAndARemovedOneWasRemovedMeanwhile) {
  const Manifest manifest = MakeManifest("s", kSmallRecord, 1);
  TestRequests unknown = GetsOf(manifest);
  unknown.RunOn(*store_);
  EXPECT_TRUE(FailsWith(unknown[0].status, StatusCode::kNotFound, "no record of sequence"));
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  ASSERT_OK(store_->RemoveManifest("s"));
  TestRequests removed = GetsOf(manifest);
  removed.RunOn(*store_);
  EXPECT_TRUE(FailsWith(removed[0].status, StatusCode::kNotFound, "removed meanwhile"));
  EXPECT_EQ(store_->counters().gets_failed, 2u);
}

TEST_P(StoreContractTest, AGetIntoABufferOfAnotherSizeIsRefused) {
  const Manifest manifest = MakeManifest("s", 28'672, 1);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  TestRequests gets(StoreRequest::Op::kGet, manifest.blocks, kSmallRecord);
  gets.RunOn(*store_);
  EXPECT_TRUE(FailsWith(gets[0].status, StatusCode::kInvalidArgument, "28672"));
}

TEST_P(StoreContractTest, SnapshotsAreCommittedListedReplacedAndRemoved) {
  const Manifest first = MakeManifest("a", kSmallRecord, 3);
  const Manifest second = MakeManifest("b", kSmallRecord, 2, 2);
  ASSERT_OK(TakeSnapshot(*store_, first));
  ASSERT_OK(TakeSnapshot(*store_, second));
  ASSERT_OK_AND_ASSIGN(const auto listed, store_->ListManifests());
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "a");
  EXPECT_EQ(listed[0].blocks, 3u);
  EXPECT_EQ(listed[0].cached_tokens, 48u);
  EXPECT_EQ(listed[0].stored_bytes, 3 * kSmallRecord);
  EXPECT_EQ(listed[0].model_name, "test");
  EXPECT_OK(listed[0].status);

  const Manifest replacement = MakeManifest("a", kSmallRecord, 4, 3);
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store_, replacement), StatusCode::kInvalidArgument, "a"));
  EXPECT_TRUE(IsWhole(*store_, first));
  ASSERT_OK(TakeSnapshot(*store_, replacement, CommitMode::kReplace));
  EXPECT_TRUE(IsWhole(*store_, replacement));
  EXPECT_TRUE(IsWhole(*store_, second));
  TestRequests replaced = GetsOf(first);
  replaced.RunOn(*store_);
  EXPECT_EQ(replaced[0].status.code(), StatusCode::kNotFound);

  ASSERT_OK(store_->RemoveManifest("a"));
  EXPECT_EQ(SnapshotNames(*store_), std::vector<std::string>{"b"});
  EXPECT_TRUE(FailsWith(store_->RemoveManifest("a"), StatusCode::kNotFound, "a"));
  EXPECT_TRUE(FailsWith(StatusOf(store_->ReadManifest("a")), StatusCode::kNotFound, "a"));
}

TEST_P(StoreContractTest, AReplacementMayShareRecordsWithWhatItReplaces) {
  const Manifest first = MakeManifest("a", kSmallRecord, 3);
  ASSERT_OK(TakeSnapshot(*store_, first));
  const Manifest grown = Grown(first, "a", 2, 5);
  ASSERT_OK(TakeSnapshot(*store_, grown, CommitMode::kReplace));
  EXPECT_TRUE(IsWhole(*store_, grown));
  EXPECT_EQ(store_->info().records, 5u);
}

TEST_P(StoreContractTest, ASnapshotWithoutBlocksIsOneToo) {
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("empty", kSmallRecord, 0)));
  EXPECT_TRUE(IsWhole(*store_, MakeManifest("empty", kSmallRecord, 0)));
  ASSERT_OK(store_->RemoveManifest("empty"));
}

TEST_P(StoreContractTest, OnlyRecordsThatWerePutAndFlushedCanBeCommitted) {
  Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  EXPECT_TRUE(
      FailsWith(store_->Commit(manifest, CommitMode::kNew), StatusCode::kNotFound, "sequence"));
  ASSERT_OK(PutAll(*store_, manifest));
  EXPECT_TRUE(FailsWith(store_->Commit(manifest, CommitMode::kNew), StatusCode::kInvalidArgument,
                        "not flushed"));
  ASSERT_OK(store_->Flush());
  Manifest other = manifest;
  other.blocks[1].digest = DigestOf(manifest.blocks[0].id);
  EXPECT_TRUE(FailsWith(store_->Commit(other, CommitMode::kNew), StatusCode::kInvalidArgument,
                        "other bytes"));
  EXPECT_TRUE(SnapshotNames(*store_).empty());
  EXPECT_EQ(store_->info().records, 0u);
  EXPECT_OK(store_->Commit(manifest, CommitMode::kNew));
  EXPECT_EQ(manifest.store_uuid, store_->info().uuid);
  EXPECT_TRUE(IsWhole(*store_, manifest));
}

TEST_P(StoreContractTest, RemovingOneOfTwoSnapshotsKeepsWhatTheOtherNames) {
  for (const bool remove_older : {false, true}) {
    const uint64_t sequence = remove_older ? 1 : 2;
    const Manifest older = MakeManifest("older", kSmallRecord, 4, sequence);
    const Manifest newer = Grown(older, "newer", 3, 6);
    ASSERT_OK(TakeSnapshot(*store_, older));
    const uint64_t written = store_->counters().bytes_written;
    ASSERT_OK(TakeSnapshot(*store_, newer));
    EXPECT_EQ(store_->counters().bytes_written - written, 3 * kSmallRecord);
    EXPECT_EQ(store_->info().records, 7u);
    const Manifest& kept = remove_older ? newer : older;
    const Manifest& removed = remove_older ? older : newer;
    ASSERT_OK(store_->RemoveManifest(removed.name));
    EXPECT_TRUE(IsWhole(*store_, kept));
    EXPECT_EQ(store_->info().records, kept.blocks.size());
    ASSERT_OK(store_->RemoveManifest(kept.name));
    EXPECT_EQ(store_->info().records, 0u);
  }
}

TEST_P(StoreContractTest, SpaceComesBack) {
  const auto cycle = [&](uint64_t sequence) {
    ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 8, sequence)));
    ASSERT_OK(store_->RemoveManifest("s"));
  };
  cycle(1);
  const StoreInfo before = store_->info();
  const uint64_t cycles = GetParam().persistent ? 20 : 100;
  for (uint64_t i = 2; i < 2 + cycles; ++i) cycle(i);
  const StoreInfo after = store_->info();
  EXPECT_LE(after.allocated_bytes, before.allocated_bytes + GetParam().log_bytes);
  EXPECT_EQ(after.records, 0u);
  EXPECT_EQ(after.logical_bytes, 0u);
}

// What is counted is what the filesystem says, also after the store was opened again.
TEST_P(StoreContractTest, AllocatedBytesAreThoseOfItsFiles) {
  // It has no files, or they are its own affair.
  if (!GetParam().persistent || StateOfExternalStore(*store_)) return;
  const auto on_disk = [&] {
    uint64_t bytes = 0;
    const auto add = [&](const std::string& path) {
      struct stat info {};
      ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    };
    add(dir_ / "store");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "store")) {
      add(entry.path());
    }
    return bytes;
  };
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", 372'736, 4, 1)));
  Reopen(StoreAccess::kRead);
  EXPECT_EQ(store_->info().allocated_bytes, on_disk());
  EXPECT_GE(store_->info().allocated_bytes, store_->info().logical_bytes);
  EXPECT_EQ(store_->info().logical_bytes, 4u * 372'736);
}

// What replacements leave behind comes back, at the latest with a removal.
TEST_P(StoreContractTest, ReplacingASnapshotOverAndOverKeepsItsSpace) {
  constexpr uint64_t kLiveBytes = 8 * 372'736;
  uint64_t allocated_max = 0;
  for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
    ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", 372'736, 8, sequence), CommitMode::kReplace));
    if (sequence == 2) allocated_max = store_->info().allocated_bytes;
  }
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("other", 372'736, 1, 21)));
  ASSERT_OK(store_->RemoveManifest("other"));
  EXPECT_EQ(store_->info().logical_bytes, kLiveBytes);
  EXPECT_LE(store_->info().allocated_bytes, allocated_max + GetParam().log_bytes);
  EXPECT_TRUE(IsWhole(*store_, MakeManifest("s", 372'736, 8, 20)));
}

TEST_P(StoreContractTest, DiscardFreesWhatNoSnapshotNames) {
  const Manifest committed = MakeManifest("a", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, committed));
  const Manifest dropped = MakeManifest("b", kSmallRecord, 2, 2);
  ASSERT_OK(PutAll(*store_, dropped));
  TestRequests before = GetsOf(dropped);
  before.RunOn(*store_);
  EXPECT_OK(before.first_error());  // readable before it is committed
  store_->Discard(BlockIds(dropped));
  store_->Discard(BlockIds(committed));
  store_->Discard(BlockIds(dropped));
  TestRequests after = GetsOf(dropped);
  after.RunOn(*store_);
  EXPECT_EQ(after[0].status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(IsWhole(*store_, committed));
}

TEST_P(StoreContractTest, EightThreadsLoadDifferentRecords) {
  constexpr uint64_t kThreads = 8;
  std::vector<Manifest> manifests;
  for (uint64_t i = 0; i < kThreads; ++i) {
    manifests.push_back(MakeManifest("t" + std::to_string(i), 28'672, 16, i + 1));
  }
  const auto in_threads = [&](auto work) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { work(manifests[i]); });
    for (std::thread& thread : threads) thread.join();
  };
  in_threads([&](const Manifest& manifest) { EXPECT_OK(TakeSnapshot(*store_, manifest)); });
  in_threads([&](const Manifest& manifest) {
    for (int round = 0; round < 3; ++round) EXPECT_TRUE(IsWhole(*store_, manifest));
  });
  EXPECT_EQ(store_->info().records, kThreads * 16);
}

TEST_P(StoreContractTest, AReaderDuringARemoveGetsItsBytesOrRemovedMeanwhile) {
  const Manifest read = MakeManifest("read", kSmallRecord, 64);
  ASSERT_OK(TakeSnapshot(*store_, read));
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      TestRequests gets = GetsOf(read);
      gets.RunOn(*store_, 8);
      for (size_t i = 0; i < gets.size(); ++i) {
        const Status& status = gets[i].status;
        const bool fine = status.ok()
                              ? gets.IsIntact(i)
                              : FailsWith(status, StatusCode::kNotFound, "removed meanwhile");
        if (!fine) ++wrong;
      }
    }
  });
  ASSERT_OK(store_->RemoveManifest("read"));
  // Slots that come free are written over at once.
  for (uint64_t i = 2; i < 6; ++i) {
    EXPECT_OK(TakeSnapshot(*store_, MakeManifest("s" + std::to_string(i), kSmallRecord, 64, i)));
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(StoreContractTest, TwoThreadsThatPutTheSameRecordsShareThem) {
  const Manifest first = MakeManifest("first", kSmallRecord, 32);
  Manifest second = first;
  second.name = "second";
  std::thread other([&] { EXPECT_OK(TakeSnapshot(*store_, second)); });
  EXPECT_OK(TakeSnapshot(*store_, first));
  other.join();
  EXPECT_TRUE(IsWhole(*store_, first));
  EXPECT_TRUE(IsWhole(*store_, second));
  EXPECT_EQ(store_->info().records, 32u);
}

TEST_P(StoreContractTest, NamesThatCouldLeaveTheFolderAreRefused) {
  for (const char* name : {"", ".", "..", "../x", "a/b", ".hidden", "a b", "a\n"}) {
    Manifest manifest = MakeManifest(name, kSmallRecord, 0);
    EXPECT_EQ(store_->Commit(manifest, CommitMode::kNew).code(), StatusCode::kInvalidArgument)
        << name;
    EXPECT_EQ(store_->RemoveManifest(name).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(StatusOf(store_->ReadManifest(name)).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST_P(StoreContractTest, RecordsAreListedWithHowManySnapshotsNameThem) {
  const Manifest older = MakeManifest("older", kSmallRecord, 3);
  const Manifest newer = Grown(older, "newer", 2, 3);
  ASSERT_OK(TakeSnapshot(*store_, older));
  ASSERT_OK(TakeSnapshot(*store_, newer));
  ASSERT_OK(PutAll(*store_, MakeManifest("not committed", kSmallRecord, 1, 9)));
  ASSERT_OK_AND_ASSIGN(const auto records, store_->ListRecords());
  ASSERT_EQ(records.size(), 4u);
  const std::vector<RecordId> ids = {older.blocks[0].id, older.blocks[1].id, older.blocks[2].id,
                                     newer.blocks[2].id};
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(records[i].id, ids[i]);
    EXPECT_EQ(records[i].digest, DigestOf(ids[i]));
    EXPECT_EQ(records[i].record_bytes, kSmallRecord);
    EXPECT_EQ(records[i].manifests, i < 2 ? 2u : 1u);
  }
}

TEST_P(StoreContractTest, AChannelThatIsDroppedWaitsForItsRequests) {
  const Manifest manifest = MakeManifest("s", 372'736, 16);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  TestRequests gets = GetsOf(manifest);
  {
    ASSERT_OK_AND_ASSIGN(StoreChannel channel, store_->OpenChannel({.iodepth = 2}));
    channel.Submit(gets.pointers());
    EXPECT_EQ(channel.outstanding(), 16u);
  }
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(gets.IsIntact(15));
  EXPECT_TRUE(IsWhole(*store_, manifest));
}

TEST_P(StoreContractTest, WhatWasCommittedIsThereAfterReopening) {
  if (!GetParam().persistent) return;  // nothing of it survives, by design
  const Manifest older = MakeManifest("older", kSmallRecord, 4);
  const Manifest newer = Grown(older, "newer", 3, 6);
  const Manifest large = MakeManifest("large", 372'736, 2, 5);
  ASSERT_OK(TakeSnapshot(*store_, older));
  ASSERT_OK(TakeSnapshot(*store_, newer));
  ASSERT_OK(TakeSnapshot(*store_, large));
  ASSERT_OK(PutAll(*store_, MakeManifest("not committed", kSmallRecord, 3, 9)));
  const StoreInfo before = store_->info();
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite, StoreAccess::kCreate}) {
    Reopen(access);
    ASSERT_NE(store_, nullptr);
    for (const Manifest& manifest : {older, newer, large}) {
      EXPECT_TRUE(IsWhole(*store_, manifest));
    }
    EXPECT_EQ(store_->info().uuid, before.uuid);
    EXPECT_EQ(store_->info().records, before.records);
    EXPECT_EQ(store_->info().logical_bytes, before.logical_bytes);
    TestRequests uncommitted = GetsOf(MakeManifest("not committed", kSmallRecord, 3, 9));
    uncommitted.RunOn(*store_);
    EXPECT_EQ(uncommitted[0].status.code(), StatusCode::kNotFound);
  }
  ASSERT_OK(store_->RemoveManifest("older"));
  Reopen(StoreAccess::kCreate);
  EXPECT_TRUE(IsWhole(*store_, newer));
  EXPECT_EQ(SnapshotNames(*store_), (std::vector<std::string>{"large", "newer"}));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("after", kSmallRecord, 8, 7)));
  EXPECT_TRUE(IsWhole(*store_, newer));
}

TEST_P(StoreContractTest, AStoreOpenedForReadingTakesNoChange) {
  if (!GetParam().persistent) return;
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  Reopen(StoreAccess::kRead);
  TestRequests puts = PutsOf(MakeManifest("x", kSmallRecord, 1, 2));
  puts.RunOn(*store_);
  EXPECT_TRUE(FailsWith(puts[0].status, StatusCode::kInvalidArgument, "for reading"));
  EXPECT_EQ(store_->RemoveManifest("s").code(), StatusCode::kInvalidArgument);
  Manifest same = manifest;
  EXPECT_EQ(store_->Commit(same, CommitMode::kReplace).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsWhole(*store_, manifest));
}

// Records here have no header page; a page that was written is taken for one.
std::optional<RecordId> NameAnyPage(Bytes page) {
  if (LoadLe<uint64_t>(page, 0) == 0) return std::nullopt;
  return RecordId{{{}, 1, 0}, 1};
}

TEST_P(StoreContractTest, WhatAReplacementFreedIsNoLeftover) {
  if (!GetParam().persistent || StateOfExternalStore(*store_)) return;
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 3, 1)));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 3, 2), CommitMode::kReplace));
  store_.reset();
  Reopen(StoreAccess::kRead);
  // Without a namer free slots aren't looked into.
  ASSERT_OK_AND_ASSIGN(const Leftovers found, store_->ListLeftovers(nullptr));
  EXPECT_EQ(found.total(LeftoverKind::kRecord).count, 0u);
}

TEST_P(StoreContractTest, WhatLiesBesideWhatIsCommittedIsListedAndNothingIsChanged) {
  const Manifest committed = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, committed));
  // What this handle put isn't a leftover yet.
  ASSERT_OK(PutAll(*store_, MakeManifest("x", kSmallRecord, 3, 2)));
  ASSERT_OK(store_->Flush());
  ASSERT_OK_AND_ASSIGN(const Leftovers own, store_->ListLeftovers(NameAnyPage));
  EXPECT_TRUE(own.named().empty());
  // Where an external store keeps what is its own affair.
  if (!GetParam().persistent || StateOfExternalStore(*store_)) return;

  store_.reset();
  const std::string folder = dir_ / "store";
  std::ofstream(TemporaryPath(folder + "/STORE")) << "abc";
  std::ofstream(folder + "/notes.txt") << "12345";
  Reopen(StoreAccess::kRead);
  for (const RecordNamer namer : {RecordNamer(NameAnyPage), RecordNamer(nullptr)}) {
    ASSERT_OK_AND_ASSIGN(const Leftovers found, store_->ListLeftovers(namer));
    // Slots have no names without a namer.
    const bool slots = store_->info().overwrites;
    EXPECT_EQ(found.total(LeftoverKind::kRecord).count, slots && namer == nullptr ? 0u : 3u);
    EXPECT_EQ(found.total(LeftoverKind::kTemporary).count, 1u);
    EXPECT_EQ(found.total(LeftoverKind::kTemporary).size_bytes, 3u);
    EXPECT_EQ(found.total(LeftoverKind::kUnknown).count, 1u);
    EXPECT_EQ(found.total(LeftoverKind::kUnknown).size_bytes, 5u);
    for (const Leftover& one : found.named()) {
      EXPECT_EQ(one.id.has_value(), one.kind == LeftoverKind::kRecord) << one.path;
    }
    EXPECT_GE(found.swept_by_a_writer(), 1u);
  }
  // A writer sweeps what isn't in a free place, and leaves what it doesn't know.
  Reopen(StoreAccess::kWrite);
  ASSERT_OK_AND_ASSIGN(const Leftovers left, store_->ListLeftovers(NameAnyPage));
  EXPECT_EQ(left.swept_by_a_writer(), 0u);
  EXPECT_EQ(left.total(LeftoverKind::kUnknown).count, 1u);
  EXPECT_TRUE(IsWhole(*store_, committed));
}

const StoreCase kStoreCases[] = {
    {"Memory", "memory:", false, false},
    {"SlabIoUring", "slab:{}?ioengine=io_uring", false, true},
    {"SlabPsync", "slab:{}?ioengine=psync", false, true},
    {"SlabBuffered", "slab:{}?direct=off", false, true},
    {"FilesIoUring", "files:{}?ioengine=io_uring", false, true},
    {"FilesPsync", "files:{}?ioengine=psync", false, true},
    {"FilesSyncedEach", "files:{}?sync=block", false, true},
    {"FilesBufferedUnsynced", "files:{}?direct=off&sync=none", false, true},
#ifdef KVBED_HAS_ROCKSDB
    {"RocksDbBlob", "rocksdb:{}", false, true, kRocksDbLog},
    {"RocksDbBlobPsync", "rocksdb:{}?ioengine=psync", false, true, kRocksDbLog},
    {"RocksDbBlobWal", "rocksdb:{}?wal=on", false, true, kRocksDbLog},
    {"RocksDbBlobPosix", "rocksdb:{}?fs=posix", false, true, kRocksDbLog},
    {"RocksDbIndex", "rocksdb:{}?layout=index", false, true, kRocksDbLog},
    {"RocksDbIndexWal", "rocksdb:{}?layout=index&wal=on", false, true, kRocksDbLog},
#endif
    {"FaultyWithoutFaults", "memory:", true, false},
    {"Plugin", "plugin:" KVBED_TEST_PLUGIN "?path={}", false, true},
    {"PluginInSmallWindow", "plugin:" KVBED_TEST_PLUGIN "?window=2101248&path={}", false, true},
    {"Exec", "exec:" KVBED_TEST_EXEC_STORE " --dir {}", false, true},
    {"PluginOnlyWhatIsRequired", "plugin:" KVBED_TEST_PLUGIN_BARE "?manifests={}.m&path={}", false,
     true},
    {"PluginWithoutPersistence", "plugin:" KVBED_TEST_PLUGIN_BARE "?path={}", false, false},
    {"PluginExample", "plugin:" KVBED_EXAMPLE_PLUGIN "?manifests={}.m&path={}", false, true},
    {"ExecOnlyWhatIsRequired",
     "exec:manifests={}.m " KVBED_TEST_EXEC_STORE
     " --dir {} --without flush,exists,remove,list,manifests",
     false, true},
    {"ExecExample", "exec:" KVBED_EXAMPLE_EXEC_STORE " --dir {}", false, true},
};

INSTANTIATE_TEST_SUITE_P(EveryStore, StoreContractTest, ::testing::ValuesIn(kStoreCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace kvbed
