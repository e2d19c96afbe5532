// What only the file-per-block store can show: its names, its syncs by mode, many writers, and
// removing beside them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "backends/record_path.h"
#include "backends/writer_lock.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"
#include "tests/backends/trace_testing.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class FileStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<BlockStore> Open(StoreAccess access = StoreAccess::kCreate,
                                   const std::string& options = "") {
    auto store = OpenStore(Spec(options), {.access = access});
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::unique_ptr<BlockStore> OpenOn(FaultDevice& device, const std::string& options = "") {
    auto store = OpenStoreOver(MakeFaultyIo(OpenIo(IoEngine::kPsync).value(), device),
                               Spec(options), {.access = StoreAccess::kCreate});
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  StoreSpec Spec(const std::string& options) const {
    return ParseStoreSpec("files:" + path_ + options).value();
  }

  std::string FileOf(const RecordId& id) const { return path_ + "/records/" + RecordPath(id); }
  size_t RecordFiles() const {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path_ + "/records")) {
      count += entry.is_regular_file();
    }
    return count;
  }

  TempDir dir_;
  const std::string path_ = dir_ / "store";
  const Manifest s_ = MakeManifest("s", kSmallRecord, 3, 1);
};

TEST(RecordPathTest, ComesBackAndTakesNothingElseForARecord) {
  RecordId id{{{}, 0x1122334455667788, 7}, 42};
  id.key.model_fingerprint.bytes[0] = std::byte{0xab};
  const std::string path = RecordPath(id);
  const std::string spread = path.substr(0, 2);
  const std::string sequence = path.substr(3, 49);
  const std::string file = path.substr(53);
  EXPECT_EQ(sequence, "ab000000000000000000000000000000-1122334455667788");
  EXPECT_EQ(file, "0000000000000007-000000000000002a.kv");
  EXPECT_EQ(RecordAtPath(spread, sequence, file), id);
  EXPECT_EQ(RecordAtPath("zz", sequence, file), std::nullopt);
  for (const char* other :
       {"", "x", "0000000000000007-000000000000002A.kv", "0000000000000007_000000000000002a.kv",
        "0000000000000007-000000000000002a.kw", "0000000000000007-000000000000002g.kv"}) {
    EXPECT_EQ(RecordAtPath(spread, sequence, other), std::nullopt) << other;
  }
  EXPECT_EQ(RecordAtPath(spread, "AB" + sequence.substr(2), file), std::nullopt);
}

TEST_F(FileStoreTest, EachRecordIsAFileOfItsOwnAndHoldsItsBytes) {
  const auto store = Open();
  ASSERT_OK(TakeSnapshot(*store, s_));
  EXPECT_EQ(RecordFiles(), 3u);
  for (const RecordId& id : BlockIds(s_)) {
    ASSERT_EQ(fs::file_size(FileOf(id)), kSmallRecord);
    EXPECT_EQ(fs::status(FileOf(id)).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    std::ifstream file(FileOf(id), std::ios::binary);
    std::string bytes(kSmallRecord, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::vector<std::byte> expected(kSmallRecord);
    FillRecord(id, expected);
    EXPECT_EQ(bytes, AsText(expected));
    const auto location = store->Locate(id, 0);
    ASSERT_OK(location);
    EXPECT_EQ(location->path, FileOf(id));
    EXPECT_EQ(location->offset, 0u);
  }
}

TEST_F(FileStoreTest, WhatIsSyncedWhenIsTheModes) {
  const auto trace_of = [&](const std::string& options) {
    fs::remove_all(path_);
    FaultDevice device;
    const auto store = OpenOn(device, options);
    EXPECT_OK(TakeSnapshot(*store, MakeManifest("first", kSmallRecord, 1, 1)));
    device.ClearTrace();
    EXPECT_OK(TakeSnapshot(*store, Grown(MakeManifest("first", kSmallRecord, 1, 1), "s", 1, 4)));
    return device.Trace();
  };
  const std::string sequence = fs::path(RecordFolder(s_.blocks[0].id.key)).filename();
  const std::string folder = "sync_dir " + sequence;
  {
    const std::vector<std::string> trace = trace_of("?sync=commit");
    SCOPED_TRACE(fmt::format("{}", fmt::join(trace, "\n")));
    EXPECT_EQ(CountOf(trace, "fdatasync"), 3u);
    EXPECT_EQ(CountOf(trace, folder), 1u);
    EXPECT_LT(Position(trace, ".kv", true), Position(trace, folder));
    EXPECT_LT(Position(trace, "rename 0", true), Position(trace, "fdatasync"));
    EXPECT_LT(Position(trace, "fdatasync", true), Position(trace, folder));
    EXPECT_LT(Position(trace, folder), Position(trace, "write s.manifest"));
    EXPECT_LT(Position(trace, "rename s.manifest"), Position(trace, "sync_dir manifests"));
  }
  {
    const std::vector<std::string> trace = trace_of("?sync=block");
    SCOPED_TRACE(fmt::format("{}", fmt::join(trace, "\n")));
    EXPECT_EQ(CountOf(trace, "fdatasync"), 3u);
    EXPECT_EQ(CountOf(trace, folder), 3u);
    // Each file is durable before it gets its name.
    EXPECT_LT(Position(trace, "fdatasync"), Position(trace, "rename 0"));
    EXPECT_LT(Position(trace, folder, true), Position(trace, "write s.manifest"));
  }
  {
    const std::vector<std::string> trace = trace_of("?sync=none");
    EXPECT_EQ(CountOf(trace, "fdatasync"), 0u);
    EXPECT_EQ(CountOf(trace, folder), 0u);
    EXPECT_EQ(CountOf(trace, "sync_dir manifests"), 1u);
  }
}

TEST_F(FileStoreTest, SaysWhatItIs) {
  EXPECT_EQ(Open(StoreAccess::kCreate, "?direct=off&sync=none")->info().design.substr(0, 59),
            "a file for each block, through the page cache and never syn");
  EXPECT_EQ(Open()->info().design, "a file for each block, direct I/O, synced before the manifest");
}

TEST_F(FileStoreTest, ManyWritersWriteAtOnceAndANameIsTakenOnce) {
  const auto one = Open();
  const auto other = Open();
  const auto reader = Open(StoreAccess::kRead);
  const Manifest mine = MakeManifest("same", kSmallRecord, 3, 1);
  const Manifest theirs = MakeManifest("same", kSmallRecord, 2, 2);
  ASSERT_OK(TakeSnapshot(*one, mine));
  EXPECT_TRUE(FailsWith(TakeSnapshot(*other, theirs), StatusCode::kInvalidArgument,
                        "a snapshot named same is there already"));
  EXPECT_TRUE(IsWhole(*other, mine));
  EXPECT_TRUE(IsWhole(*reader, mine));
  EXPECT_EQ(SnapshotNames(*reader), std::vector<std::string>{"same"});
  ASSERT_OK(TakeSnapshot(*other, MakeManifest("other", kSmallRecord, 2, 2)));
  EXPECT_TRUE(IsWhole(*one, MakeManifest("other", kSmallRecord, 2, 2)));
}

TEST_F(FileStoreTest, ThreadsOfManyWritersRaceForNamesAndOneWinsEach) {
  constexpr int kWriters = 4, kNames = 16;
  std::vector<std::unique_ptr<BlockStore>> stores;
  for (int i = 0; i < kWriters; ++i) stores.push_back(Open());
  std::atomic<int> won = 0, lost = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] {
      for (int name = 0; name < kNames; ++name) {
        const Manifest manifest = MakeManifest("n" + std::to_string(name), kSmallRecord, 2,
                                               static_cast<uint64_t>(1 + i + name * kWriters));
        const Status status = TakeSnapshot(*stores[static_cast<size_t>(i)], manifest);
        if (!status.ok()) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
        ++(status.ok() ? won : lost);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, kNames);
  EXPECT_EQ(lost, kNames * (kWriters - 1));
  EXPECT_EQ(SnapshotNames(*stores[0]).size(), static_cast<size_t>(kNames));
  stores.clear();
  // The losers' records go with the next writer that is alone.
  Open();
  EXPECT_EQ(RecordFiles(), static_cast<size_t>(2 * kNames));
}

TEST_F(FileStoreTest, RemovingExcludesOtherWritersAndNoReaders) {
  auto one = Open();
  auto other = Open();
  const auto reader = Open(StoreAccess::kRead);
  ASSERT_OK(TakeSnapshot(*one, s_));
  EXPECT_TRUE(FailsWith(one->RemoveManifest("s"), StatusCode::kIoError, "in use by this process"));
  EXPECT_EQ(TakeSnapshot(*one, MakeManifest("s", kSmallRecord, 1, 2), CommitMode::kReplace).code(),
            StatusCode::kIoError);
  EXPECT_TRUE(IsWhole(*reader, s_));
  // It goes on sharing.
  EXPECT_OK(TakeSnapshot(*one, MakeManifest("t", kSmallRecord, 1, 3)));
  other.reset();
  EXPECT_OK(one->RemoveManifest("s"));
  TestRequests gets = GetsOf(s_);
  gets.RunOn(*reader);
  EXPECT_TRUE(FailsWith(gets[0].status, StatusCode::kNotFound, "removed meanwhile"));
  other = Open();
  EXPECT_TRUE(IsWhole(*other, MakeManifest("t", kSmallRecord, 1, 3)));
}

TEST_F(FileStoreTest, ARemoverSeesWhatOthersCommittedMeanwhile) {
  const auto one = Open();
  ASSERT_OK(TakeSnapshot(*one, s_));
  {
    // Another process commits a snapshot that shares its records.
    const auto other = Open();
    ASSERT_OK(TakeSnapshot(*other, Grown(s_, "grown", 3, 5)));
  }
  ASSERT_OK(one->RemoveManifest("s"));
  EXPECT_TRUE(IsWhole(*one, Grown(s_, "grown", 3, 5)));
  EXPECT_EQ(RecordFiles(), 5u);
  ASSERT_OK(one->RemoveManifest("grown"));
  EXPECT_EQ(RecordFiles(), 0u);
  EXPECT_TRUE(fs::is_empty(path_ + "/records"));
}

TEST_F(FileStoreTest, AnotherProcessesRecordOfTheSameIdIsTakenWhenItsBytesAreTheSame) {
  const auto one = Open();
  const auto other = Open();
  ASSERT_OK(PutAll(*one, s_));
  TestRequests puts = PutsOf(s_);
  puts[1].record[5000] ^= std::byte{1};
  puts.RunOn(*other);
  EXPECT_OK(puts[0].status);
  EXPECT_TRUE(puts[0].deduplicated);
  EXPECT_TRUE(FailsWith(puts[1].status, StatusCode::kInvalidArgument, "other bytes"));
  EXPECT_EQ(RecordFiles(), 3u);
  // Neither may take the other's away.
  other->Discard(BlockIds(s_));
  EXPECT_EQ(RecordFiles(), 3u);
  ASSERT_OK(TakeSnapshot(*one, s_));
  EXPECT_TRUE(IsWhole(*one, s_));
}

TEST_F(FileStoreTest, WhatAKilledWriterLeftGoesWithTheNextWriterAndForeignFilesStay) {
  {
    const auto store = Open();
    ASSERT_OK(TakeSnapshot(*store, s_));
    ASSERT_OK(PutAll(*store, MakeManifest("never", kSmallRecord, 4, 2)));
  }
  const std::string folder = fs::path(FileOf(s_.blocks[0].id)).parent_path();
  std::ofstream(TemporaryPath(FileOf(s_.blocks[0].id))) << "half";
  std::ofstream(folder + "/README") << "mine";
  fs::create_directory(path_ + "/records/other");
  EXPECT_EQ(RecordFiles(), 3u + 4 + 2);
  Open(StoreAccess::kRead);
  EXPECT_EQ(RecordFiles(), 3u + 4 + 2);
  const auto store = Open(StoreAccess::kWrite);
  EXPECT_EQ(RecordFiles(), 3u + 1);
  EXPECT_TRUE(fs::exists(folder + "/README"));
  EXPECT_TRUE(IsWhole(*store, s_));
  // A writer beside another sweeps nothing.
  ASSERT_OK(PutAll(*store, MakeManifest("under way", kSmallRecord, 4, 3)));
  Open(StoreAccess::kWrite);
  EXPECT_EQ(RecordFiles(), 3u + 1 + 4);
}

TEST_F(FileStoreTest, WhileAManifestCannotBeReadNoFileIsRemoved) {
  const Manifest grown = Grown(s_, "grown", 3, 5);
  {
    const auto store = Open();
    ASSERT_OK(TakeSnapshot(*store, s_));
    ASSERT_OK(TakeSnapshot(*store, grown));
  }
  const std::string manifest = path_ + "/manifests/grown.manifest";
  std::string bytes;
  {
    std::ifstream file(manifest, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::string damaged = bytes;
  damaged[70] = static_cast<char>(damaged[70] ^ 1);
  std::ofstream(manifest, std::ios::binary) << damaged;
  {
    const auto store = Open(StoreAccess::kWrite);
    EXPECT_EQ(RecordFiles(), 5u);
    ASSERT_OK(store->RemoveManifest("s"));
    EXPECT_EQ(RecordFiles(), 5u);
  }
  // Put back from a copy, it is whole.
  std::ofstream(manifest, std::ios::binary) << bytes;
  {
    const auto store = Open(StoreAccess::kWrite);
    EXPECT_TRUE(IsWhole(*store, grown));
  }
  std::ofstream(manifest, std::ios::binary) << damaged;
  const auto store = Open(StoreAccess::kWrite);
  ASSERT_OK(store->RemoveManifest("grown"));
  Open(StoreAccess::kRead);
  EXPECT_EQ(SnapshotNames(*store).size(), 0u);
}

TEST_F(FileStoreTest, LostCutAndGrownFilesAreSaidToBeSo) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  fs::remove(FileOf(s_.blocks[0].id));
  fs::resize_file(FileOf(s_.blocks[1].id), 5000);
  fs::resize_file(FileOf(s_.blocks[2].id), kSmallRecord + 1);
  const auto store = Open(StoreAccess::kRead, "?direct=off");
  TestRequests gets = GetsOf(s_);
  gets.RunOn(*store);
  EXPECT_TRUE(FailsWith(gets[0].status, StatusCode::kNotFound, "is missing"));
  EXPECT_TRUE(FailsWith(gets[1].status, StatusCode::kCorruption, "5000 of 8192"));
  EXPECT_EQ(gets[1].short_bytes, 5000u);
  EXPECT_TRUE(FailsWith(gets[2].status, StatusCode::kCorruption, "has 8193 bytes"));
}

TEST_F(FileStoreTest, AFileOfAnyWrongLengthIsCorruptionWithBothLengths) {
  for (const char* options : {"?direct=optional", "?direct=off"}) {
    for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kPageBytes - 1, kPageBytes,
                                kPageBytes + 1, kSmallRecord - 1, kSmallRecord + 1}) {
      SCOPED_TRACE(fmt::format("{} {}", options, size));
      fs::remove_all(path_);
      ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, options), s_));
      fs::resize_file(FileOf(s_.blocks[1].id), size);
      const auto store = Open(StoreAccess::kRead, options);
      TestRequests gets = GetsOf(s_);
      gets.RunOn(*store);
      EXPECT_TRUE(gets[0].status.ok() && gets.IsIntact(0));
      EXPECT_TRUE(FailsWith(gets[1].status, StatusCode::kCorruption, std::to_string(size)));
      EXPECT_TRUE(FailsWith(gets[1].status, StatusCode::kCorruption, "8192"));
      EXPECT_TRUE(gets[2].status.ok() && gets.IsIntact(2));
    }
  }
}

TEST_F(FileStoreTest, AnErrorOfOpeningAFileLosesNothing) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  // The first open after those that opening the store takes.
  std::optional<FaultDevice> device;
  std::unique_ptr<BlockStore> store;
  for (uint64_t first = 0; store == nullptr; ++first) {
    ASSERT_LT(first, 100u);
    device.emplace(FaultPlan{
        .faults = {{.kind = FaultKind::kEio, .target = FaultTarget::kOpen, .first = first}}});
    auto opened = OpenStoreOver(MakeFaultyIo(OpenIo(IoEngine::kPsync).value(), *device), Spec(""),
                                {.access = StoreAccess::kRead});
    if (opened.ok() && device->struck() == 0) store = std::move(*opened);
  }
  TestRequests gets = GetsOf(s_);
  gets.RunOn(*store);
  EXPECT_EQ(device->struck(), 1u);
  size_t failed = 0;
  for (size_t i = 0; i < gets.size(); ++i) {
    failed += gets[i].status.code() == StatusCode::kIoError;
    EXPECT_TRUE(fs::exists(FileOf(s_.blocks[i].id)));
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_TRUE(IsWhole(*store, s_));  // the next time
}

TEST_F(FileStoreTest, ACapacityIsKeptAndRoomComesBack) {
  const auto store = Open(StoreAccess::kCreate, "?capacity=40KiB");  // 5 records
  ASSERT_OK(TakeSnapshot(*store, s_));
  EXPECT_EQ(store->info().free_bytes, 2 * kSmallRecord);
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store, MakeManifest("t", kSmallRecord, 3, 2)),
                        StatusCode::kOutOfSpace, "capacity is 40960"));
  EXPECT_EQ(RecordFiles(), 3u);
  EXPECT_TRUE(IsWhole(*store, s_));
  ASSERT_OK(store->RemoveManifest("s"));
  ASSERT_OK(TakeSnapshot(*store, MakeManifest("t", kSmallRecord, 5, 2)));
}

TEST_F(FileStoreTest, AFullDiskIsAClearErrorAndLeavesNothingBehind) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  for (const FaultTarget target : {FaultTarget::kOpen, FaultTarget::kWrite, FaultTarget::kRename}) {
    FaultDevice probe;
    OpenOn(probe);
    // What opening does isn't struck.
    const auto before = [&](std::string_view verb) { return CountOf(probe.Trace(), verb); };
    const uint64_t first = target == FaultTarget::kOpen    ? before("open ") + before("create ")
                           : target == FaultTarget::kWrite ? before("write ")
                                                           : before("rename ");
    FaultDevice device(
        {.faults = {{.kind = FaultKind::kEnospc, .target = target, .first = first, .count = 1}}});
    const auto store = OpenOn(device);
    EXPECT_TRUE(FailsWith(TakeSnapshot(*store, MakeManifest("later", kSmallRecord, 4, 2)),
                          StatusCode::kOutOfSpace));
    EXPECT_EQ(device.struck(), 1u);
    EXPECT_EQ(RecordFiles(), 3u);
    EXPECT_TRUE(IsWhole(*store, s_));
    // With space again it goes on.
    ASSERT_OK(TakeSnapshot(*store, MakeManifest("later", kSmallRecord, 4, 2)));
    ASSERT_OK(store->RemoveManifest("later"));
  }
}

TEST_F(FileStoreTest, ManyMoreRecordsThanFilesMayBeOpen) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{.rlim_cur = 96, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Manifest many = MakeManifest("many", kSmallRecord, 400, 1);
  const auto store = Open();
  EXPECT_OK(TakeSnapshot(*store, many));
  EXPECT_TRUE(IsWhole(*store, many));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_F(FileStoreTest, AWriterLockIsSharedUntilOneIsAlone) {
  const auto io = OpenIo(IoEngine::kPsync).value();
  auto one = WriterLock::Share(*io, dir_.path()).value();
  {
    auto other = WriterLock::Share(*io, dir_.path());
    ASSERT_OK(other);
    EXPECT_EQ(StatusOf(one.ExcludeOthers(*io)).code(), StatusCode::kIoError);
  }
  {
    const auto alone = one.ExcludeOthers(*io);
    ASSERT_OK(alone);
    EXPECT_TRUE(FailsWith(StatusOf(WriterLock::Share(*io, dir_.path())), StatusCode::kIoError,
                          "in use by this process"));
  }
  EXPECT_OK(WriterLock::Share(*io, dir_.path()));
}

}  // namespace
}  // namespace kvbed
