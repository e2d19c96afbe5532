// What only the slab store's crashes can show: slots that are reused too early, and the order of
// its syncs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "tests/backends/crash_testing.h"
#include "tests/backends/trace_testing.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<BlockStore>> OpenOver(std::unique_ptr<Io> io, const std::string& path,
                                             StoreAccess access, const std::string& options = "") {
  const std::string spec =
      fmt::format("slab:{}?capacity={}{}", path, kSlots * kSmallRecord, options);
  return OpenStoreOver(std::move(io), ParseStoreSpec(spec).value(), {.access = access});
}

class SlabCrashTest : public ::testing::Test {
 protected:
  // A store with two snapshots, made once and copied for each run.
  void SetUp() override {
    auto store = OpenOver(Plain(), template_, StoreAccess::kCreate);
    ASSERT_OK(store);
    ASSERT_OK(TakeSnapshot(**store, kept_));
    ASSERT_OK(TakeSnapshot(**store, old_));
  }

  static std::unique_ptr<Io> Plain() { return OpenIo(IoEngine::kPsync).value(); }

  Expected Fresh() {
    fs::remove_all(path_);
    fs::copy(template_, path_, fs::copy_options::recursive);
    Expected expected;
    expected.Settle("kept", kept_);
    expected.Settle("old", old_);
    return expected;
  }

  void CheckAfter(Expected& expected) {
    {
      auto store = OpenOver(Plain(), path_, StoreAccess::kRead, "&direct=off");
      ASSERT_OK(store);
      expected.Check(**store);
    }
    auto store = OpenOver(Plain(), path_, StoreAccess::kWrite, "&direct=off");
    ASSERT_OK(store);
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      EXPECT_FALSE(IsTemporaryPath(entry.path().string())) << entry.path();
    }
    CheckSpace(**store, expected);
  }

  TempDir dir_;
  const std::string template_ = dir_ / "template";
  const std::string path_ = dir_ / "store";
  const Manifest kept_ = MakeManifest("kept", kSmallRecord, 2, 1);
  const Manifest old_ = MakeManifest("old", kSmallRecord, 4, 2);
};

TEST_F(SlabCrashTest, WithoutSyncsAPowerCutDoesTakeWhatWasAnsweredOk) {
  Fresh();
  FaultDevice device;
  auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite, "&sync=none");
  ASSERT_OK(store);
  const Manifest manifest = MakeManifest("new", kSmallRecord, 3, 3);
  ASSERT_OK(TakeSnapshot(**store, manifest));
  device.PowerCut(FaultKind::kLostWrites);
  ASSERT_OK(device.power_cut_status());
  store->reset();
  store = OpenOver(Plain(), path_, StoreAccess::kRead);
  ASSERT_OK(store);
  EXPECT_FALSE(IsWhole(**store, manifest));
  EXPECT_TRUE(IsWhole(**store, kept_));
}

TEST_F(SlabCrashTest, WhatAKilledWriterRemovedIsDurableBeforeItsSlotsAreReused) {
  Expected expected = Fresh();
  FaultDevice device;
  {
    // Killed between the unlink and the sync of the folder.
    const auto io = MakeFaultyIo(Plain(), device);
    ASSERT_OK(io->Unlink(path_ + "/manifests/old.manifest"));
  }
  expected.Settle("old", std::nullopt);
  auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite);
  ASSERT_OK(store);
  expected.Snapshot(**store, MakeManifest("after", kSmallRecord, 4, 6)).IgnoreError();
  EXPECT_FALSE(expected.stopped());
  device.PowerCut(FaultKind::kLostWrites);
  ASSERT_OK(device.power_cut_status());
  store->reset();
  CheckAfter(expected);
}

TEST_F(SlabCrashTest, WhenTheFoldersSyncFailsNeitherTheOldNorTheNewSlotsAreReused) {
  for (const bool remove : {false, true}) {
    Expected expected = Fresh();
    // The last sync of the change is its folder's.
    const auto run = [&](FaultDevice& device, uint64_t& syncs) {
      auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite);
      EXPECT_OK(store);
      const Status status =
          remove ? (*store)->RemoveManifest("old")
                 : TakeSnapshot(**store, Grown(old_, "old", 2, 4), CommitMode::kReplace);
      for (const std::string& line : device.Trace()) syncs += line.find("sync") < 6;
      return std::pair(std::move(*store), status);
    };
    uint64_t syncs = 0;
    {
      FaultDevice device;
      EXPECT_OK(run(device, syncs).second);
    }
    Fresh();
    FaultDevice device(
        {.faults = {
             {.kind = FaultKind::kFailedSync, .target = FaultTarget::kSync, .first = syncs - 1}}});
    uint64_t ignored = 0;
    auto [store, status] = run(device, ignored);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.ToString();
    EXPECT_EQ(device.struck(), 1u);
    // All that either state names stays readable, and puts go elsewhere.
    TestRequests gets = GetsOf(old_);
    gets.RunOn(*store);
    EXPECT_OK(gets.first_error());
    TestRequests puts = PutsOf(MakeManifest("x", kSmallRecord, 3, 9));
    puts.RunOn(*store);
    ASSERT_OK(puts.first_error());
    for (size_t i = 0; i < puts.size(); ++i) EXPECT_GE(puts[i].place, remove ? 6u : 8u);
    EXPECT_TRUE(FailsWith(store->RemoveManifest("kept"), StatusCode::kIoError, "reopen"));
  }
}

TEST_F(SlabCrashTest, ACommitSyncsTheDataThenTheManifestThenItsName) {
  fs::remove_all(path_);
  FaultDevice device;
  auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kCreate);
  ASSERT_OK(store);
  device.ClearTrace();
  ASSERT_OK(TakeSnapshot(**store, MakeManifest("s", kSmallRecord, 3, 1)));
  const std::vector<std::string> trace = device.Trace();
  SCOPED_TRACE(fmt::format("{}", fmt::join(trace, "\n")));
  const std::vector<size_t> order = {
      Position(trace, "create slab-8192.dat"),      Position(trace, "sync_dir store"),
      Position(trace, "preallocate slab-8192.dat"), Position(trace, "write slab-8192.dat"),
      Position(trace, "write slab-8192.dat", true), Position(trace, "fdatasync slab-8192.dat"),
      Position(trace, "write s.manifest"),          Position(trace, "fsync s.manifest"),
      Position(trace, "rename s.manifest"),         Position(trace, "sync_dir manifests")};
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));

  device.ClearTrace();
  ASSERT_OK((*store)->RemoveManifest("s"));
  EXPECT_LT(Position(device.Trace(), "unlink s.manifest"),
            Position(device.Trace(), "sync_dir manifests"));
}

}  // namespace
}  // namespace kvbed
