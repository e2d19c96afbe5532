// The slab store beyond the contract: its files, direct I/O, slots, extents, capacity, full disks,
// short files and unreadable manifests.
#include "backends/slab_store.h"
#include "backends/direct_io.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "backends/slab_files.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class SlabStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<BlockStore>> TryOpen(StoreAccess access, const std::string& options = "") {
    store_.reset();
    KVBED_ASSIGN_OR_RETURN(const StoreSpec spec, ParseStoreSpec("slab:" + path_ + options));
    return OpenStore(spec, {.access = access});
  }
  // With a small capacity files stay small, whatever an extent is.
  void Open(StoreAccess access = StoreAccess::kCreate, const std::string& options = "") {
    auto store = TryOpen(access, options);
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  // Opens over a disk that plays `faults`.
  void OpenFaulty(std::vector<Fault> faults, const std::string& options = "") {
    store_.reset();
    device_ = std::make_unique<FaultDevice>(FaultPlan{.seed = 3, .faults = std::move(faults)});
    auto store = OpenStoreOver(MakeFaultyIo(OpenIo(IoEngine::kPsync).value(), *device_),
                               ParseStoreSpec("slab:" + path_ + options).value(),
                               {.access = StoreAccess::kCreate});
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  std::string SlabPath(uint64_t record_bytes = kSmallRecord) {
    return path_ + "/" + SlabFileName(record_bytes);
  }
  std::string ManifestPath(const std::string& name) {
    return path_ + "/manifests/" + name + ".manifest";
  }
  std::vector<uint64_t> PlacesOf(const std::string& name) {
    std::vector<uint64_t> places;
    const auto listed = store_->ReadManifest(name);
    for (const ManifestBlock& block : listed.value().blocks) {
      places.push_back(block.place);
    }
    return places;
  }
  static void Flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
  }

  TempDir dir_;
  std::string path_ = dir_ / "kv/store";  // parents are made too
  std::unique_ptr<FaultDevice> device_;
  std::unique_ptr<BlockStore> store_;
};

TEST_F(SlabStoreTest, ItsFilesAreWhereTheFormatSaysAndPrivate) {
  Open();
  const Manifest manifest = MakeManifest("s", kSmallRecord, 3);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  for (const std::string& file :
       {path_ + "/STORE", path_ + "/LOCK", SlabPath(), ManifestPath("s")}) {
    struct stat info = {};
    ASSERT_EQ(::stat(file.c_str(), &info), 0) << file;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << file;
  }
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_all);

  // Slot i lies at i times the record's size.
  const auto listed = store_->ReadManifest("s");
  for (const ManifestBlock& block : listed.value().blocks) {
    ASSERT_OK_AND_ASSIGN(const RecordLocation location, store_->Locate(block.id, block.place));
    EXPECT_EQ(location.path, SlabPath());
    EXPECT_EQ(location.offset, block.place * kSmallRecord);
    std::vector<std::byte> record(kSmallRecord), expected(kSmallRecord);
    std::ifstream file(location.path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(location.offset));
    file.read(reinterpret_cast<char*>(record.data()), kSmallRecord);
    FillRecord(block.id, expected);
    EXPECT_EQ(record, expected);
  }
}

TEST_F(SlabStoreTest, InfoSaysWhatIsInEffect) {
  Open(StoreAccess::kCreate, "?ioengine=psync");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 40);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  StoreInfo info = store_->info();
  EXPECT_EQ(info.kind, "slab");
  EXPECT_EQ(info.spec, "slab:" + path_ + "?ioengine=psync");
  EXPECT_EQ(info.ioengine, "psync");
  EXPECT_TRUE(info.direct) << info.direct_reason;
  EXPECT_FALSE(info.fs_type.empty());
  EXPECT_EQ(info.record_bytes, kSmallRecord);
  EXPECT_EQ(info.records, 40u);
  EXPECT_GE(info.allocated_bytes, 40 * kSmallRecord);
  EXPECT_GT(info.free_bytes, 0u);
  EXPECT_EQ(info.durability, "fdatasync; fsync, rename, fsync of the folder");

  Open(StoreAccess::kWrite, "?direct=off&sync=none&capacity=1MiB");
  info = store_->info();
  EXPECT_FALSE(info.direct);
  EXPECT_EQ(info.direct_reason, "direct=off");
  EXPECT_EQ(info.capacity_bytes, uint64_t{1} << 20);
  EXPECT_NE(info.durability.find("sync=none"), std::string::npos);
}

TEST_F(SlabStoreTest, IoUringIsInEffectAndReachesItsDepth) {
  KVBED_NEEDS_ENGINE(IoEngine::kIoUring);
  Open(StoreAccess::kCreate, "?ioengine=io_uring");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 64);
  TestRequests puts = PutsOf(manifest);
  puts.RunOn(*store_, 8);
  ASSERT_OK(puts.first_error());
  const StoreInfo info = store_->info();
  EXPECT_EQ(info.ioengine, "io_uring");
  EXPECT_EQ(info.iodepth_requested, 8u);
  EXPECT_EQ(info.iodepth_achieved, 8u);
}

TEST_F(SlabStoreTest, TmpfsIsReportedSinceItTakesTheFlagAndKeepsFilesInMemory) {
  const auto type = FilesystemType("/dev/shm");
  if (!type.ok() || *type != "tmpfs") KVBED_SKIP_OR_FAIL("no tmpfs at /dev/shm");
  std::string folder = "/dev/shm/kvbed-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  path_ = folder + "/s";
  auto store = TryOpen(StoreAccess::kCreate);
  if (store.ok()) {
    EXPECT_EQ((*store)->info().fs_type, "tmpfs");
    EXPECT_NE((*store)->info().direct_reason.find("memory"), std::string::npos);
    store->reset();
  } else {  // an older kernel refuses the flag
    EXPECT_TRUE(FailsWith(store.status(), StatusCode::kNotSupported, "tmpfs"));
    EXPECT_NE(store.status().message().find("direct=optional"), std::string::npos);
  }
  fs::remove_all(folder);
}

TEST_F(SlabStoreTest, DirectIoThatIsRefusedIsAnErrorUnlessOptional) {
  const auto open = [&](const std::string& options) {
    FaultDevice device({.faults = {{.kind = FaultKind::kEio,
                                    .target = FaultTarget::kWrite,
                                    .first = options.empty() ? 0u : 0u}}});
    auto store = OpenStoreOver(MakeFaultyIo(OpenIo(IoEngine::kPsync).value(), device),
                               ParseStoreSpec("slab:" + path_ + options).value(),
                               {.access = StoreAccess::kWrite});
    const StoreInfo info = store.ok() ? (*store)->info() : StoreInfo{};
    if (store.ok()) store->reset();
    return std::pair(StatusOf(store), info);
  };
  Open();  // makes the store
  store_.reset();
  const Status required = open("").first;
  EXPECT_FALSE(required.ok());
  for (const char* part : {"direct I/O is required", "direct=optional"}) {
    EXPECT_NE(required.message().find(part), std::string::npos) << required.ToString();
  }
  EXPECT_NE(required.message().find(path_), std::string::npos);
  const auto [optional, info] = open("?direct=optional");
  EXPECT_OK(optional);
  EXPECT_FALSE(info.direct);
  EXPECT_NE(info.direct_reason, "");
}

TEST_F(SlabStoreTest, FreedSlotsAreUsedAgainLowestFirst) {
  Open();
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("a", kSmallRecord, 4, 1)));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("b", kSmallRecord, 4, 2)));
  EXPECT_EQ(PlacesOf("a"), (std::vector<uint64_t>{0, 1, 2, 3}));
  ASSERT_OK(store_->RemoveManifest("a"));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("c", kSmallRecord, 6, 3)));
  EXPECT_EQ(PlacesOf("c"), (std::vector<uint64_t>{0, 1, 2, 3, 8, 9}));
  Open(StoreAccess::kWrite);
  ASSERT_OK(store_->RemoveManifest("b"));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("d", kSmallRecord, 5, 4)));
  EXPECT_EQ(PlacesOf("d"), (std::vector<uint64_t>{4, 5, 6, 7, 10}));
}

TEST_F(SlabStoreTest, ASlotIsNotReusedWhileItIsRead) {
  Open();
  const Manifest read = MakeManifest("a", kSmallRecord, 2, 1);
  ASSERT_OK(TakeSnapshot(*store_, read));
  ASSERT_OK_AND_ASSIGN(StoreChannel channel, store_->OpenChannel({}));
  TestRequests gets = GetsOf(read);
  channel.Submit(gets.pointers());
  ASSERT_OK(store_->RemoveManifest("a"));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("b", kSmallRecord, 2, 2)));
  EXPECT_EQ(PlacesOf("b"), (std::vector<uint64_t>{2, 3}));
  std::vector<StoreRequest*> completed;
  ASSERT_OK(channel.Reap(2, completed));
  ASSERT_OK(gets.first_error());
  EXPECT_TRUE(gets.IsIntact(0) && gets.IsIntact(1));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("c", kSmallRecord, 2, 3)));
  EXPECT_EQ(PlacesOf("c"), (std::vector<uint64_t>{0, 1}));
}

TEST_F(SlabStoreTest, ExtentsDoubleAndThenGrowByAnEighth) {
  constexpr uint64_t kMi = uint64_t{1} << 20;
  EXPECT_EQ(ExtentBytes(0, 8192), 16 * kMi);
  EXPECT_EQ(ExtentBytes(64 * kMi, 8192), 64 * kMi);
  EXPECT_EQ(ExtentBytes(512 * kMi, 8192), 256 * kMi);
  EXPECT_EQ(ExtentBytes(8192 * kMi, 8192), 1024 * kMi);
  EXPECT_EQ(ExtentBytes(0, 372'736), 16 * kMi / 372'736 * 372'736);
  EXPECT_EQ(ExtentBytes(0, 1024 * kMi), 1024 * kMi);

  Open();
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 1)));
  EXPECT_EQ(fs::file_size(SlabPath()), 16 * kMi);
}

TEST_F(SlabStoreTest, ACapacityIsKeptAndSpaceThatIsFreedIsUsedWithoutReopening) {
  Open(StoreAccess::kCreate, "?capacity=100k");  // 12 slots
  const Manifest first = MakeManifest("a", kSmallRecord, 10, 1);
  ASSERT_OK(TakeSnapshot(*store_, first));
  const Status full = TakeSnapshot(*store_, MakeManifest("b", kSmallRecord, 3, 2));
  EXPECT_TRUE(FailsWith(full, StatusCode::kOutOfSpace, SlabPath()));
  EXPECT_NE(full.message().find("capacity of 100000"), std::string::npos) << full.ToString();
  EXPECT_EQ(store_->info().free_bytes / kSmallRecord, 2u);
  EXPECT_TRUE(IsWhole(*store_, first));
  ASSERT_OK(store_->RemoveManifest("a"));
  EXPECT_EQ(store_->info().free_bytes / kSmallRecord, 12u);
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("b", kSmallRecord, 12, 3)));
  EXPECT_EQ(fs::file_size(SlabPath()), 12 * kSmallRecord);
  // Another record size takes from the same capacity.
  EXPECT_EQ(TakeSnapshot(*store_, MakeManifest("c", 28'672, 1, 4)).code(), StatusCode::kOutOfSpace);
}

TEST_F(SlabStoreTest, FreeSpaceIsTheSameBeforeAndAfterAHundredSnapshots) {
  Open(StoreAccess::kCreate, "?capacity=1MiB&direct=off");
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("kept", kSmallRecord, 3, 999)));
  const StoreInfo before = store_->info();
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 1 + i % 9, i + 1),
                           CommitMode::kReplace));
    if (i % 3 == 0) ASSERT_OK(store_->RemoveManifest("s"));  // the last one too
  }
  const StoreInfo after = store_->info();
  EXPECT_EQ(after.free_bytes, before.free_bytes);
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.records, before.records);
}

TEST_F(SlabStoreTest, AFullDiskIsAClearErrorAndLeavesEarlierSnapshotsWhole) {
  const Manifest earlier = MakeManifest("earlier", kSmallRecord, 2, 1);
  Open(StoreAccess::kCreate, "?capacity=16KiB");
  ASSERT_OK(TakeSnapshot(*store_, earlier));
  for (const FaultTarget target :
       {FaultTarget::kAllocate, FaultTarget::kWrite, FaultTarget::kRename}) {
    // The probe's own write is the first one.
    OpenFaulty({{.kind = FaultKind::kEnospc,
                 .target = target,
                 .first = target == FaultTarget::kWrite ? 1u : 0u,
                 .count = target == FaultTarget::kAllocate ? 30u : 1u}});
    const Manifest later = MakeManifest("later", kSmallRecord, 4, 2);
    const Status full = TakeSnapshot(*store_, later);
    EXPECT_TRUE(FailsWith(full, StatusCode::kOutOfSpace, path_)) << static_cast<int>(target);
    EXPECT_EQ(device_->struck() > 0, true);
    EXPECT_TRUE(IsWhole(*store_, earlier));
    EXPECT_EQ(SnapshotNames(*store_), std::vector<std::string>{"earlier"});
    // The fault is spent: the same store takes it now.
    while (target == FaultTarget::kAllocate && device_->struck() < 30) {
      TakeSnapshot(*store_, later).IgnoreError();
    }
    if (SnapshotNames(*store_).size() == 1) ASSERT_OK(TakeSnapshot(*store_, later));
    EXPECT_TRUE(IsWhole(*store_, later));
    ASSERT_OK(store_->RemoveManifest("later"));
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      EXPECT_FALSE(IsTemporaryPath(entry.path().string())) << entry.path();
    }
    fs::remove(SlabPath(28'672));
    store_.reset();
    fs::resize_file(SlabPath(), 2 * kSmallRecord);
  }
}

TEST_F(SlabStoreTest, ARemoveWorksOnAFullDisk) {
  Open();
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 2)));
  OpenFaulty({{.kind = FaultKind::kEnospc, .target = FaultTarget::kWrite, .count = kForever}});
  EXPECT_TRUE(store_->info().direct) << store_->info().direct_reason;
  EXPECT_OK(store_->RemoveManifest("s"));
}

TEST_F(SlabStoreTest, AFileThatWasCutGivesShortRecordsAndNotErrors) {
  Open(StoreAccess::kCreate, "?capacity=100k");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 4);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  store_.reset();
  fs::resize_file(SlabPath(), 2 * kSmallRecord + 4096);
  Open(StoreAccess::kRead);
  EXPECT_OK(store_->ListManifests().value()[0].status);
  TestRequests gets = GetsOf(manifest);
  gets.RunOn(*store_);
  EXPECT_OK(gets[0].status);
  EXPECT_OK(gets[1].status);
  EXPECT_TRUE(FailsWith(gets[2].status, StatusCode::kCorruption, "4096 of 8192"));
  EXPECT_EQ(gets[2].short_bytes, 4096u);
  EXPECT_TRUE(FailsWith(gets[3].status, StatusCode::kCorruption, "0 of 8192"));
  EXPECT_EQ(gets[3].short_bytes, 0u);
  EXPECT_FALSE(gets[0].short_bytes);

  // A writer grows the file again and doesn't hand out the slots that are named.
  Open(StoreAccess::kWrite, "?capacity=100k");
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("t", kSmallRecord, 3, 2)));
  EXPECT_EQ(PlacesOf("t"), (std::vector<uint64_t>{4, 5, 6}));
}

TEST_F(SlabStoreTest, AFileThatWasMadeToLookHugeCostsNoMemory) {
  Open(StoreAccess::kCreate);
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2, 1);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  const uint64_t allocated = store_->info().allocated_bytes;
  store_.reset();
  std::error_code error;
  fs::resize_file(SlabPath(), uint64_t{256} << 30, error);
  if (error) GTEST_SKIP() << "no file of this length here: " << error.message();
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite}) {
    Open(access);
    EXPECT_TRUE(IsWhole(*store_, manifest));
    EXPECT_LE(store_->info().allocated_bytes, allocated + kPageBytes);
  }
  EXPECT_OK(TakeSnapshot(*store_, MakeManifest("more", kSmallRecord, 3, 2)));
  EXPECT_LT(peak_kib(), before + 100'000);  // the slots of that length would take five times this
}

TEST_F(SlabStoreTest, AMissingFileIsNotFound) {
  Open();
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  store_.reset();
  fs::remove(SlabPath());
  Open(StoreAccess::kRead);
  TestRequests gets = GetsOf(manifest);
  gets.RunOn(*store_);
  EXPECT_TRUE(FailsWith(gets[0].status, StatusCode::kNotFound, SlabPath()));
  Open(StoreAccess::kCreate);
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("t", kSmallRecord, 1, 2)));
  EXPECT_EQ(PlacesOf("t"), std::vector<uint64_t>{2});
}

TEST_F(SlabStoreTest, AManifestOfANewerVersionIsNeitherRemovedNorReplaced) {
  Open(StoreAccess::kCreate);
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("newer", kSmallRecord, 2, 1)));
  Flip(ManifestPath("newer"), 8);  // the version's first byte
  Open(StoreAccess::kWrite);
  EXPECT_TRUE(
      FailsWith(store_->RemoveManifest("newer"), StatusCode::kNotSupported, "left as it is"));
  EXPECT_EQ(
      TakeSnapshot(*store_, MakeManifest("newer", kSmallRecord, 1, 2), CommitMode::kReplace).code(),
      StatusCode::kNotSupported);
  EXPECT_TRUE(fs::exists(ManifestPath("newer")));
  // Nor does a damaged one that nobody can read stand in the way.
  Flip(ManifestPath("newer"), 8);
  Flip(ManifestPath("newer"), 70);
  Open(StoreAccess::kWrite);
  EXPECT_OK(store_->RemoveManifest("newer"));
}

TEST_F(SlabStoreTest, AFolderInThePlaceOfASlabFileIsNamed) {
  Open(StoreAccess::kCreate);
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2, 1);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  store_.reset();
  fs::remove(SlabPath());
  fs::create_directory(SlabPath());
  Open(StoreAccess::kRead);
  EXPECT_FALSE(IsWhole(*store_, manifest));
}

TEST_F(SlabStoreTest, AnUnreadableManifestIsListedAndItsSlotsAreNotReused) {
  Open(StoreAccess::kCreate, "?capacity=1M");
  const Manifest good = MakeManifest("good", kSmallRecord, 2, 1);
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("bad", kSmallRecord, 3, 2)));
  ASSERT_OK(TakeSnapshot(*store_, good));
  store_.reset();
  const uint64_t slots = fs::file_size(SlabPath()) / kSmallRecord;
  Flip(ManifestPath("bad"), 70);

  Open(StoreAccess::kRead);
  const auto listed = store_->ListManifests().value();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "bad");
  EXPECT_TRUE(FailsWith(listed[0].status, StatusCode::kCorruption, ManifestPath("bad")));
  EXPECT_OK(listed[1].status);
  EXPECT_EQ(StatusOf(store_->ReadManifest("bad")).code(), StatusCode::kCorruption);
  EXPECT_TRUE(IsWhole(*store_, good));

  Open(StoreAccess::kWrite, "?capacity=2M");
  const Manifest later = MakeManifest("later", kSmallRecord, 3, 3);
  ASSERT_OK(TakeSnapshot(*store_, later));
  for (const uint64_t place : PlacesOf("later")) EXPECT_GE(place, slots);
  ASSERT_OK(store_->RemoveManifest("good"));
  ASSERT_OK(TakeSnapshot(*store_, good));
  for (const uint64_t place : PlacesOf("good")) EXPECT_GE(place, slots);
  EXPECT_EQ(TakeSnapshot(*store_, MakeManifest("bad", kSmallRecord, 1, 4)).code(),
            StatusCode::kInvalidArgument);

  // Removing it is the remedy, without reopening.
  ASSERT_OK(store_->RemoveManifest("bad"));
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("reuse", kSmallRecord, 5, 5)));
  EXPECT_EQ(PlacesOf("reuse"), (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(IsWhole(*store_, later));
}

TEST_F(SlabStoreTest, AManifestOfAnotherStoreOrUnderAnotherNameIsRefused) {
  Open();
  ASSERT_OK(TakeSnapshot(*store_, MakeManifest("s", kSmallRecord, 2)));
  store_.reset();
  fs::copy_file(ManifestPath("s"), ManifestPath("copy"));
  const std::string first = path_;
  path_ = dir_ / "other";
  Open();
  store_.reset();
  fs::copy_file(first + "/manifests/s.manifest", ManifestPath("s"));
  Open(StoreAccess::kRead);
  EXPECT_TRUE(FailsWith(store_->ListManifests().value()[0].status, StatusCode::kCorruption,
                        "belongs to the store"));
  path_ = first;
  Open(StoreAccess::kRead);
  const auto listed = store_->ListManifests().value();
  EXPECT_TRUE(FailsWith(listed[0].status, StatusCode::kCorruption, "named s"));
  EXPECT_OK(listed[1].status);
}

TEST_F(SlabStoreTest, ManifestsThatContradictEachOtherDoNotBothCount) {
  Open();
  const Manifest s = MakeManifest("s", kSmallRecord, 3, 1);
  ASSERT_OK(TakeSnapshot(*store_, s));
  const Digest128 uuid = store_->info().uuid;
  store_.reset();
  const auto write = [&](const std::string& name, auto change) {
    Manifest manifest = MakeManifest(name, kSmallRecord, 3, 2);
    manifest.created_ns = 0;  // older than s
    manifest.store_uuid = uuid;
    for (uint64_t i = 0; i < 3; ++i) manifest.blocks[i].place = 10 + i;
    change(manifest);
    std::ofstream(ManifestPath(name), std::ios::binary) << EncodeManifest(manifest);
  };
  write("fine", [](Manifest&) {});
  write("other-slot", [&](Manifest& m) {
    m.sequence_id = 1;
    m.blocks = s.blocks;
    m.blocks[0].place = 77;
  });
  write("same-slot", [](Manifest& m) {
    m.sequence_id = 3;
    for (ManifestBlock& block : m.blocks) block.id.key.sequence_id = 3;
    m.blocks[1].place = 2;  // s has it
  });
  write("twice", [](Manifest& m) {
    m.sequence_id = 4;
    for (ManifestBlock& block : m.blocks) {
      block.id.key.sequence_id = 4;
      block.place = 50;
    }
  });
  write("beyond", [](Manifest& m) {
    m.sequence_id = 5;
    for (ManifestBlock& block : m.blocks) {
      block.id.key.sequence_id = 5;
      block.place = UINT64_MAX / kSmallRecord + block.id.key.block_index;
    }
  });
  Open(StoreAccess::kWrite);
  const std::map<std::string, std::string> expected = {
      {"fine", ""},
      {"other-slot", "another place or other bytes"},
      {"same-slot", "which holds a newer snapshot's record"},
      {"twice", "names slot 50 twice"},
      {"beyond", "which no file can have"},
      {"s", ""}};
  const auto listed = store_->ListManifests();
  for (const ManifestSummary& summary : listed.value()) {
    const std::string& part = expected.at(summary.name);
    if (part.empty()) {
      EXPECT_OK(summary.status);
    } else {
      EXPECT_TRUE(FailsWith(summary.status, StatusCode::kCorruption, part)) << summary.name;
      EXPECT_OK(store_->RemoveManifest(summary.name));
    }
  }
  EXPECT_TRUE(IsWhole(*store_, s));
}

TEST_F(SlabStoreTest, DamagedFilesNeverCrashItAndNeverGiveWrongRecords) {
  Open(StoreAccess::kCreate, "?capacity=64k&direct=off");
  const Manifest s = MakeManifest("s", kSmallRecord, 3);
  ASSERT_OK(TakeSnapshot(*store_, s));
  store_.reset();
  std::mt19937_64 random(20);
  for (const std::string& path : {path_ + "/STORE", ManifestPath("s")}) {
    std::ifstream file(path, std::ios::binary);
    const std::string intact{std::istreambuf_iterator<char>(file), {}};
    for (int round = 0; round < 150; ++round) {
      std::string damaged = intact;
      switch (random() % 3) {
        case 0: damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8); break;
        case 1: damaged.resize(random() % damaged.size()); break;
        default: damaged.insert(random() % damaged.size(), random() % 5000 + 1, '\xff'); break;
      }
      std::ofstream(path, std::ios::binary) << damaged;
      auto store = TryOpen(round % 2 == 0 ? StoreAccess::kRead : StoreAccess::kWrite,
                           "?capacity=64k&direct=off");
      if (!store.ok()) continue;
      EXPECT_FALSE(StatusOf((*store)->ReadManifest("s")).ok()) << path << " round " << round;
      TestRequests gets = GetsOf(s);
      gets.RunOn(**store);
      EXPECT_EQ(gets[0].status.code(), StatusCode::kNotFound);
    }
    std::ofstream(path, std::ios::binary) << intact;
  }
  Open(StoreAccess::kRead, "?direct=off");
  EXPECT_TRUE(IsWhole(*store_, s));  // the control: undamaged it opens
}

TEST_F(SlabStoreTest, AFolderThatCanOnlyBeReadCanBeRead) {
  Open(StoreAccess::kCreate, "?capacity=64k");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(*store_, manifest));
  store_.reset();
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  Open(StoreAccess::kRead);
  EXPECT_TRUE(IsWhole(*store_, manifest));
  store_.reset();
  fs::permissions(path_, fs::perms::owner_all);
}

TEST_F(SlabStoreTest, AHintMakesTheFileAtOnce) {
  store_ = OpenStore(ParseStoreSpec("slab:" + path_).value(),
                     {.access = StoreAccess::kCreate, .record_bytes_hint = 372'736})
               .value();
  EXPECT_TRUE(fs::exists(SlabPath(372'736)));
}

}  // namespace
}  // namespace kvbed
