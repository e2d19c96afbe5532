// What only the RocksDB stores can show: faults below RocksDB and what they are found as, garbage,
// layouts, and what it says of itself.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "backends/disk_reserve.h"
#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"
#include "tests/backends/trace_testing.h"

namespace rocksdb::crc32c {
uint32_t Extend(uint32_t init_crc, const char* data, size_t n);  // kvbed's, in RocksDB's place
}

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecord = 28'672;

TEST(RocksDbCrc32cTest, IsTheCastagnoliPolynomials) {
  const std::string digits = "123456789";
  EXPECT_EQ(rocksdb::crc32c::Extend(0, digits.data(), digits.size()), 0xe3069283u);
  // In pieces, and from odd addresses.
  std::string bytes(1 << 16, '\0');
  std::mt19937_64 random(7);
  for (char& c : bytes) c = static_cast<char>(random());
  const uint32_t whole = rocksdb::crc32c::Extend(0, bytes.data(), bytes.size());
  uint32_t byte_by_byte = 0;
  for (const char& c : bytes) byte_by_byte = rocksdb::crc32c::Extend(byte_by_byte, &c, 1);
  EXPECT_EQ(whole, byte_by_byte);
  for (const size_t at : {size_t{1}, size_t{7}, size_t{8}, size_t{4095}, bytes.size()}) {
    const uint32_t first = rocksdb::crc32c::Extend(0, bytes.data(), at);
    EXPECT_EQ(rocksdb::crc32c::Extend(first, bytes.data() + at, bytes.size() - at), whole) << at;
  }
}

class RocksDbStoreTest : public ::testing::Test {
 protected:
  StoreSpec Spec(const std::string& options = "") const {
    return ParseStoreSpec("rocksdb:" + path_ + options).value();
  }
  Result<std::unique_ptr<BlockStore>> TryOpen(StoreAccess access = StoreAccess::kCreate,
                                              const std::string& options = "") const {
    return OpenStore(Spec(options), {.access = access});
  }
  std::unique_ptr<BlockStore> Open(StoreAccess access = StoreAccess::kCreate,
                                   const std::string& options = "") const {
    auto store = TryOpen(access, options);
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::unique_ptr<BlockStore> OpenOn(FaultDevice& device,
                                     StoreAccess access = StoreAccess::kWrite) const {
    auto store = OpenStoreOver(MakeFaultyIo(OpenIo(IoEngine::kPsync).value(), device), Spec(),
                               {.access = access});
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  static std::string Detail(BlockStore& store, std::string_view name) {
    for (const auto& [key, value] : store.info().details) {
      if (key == name) return value;
    }
    return "none";
  }
  static uint64_t Number(BlockStore& store, std::string_view name) {
    return std::stoull(Detail(store, name));
  }
  std::vector<std::string> Files(std::string_view ending) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path_ + "/db")) {
      if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TempDir dir_;
  const std::string path_ = dir_ / "store";
  const Manifest s_ = MakeManifest("s", kRecord, 6, 1);
};

TEST_F(RocksDbStoreTest, ALayoutIsForGood) {
  ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, "?layout=index"), s_));
  EXPECT_TRUE(FailsWith(StatusOf(TryOpen(StoreAccess::kRead, "?layout=blob")),
                        StatusCode::kInvalidArgument, "has layout=index, and layout=blob"));
  EXPECT_TRUE(IsWhole(*Open(StoreAccess::kRead), s_));
}

TEST_F(RocksDbStoreTest, TwoChecksumsInOneProcessAreRefused) {
  const auto store = Open();
  EXPECT_TRUE(
      FailsWith(StatusOf(OpenStore(ParseStoreSpec("rocksdb:" + (dir_ / "o") + "?crc=stock").value(),
                                   {.access = StoreAccess::kCreate})),
                StatusCode::kInvalidArgument, "exclude each other"));
}

TEST_F(RocksDbStoreTest, SaysWhichChecksumComputes) {
  EXPECT_EQ(Detail(*Open(), "verify_checksums"), "true");
  fs::remove_all(path_);
  const auto stock = Open(StoreAccess::kCreate, "?crc=stock&fs=posix");
  EXPECT_NE(Detail(*stock, "crc32c").find("RocksDB's own"), std::string::npos);
  ASSERT_OK(TakeSnapshot(*stock, s_));
  EXPECT_TRUE(IsWhole(*stock, s_));
  EXPECT_FALSE(stock->info().direct);
}

TEST_F(RocksDbStoreTest, ARecordsBytesAreWhereItSays) {
  for (const char* options : {"", "?layout=index"}) {
    fs::remove_all(path_);
    const auto store = Open(StoreAccess::kCreate, options);
    ASSERT_OK(TakeSnapshot(*store, s_));
    ASSERT_OK_AND_ASSIGN(const Manifest manifest, store->ReadManifest("s"));
    for (const ManifestBlock& block : manifest.blocks) {
      ASSERT_OK_AND_ASSIGN(const RecordLocation at, store->Locate(block.id, block.place));
      ASSERT_EQ(at.size_bytes, kRecord);
      std::ifstream file(at.path, std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at.offset));
      std::string bytes(kRecord, '\0');
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      std::vector<std::byte> expected(kRecord);
      FillRecord(block.id, expected);
      EXPECT_EQ(bytes, AsText(expected)) << options;
    }
  }
}

// A fault in what the gets read. The reads before them are counted by a run without one.
class RocksDbReadFaultTest : public RocksDbStoreTest,
                             public ::testing::WithParamInterface<FaultKind> {};

TEST_P(RocksDbReadFaultTest, IsRepairedOrFoundAndHurtsNoOtherRecord) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  uint64_t reads_before = 0;
  uint64_t reads_after = 0;
  {
    FaultDevice device;
    const auto store = OpenOn(device, StoreAccess::kRead);
    reads_before = CountOf(device.Trace(), "read ");
    EXPECT_TRUE(IsWhole(*store, s_));
    reads_after = CountOf(device.Trace(), "read ");
  }
  ASSERT_GE(reads_after - reads_before, s_.blocks.size());
  const uint64_t amount = GetParam() == FaultKind::kShortTransfer ? 4096 : 0;
  // Once, it is repaired: each record of a batch with an error is asked for again by itself.
  for (uint64_t at = reads_before; at < reads_after; ++at) {
    SCOPED_TRACE(fmt::format("{} at read {}", FaultKindName(GetParam()), at));
    FaultDevice device(
        {.seed = at + 1,
         .faults = {
             {.kind = GetParam(), .target = FaultTarget::kRead, .first = at, .amount = amount}}});
    const auto store = OpenOn(device, StoreAccess::kRead);
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(IsWhole(*store, s_));
    EXPECT_EQ(device.struck(), 1u);
  }
  // For good, from some record on, it is found, and the records before are whole.
  if (amount != 0) return;  // a short transfer is gone on with
  FaultDevice device({.faults = {{.kind = GetParam(),
                                  .target = FaultTarget::kRead,
                                  .first = reads_before + 2,
                                  .count = kForever}}});
  const auto store = OpenOn(device, StoreAccess::kRead);
  ASSERT_NE(store, nullptr);
  TestRequests gets = GetsOf(s_);
  gets.RunOn(*store);
  uint64_t found = 0;
  for (size_t i = 0; i < gets.size(); ++i) {
    if (gets[i].status.ok()) {
      EXPECT_TRUE(gets.IsIntact(i)) << "a wrong record was served: " << i;
      continue;
    }
    ++found;
    const bool corrupt =
        GetParam() == FaultKind::kBitFlip || GetParam() == FaultKind::kMisdirectedRead;
    EXPECT_EQ(gets[i].status.code(), corrupt ? StatusCode::kCorruption : StatusCode::kIoError)
        << gets[i].status.ToString();
    EXPECT_NE(gets[i].status.message().find("RocksDB"), std::string::npos);
  }
  EXPECT_GT(found, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RocksDbReadFaultTest,
                         ::testing::Values(FaultKind::kBitFlip, FaultKind::kEio,
                                           FaultKind::kShortTransfer, FaultKind::kMisdirectedRead,
                                           FaultKind::kEagain, FaultKind::kEintr),
                         [](const auto& one) { return std::string(FaultKindName(one.param)); });

// What a device wrote otherwise than it said may be a table that several snapshots are in: then
// they are found damaged, and none of their records is served wrong.
::testing::AssertionResult IsWholeOrFound(BlockStore& store, const Manifest& manifest) {
  const auto there = store.ReadManifest(manifest.name);
  if (!there.ok() && there.status().code() == StatusCode::kCorruption) {
    return ::testing::AssertionSuccess();
  }
  return IsWhole(store, manifest);
}

// A fault in what a snapshot writes: it fails, or is found when it is read.
class RocksDbWriteFaultTest : public RocksDbStoreTest,
                              public ::testing::WithParamInterface<FaultKind> {};

TEST_P(RocksDbWriteFaultTest, FailsTheSnapshotOrIsFoundAndLeavesEarlierOnesWhole) {
  const Manifest kept = MakeManifest("kept", kRecord, 2, 9);
  const auto fresh = [&] {
    fs::remove_all(path_);
    ASSERT_OK(TakeSnapshot(*Open(), kept));
  };
  fresh();
  uint64_t writes_before = 0;
  uint64_t writes_after = 0;
  {
    FaultDevice device;
    const auto store = OpenOn(device);
    writes_before = CountOf(device.Trace(), "write ");
    ASSERT_OK(TakeSnapshot(*store, s_));
    writes_after = CountOf(device.Trace(), "write ");
  }
  const bool lies = GetParam() == FaultKind::kBitFlip || GetParam() == FaultKind::kTornWrite;
  uint64_t failed = 0;
  uint64_t found = 0;
  for (uint64_t at = writes_before; at < writes_after; at += 2) {
    SCOPED_TRACE(fmt::format("{} at write {}", FaultKindName(GetParam()), at));
    fresh();
    Status taken;
    {
      FaultDevice device(
          {.seed = at + 1,
           .faults = {{.kind = GetParam(), .target = FaultTarget::kWrite, .first = at}}});
      const auto store = OpenOn(device);
      ASSERT_NE(store, nullptr);
      taken = TakeSnapshot(*store, s_);
      if (!taken.ok()) {
        ++failed;
        EXPECT_NE(taken.message().find("RocksDB"), std::string::npos) << taken.ToString();
        // With RocksDB's own words also what comes next.
        const Status next = TakeSnapshot(*store, MakeManifest("next", kRecord, 1, 4));
        EXPECT_NE(next.message().find("RocksDB"), std::string::npos) << next.ToString();
      }
      EXPECT_TRUE(lies ? IsWholeOrFound(*store, kept) : IsWhole(*store, kept));
    }
    const auto reopened = TryOpen(StoreAccess::kWrite);
    if (!reopened.ok()) {
      // A lie about its own record of files is found when it is opened.
      EXPECT_EQ(reopened.status().code(), StatusCode::kCorruption);
      ++found;
      continue;
    }
    EXPECT_TRUE(lies ? IsWholeOrFound(**reopened, kept) : IsWhole(**reopened, kept));
    if (!taken.ok() && !lies) {
      // A commit that failed may have come to its end all the same, but not by halves.
      EXPECT_OK(TakeSnapshot(**reopened, s_, CommitMode::kReplace));
      EXPECT_TRUE(IsWhole(**reopened, s_));
      continue;
    }
    const auto manifest = (*reopened)->ReadManifest("s");
    if (!manifest.ok()) {
      ++found;
      continue;
    }
    TestRequests gets = GetsOf(*manifest);
    gets.RunOn(**reopened);
    for (size_t i = 0; i < gets.size(); ++i) {
      if (gets[i].status.ok()) {
        EXPECT_TRUE(gets.IsIntact(i)) << "a wrong record was served: " << i;
      } else {
        ++found;
      }
    }
  }
  if (lies) {
    EXPECT_GT(found, 0u);
  } else {
    EXPECT_GT(failed, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RocksDbWriteFaultTest,
                         ::testing::Values(FaultKind::kEio, FaultKind::kEnospc, FaultKind::kBitFlip,
                                           FaultKind::kTornWrite),
                         [](const auto& one) { return std::string(FaultKindName(one.param)); });

TEST_F(RocksDbStoreTest, ARemovalRewritesNoMoreThanItFrees) {
  const auto store = Open();
  // All in one blob file: put together and flushed together.
  const Manifest large = MakeManifest("large", kRecord, 30, 1);
  const Manifest small = MakeManifest("small", kRecord, 6, 2);
  const Manifest middle = MakeManifest("middle", kRecord, 12, 3);
  for (const Manifest& one : {large, small, middle}) ASSERT_OK(PutAll(*store, one));
  for (Manifest one : {large, small, middle}) {
    ASSERT_OK(store->Flush());
    ASSERT_OK(store->Commit(one, CommitMode::kNew));
  }
  ASSERT_EQ(Number(*store, "blob_files"), 1u);
  // An eighth is garbage now: nothing is rewritten for it.
  ASSERT_OK(store->RemoveManifest("small"));
  EXPECT_EQ(Number(*store, "gc_bytes_written"), 0u);
  EXPECT_GE(Number(*store, "blob_garbage_bytes"), 6 * kRecord);
  EXPECT_TRUE(IsWhole(*store, large));
  // Now it is more than what lives.
  ASSERT_OK(store->RemoveManifest("large"));
  EXPECT_EQ(Number(*store, "blob_garbage_bytes"), 0u);
  const uint64_t written = Number(*store, "gc_bytes_written");
  EXPECT_GE(written, 12 * kRecord);
  EXPECT_LE(written, Number(*store, "gc_bytes_freed"));
  EXPECT_TRUE(IsWhole(*store, middle));
  EXPECT_LE(store->info().allocated_bytes, 12 * kRecord + (1 << 20) + DiskReserve::kBytes);
}

TEST_F(RocksDbStoreTest, WhatACrashLeftGoesWithItsBlobs) {
  {
    const auto store = Open();
    ASSERT_OK(TakeSnapshot(*store, s_));
    ASSERT_OK(PutAll(*store, MakeManifest("never", kRecord, 20, 2)));
    ASSERT_OK(store->Flush());
    EXPECT_GE(Number(*store, "blob_bytes"), 26 * kRecord);
  }
  const auto store = Open(StoreAccess::kWrite);
  EXPECT_LE(Number(*store, "blob_bytes"), 7 * kRecord);
  EXPECT_TRUE(IsWhole(*store, s_));
}

TEST_F(RocksDbStoreTest, ManyFilesAreReadThroughAReaderToo) {
  {
    const auto store = Open();
    for (uint64_t i = 1; i <= 8; ++i) {
      ASSERT_OK(TakeSnapshot(*store, MakeManifest(fmt::format("s{}", i), kRecord, 3, i)));
    }
    ASSERT_OK(store->RemoveManifest("s4"));  // compacts
  }
  const auto reader = Open(StoreAccess::kRead);
  for (uint64_t i = 1; i <= 8; ++i) {
    if (i != 4) EXPECT_TRUE(IsWhole(*reader, MakeManifest(fmt::format("s{}", i), kRecord, 3, i)));
  }
}

TEST_F(RocksDbStoreTest, WithALogAReaderFindsRecordsInFiles) {
  ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, "?wal=on"), s_));
  const auto reader = Open(StoreAccess::kRead, "?wal=on");
  EXPECT_EQ(Number(*reader, "blob_files"), 1u);
  EXPECT_TRUE(reader->info().warnings.empty());
  EXPECT_TRUE(IsWhole(*reader, s_));
}

// What was replaced is garbage until its room is needed.
TEST_F(RocksDbStoreTest, ReplacingASnapshotOverAndOverStaysWithinTheCapacity) {
  const auto store = Open(StoreAccess::kCreate, "?capacity=600k");
  for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
    const Manifest s = MakeManifest("s", kRecord, 6, sequence);
    ASSERT_OK(TakeSnapshot(*store, s, CommitMode::kReplace)) << sequence;
    EXPECT_TRUE(IsWhole(*store, s));
  }
  EXPECT_EQ(store->info().logical_bytes, 6 * kRecord);
  EXPECT_GE(store->info().allocated_bytes, 6 * kRecord);
}

// Each snapshot is a flush, which is a file more: compaction must keep up by itself, and whatever
// it made writers wait for is told.
TEST_F(RocksDbStoreTest, ManySnapshotsOfOneWriterNeverWaitForEver) {
  const auto store = Open();
  for (uint64_t sequence = 1; sequence <= 120; ++sequence) {
    ASSERT_OK(
        TakeSnapshot(*store, MakeManifest(fmt::format("s{}", sequence), kRecord, 1, sequence)));
  }
  EXPECT_EQ(store->info().records, 120u);
  EXPECT_TRUE(IsWhole(*store, MakeManifest("s1", kRecord, 1, 1)));
  EXPECT_TRUE(IsWhole(*store, MakeManifest("s120", kRecord, 1, 120)));
  EXPECT_LT(Number(*store, "stall_us"), UINT64_MAX);  // it is there
}

TEST_F(RocksDbStoreTest, ACapacityIsByWhatFilesTake) {
  const auto store = Open(StoreAccess::kCreate, "?capacity=400k");
  ASSERT_OK(TakeSnapshot(*store, s_));
  EXPECT_TRUE(FailsWith(TakeSnapshot(*store, MakeManifest("t", kRecord, 12, 2)),
                        StatusCode::kOutOfSpace, "its capacity is 400000"));
  EXPECT_TRUE(IsWhole(*store, s_));
  ASSERT_OK(store->RemoveManifest("s"));
  EXPECT_OK(TakeSnapshot(*store, MakeManifest("t", kRecord, 10, 2)));
}

TEST_F(RocksDbStoreTest, RestoresReadFilesAndNotMemtablesOnManyThreads) {
  const auto store = Open(StoreAccess::kCreate, "?wal=on");
  const Manifest many = MakeManifest("many", kRecord, 32, 3);
  ASSERT_OK(TakeSnapshot(*store, many));
  TestRequests gets = GetsOf(many);
  gets.RunOn(*store, 16);
  ASSERT_OK(gets.first_error());
  EXPECT_GE(Number(*store, "blob_bytes_read"), 32 * kRecord);
}

TEST_F(RocksDbStoreTest, RecordsOfABlobFileThatIsGoneAreMissing) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  ASSERT_EQ(Files(".blob").size(), 1u);
  fs::rename(Files(".blob")[0], dir_ / "elsewhere");
  for (const char* options : {"", "?fs=posix"}) {
    const auto reader = TryOpen(StoreAccess::kRead, options);
    if (!reader.ok()) continue;  // RocksDB itself may refuse the database
    TestRequests gets = GetsOf(s_);
    gets.RunOn(**reader, 4);
    EXPECT_TRUE(FailsWith(gets.first_error(), StatusCode::kNotFound, "reading the record"))
        << options;
  }
}

TEST_F(RocksDbStoreTest, AReaderSaysWhatIsThereAndWhatRoomIsLeft) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  const StoreInfo info = Open(StoreAccess::kRead, "?capacity=1MB")->info();
  EXPECT_EQ(info.capacity_bytes, 1'000'000u);
  EXPECT_LE(info.free_bytes, 1'000'000u - 6 * kRecord);
  const StoreInfo unlimited = Open(StoreAccess::kRead)->info();
  EXPECT_GE(unlimited.capacity_bytes, unlimited.free_bytes + 6 * kRecord);
}

TEST_F(RocksDbStoreTest, WithALogThereIsRoomForHalf) {
  const uint64_t without = Open()->info().free_bytes;
  const uint64_t with = Open(StoreAccess::kWrite, "?wal=on")->info().free_bytes;
  EXPECT_LT(with, without * 6 / 10);
}

TEST_F(RocksDbStoreTest, WhatItsOwnFileSystemCantGiveIsRefusedWhenAskedFor) {
  for (const char* asked : {"direct=required", "ioengine=io_uring"}) {
    EXPECT_TRUE(FailsWith(ParseStoreSpec("rocksdb:/x?fs=posix&" + std::string(asked)).status(),
                          StatusCode::kInvalidArgument, asked));
    EXPECT_OK(ParseStoreSpec("rocksdb:/x?layout=index&fs=posix&" + std::string(asked)));
  }
}

// A limit of the file size stands for a full disk: RocksDB's own file system meets it at any write.
TEST_F(RocksDbStoreTest, AFullDiskUnderItsOwnFileSystemIsAnErrorAndNoAbort) {
  for (const char* options : {"?fs=posix", "?fs=posix&wal=on"}) {
    fs::remove_all(path_);
    {
      const auto store = Open(StoreAccess::kCreate, options);
      ASSERT_OK(TakeSnapshot(*store, s_));
    }
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit small{.rlim_cur = 4 * kRecord, .rlim_max = limit.rlim_max};
    ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    {
      const auto store = Open(StoreAccess::kWrite, options);
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
      EXPECT_FALSE(TakeSnapshot(*store, MakeManifest("t", kRecord, 16, 2)).ok()) << options;
      EXPECT_FALSE(store->Flush().ok()) << options;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto again = Open(StoreAccess::kWrite, options);
    EXPECT_TRUE(IsWhole(*again, s_)) << options;
    EXPECT_OK(TakeSnapshot(*again, MakeManifest("u", kRecord, 16, 4))) << options;
  }
}

// As above, met at each of the writes of an opening.
TEST_F(RocksDbStoreTest, AFullDiskWhenItIsOpenedIsAnErrorAndNoAbort) {
  for (const char* options : {"", "?wal=on", "?layout=index", "?fs=posix"}) {
    fs::remove_all(path_);
    ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, options), s_));
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    int failed = 0;
    for (const rlim_t bytes : {0, 10, 60, 200, 1000, 4000, 10'000}) {
      const rlimit small{.rlim_cur = bytes, .rlim_max = limit.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
      for (const StoreAccess access : {StoreAccess::kWrite, StoreAccess::kCreate}) {
        const auto store = TryOpen(access, options);
        failed += !store.ok();
      }
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    EXPECT_GT(failed, 0) << options;
    EXPECT_TRUE(IsWhole(*Open(StoreAccess::kWrite, options), s_)) << options;
  }
}

// RocksDB would make a new database in its place, and remove what was there.
TEST_F(RocksDbStoreTest, WithoutItsListOfFilesItIsDamagedAndNothingIsChanged) {
  for (const char* options : {"", "?wal=on", "?layout=index", "?fs=posix"}) {
    fs::remove_all(path_);
    ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, options), s_));
    for (const char* name : {"CURRENT", "MANIFEST-"}) {
      std::string there;
      for (const auto& entry : fs::directory_iterator(path_ + "/db")) {
        if (entry.path().filename().string().starts_with(name)) there = entry.path();
      }
      const std::string aside = dir_ / "aside";
      fs::rename(there, aside);
      const auto before = Files("");
      for (const StoreAccess access :
           {StoreAccess::kCreate, StoreAccess::kWrite, StoreAccess::kRead}) {
        EXPECT_TRUE(FailsWith(StatusOf(TryOpen(access, options)), StatusCode::kCorruption,
                              "put it back from a copy"))
            << options << name;
      }
      EXPECT_EQ(Files(""), before) << options << name;
      fs::rename(aside, there);
    }
    EXPECT_TRUE(IsWhole(*Open(StoreAccess::kWrite, options), s_)) << options;
  }
}

TEST_F(RocksDbStoreTest, WhatIsNoFileInAFilesPlaceIsDamageAndNothingIsChanged) {
  for (const char* options : {"", "?layout=index", "?fs=posix"}) {
    fs::remove_all(path_);
    ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, options), s_));
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_ + "/db")) names.push_back(entry.path());
    for (const std::string& name : names) {
      const std::string aside = dir_ / "aside";
      fs::rename(name, aside);
      for (const char* kind : {"a pipe", "a link that leads nowhere", "a folder"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", options, name, kind));
        if (std::string_view(kind) == "a pipe") {
          ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
        } else if (std::string_view(kind) == "a folder") {
          fs::create_directory(name);
        } else {
          fs::create_symlink("/nonexistent/file", name);
        }
        for (const StoreAccess access : {StoreAccess::kCreate, StoreAccess::kRead}) {
          EXPECT_TRUE(FailsWith(StatusOf(TryOpen(access, options)), StatusCode::kCorruption,
                                "is no file but a"));
        }
        fs::remove(name);
      }
      fs::rename(aside, name);
    }
    EXPECT_TRUE(IsWhole(*Open(StoreAccess::kWrite, options), s_)) << options;
  }
}

TEST_F(RocksDbStoreTest, KeepsRoomForARemovalBesideItsFiles) {
  for (const char* options : {"", "?layout=index"}) {
    fs::remove_all(path_);
    ASSERT_OK(TakeSnapshot(*Open(StoreAccess::kCreate, options), s_));
    const std::string reserve = path_ + "/RESERVE";
    EXPECT_EQ(fs::file_size(reserve), DiskReserve::kBytes) << options;
    // Whatever is in its place stays.
    fs::remove(reserve);
    fs::create_symlink("elsewhere", reserve);
    EXPECT_TRUE(IsWhole(*Open(StoreAccess::kWrite, options), s_)) << options;
    EXPECT_FALSE(fs::exists(path_ + "/elsewhere")) << options;
  }
}

TEST_F(RocksDbStoreTest, DamagedFilesNeverCrashItAndNeverGiveWrongRecords) {
  ASSERT_OK(TakeSnapshot(*Open(), s_));
  std::mt19937_64 random(20);
  std::vector<std::string> files = Files(".sst");
  for (const std::string& file : Files(".blob")) files.push_back(file);
  for (const auto& entry : fs::directory_iterator(path_ + "/db")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("MANIFEST") || name == "CURRENT") files.push_back(entry.path());
  }
  ASSERT_GE(files.size(), 4u);
  for (const std::string& path : files) {
    std::string intact;
    {
      std::ifstream file(path, std::ios::binary);
      intact.assign(std::istreambuf_iterator<char>(file), {});
    }
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(fmt::format("{} round {}", path, round));
      std::string damaged = intact;
      if (round % 3 == 2) {
        damaged.resize(random() % damaged.size());
      } else {
        damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
      }
      std::ofstream(path, std::ios::binary) << damaged;
      const auto store = TryOpen(StoreAccess::kRead);
      if (!store.ok()) continue;
      TestRequests gets = GetsOf(s_);
      gets.RunOn(**store);
      for (size_t i = 0; i < gets.size(); ++i) {
        if (gets[i].status.ok()) EXPECT_TRUE(gets.IsIntact(i)) << i;
      }
    }
    std::ofstream(path, std::ios::binary) << intact;
  }
  EXPECT_TRUE(IsWhole(*Open(StoreAccess::kRead), s_));
}

}  // namespace
}  // namespace kvbed
