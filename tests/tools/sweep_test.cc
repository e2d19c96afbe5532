// The parts of a sweep: its knee, its plan, its points with a disk and without one, its rows, and
// the place where it works.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "offload/aligned_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/bench/null_io.h"
#include "tools/sweep/knee.h"
#include "tools/sweep/sweep_place.h"
#include "tools/sweep/sweep_plan.h"
#include "tools/sweep/sweep_point.h"
#include "tools/sweep/sweep_row.h"
#include "tools/sweep/sweep_table.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

// ---- the knee --------------------------------------------------------------------------------

TEST(Knee, IsTheSmallestDepthWith95PercentOfThePeak) {
  EXPECT_EQ(FindKnee({{1, 0.3, 200}, {4, 0.95, 250}, {16, 1.0, 900}, {64, 0.99, 3600}}),
            (Knee{4, 0.95, 250, 1.0, false}));
  EXPECT_EQ(FindKnee({{1, 0.3, 200}, {4, 0.949, 250}, {16, 1.0, 900}, {64, 0.99, 3600}}),
            (Knee{16, 1.0, 900, 1.0, false}));
}

TEST(Knee, DoesntDependOnTheOrderOfTheList) {
  EXPECT_EQ(FindKnee({{64, 2.0, 9}, {1, 1.95, 1}, {16, 2.0, 3}}), (Knee{1, 1.95, 1, 2.0, false}));
}

TEST(Knee, AtTheLargestDepthSaysThatMoreMightPay) {
  EXPECT_EQ(FindKnee({{1, 1, 10}, {4, 2, 20}}), (Knee{4, 2, 20, 2, true}));
}

TEST(Knee, NeedsTwoDepths) {
  EXPECT_EQ(FindKnee({}), std::nullopt);
  EXPECT_EQ(FindKnee({{16, 1.0, 900}}), std::nullopt);
}

// ---- the plan --------------------------------------------------------------------------------

constexpr SweepEngine kUring{IoEngine::kIoUring, IoEngine::kIoUring};
constexpr SweepEngine kPsyncEngine{IoEngine::kPsync, IoEngine::kPsync};

SweepLists Lists() {
  return {.ops = {SweepOp::kWrite, SweepOp::kRead},
          .engines = {kUring, kPsyncEngine},
          .directs = {DirectMode::kRequired},
          .registered = {Registered::kOn, Registered::kOff},
          .bs_bytes = {65536, 1048576},
          .iodepths = {1, 64},
          .bytes = 16 << 20};
}

TEST(SweepPlan, IsTheProductOfTheListsWithOneOfPsync) {
  ASSERT_OK_AND_ASSIGN(const SweepPlan plan, MakeSweepPlan(Lists()));
  // Two directions, and per direction two sizes for registered, not registered and psync.
  ASSERT_EQ(plan.groups.size(), 2u * 3 * 2);
  EXPECT_EQ(plan.points(), 24u);
  EXPECT_EQ(plan.groups[0].op, SweepOp::kRead) << "reads find what was written first";
  EXPECT_EQ(plan.groups[6].op, SweepOp::kWrite);
  const auto psync = std::ranges::count_if(plan.groups, [](const SweepGroup& group) {
    return group.engine.effective == IoEngine::kPsync;
  });
  EXPECT_EQ(psync, 4);
}

TEST(SweepPlan, AutoThatComesToPsyncHasNothingToRegisterEither) {
  SweepLists lists = Lists();
  lists.engines = {{IoEngine::kAuto, IoEngine::kPsync}};
  ASSERT_OK_AND_ASSIGN(const SweepPlan plan, MakeSweepPlan(lists));
  EXPECT_EQ(plan.groups.size(), 4u);
}

TEST(SweepPlan, EachPassFillsTheLargestDepthOnce) {
  ASSERT_OK_AND_ASSIGN(const SweepPlan plan, MakeSweepPlan(Lists()));
  EXPECT_EQ(plan.groups[0].bytes(), 16u << 20);
  EXPECT_EQ(plan.groups[1].bytes(), 64u << 20) << "64 blocks of 1 MiB at both depths";
  EXPECT_EQ(plan.disk_bytes(), 64u << 20);
  EXPECT_EQ(plan.memory_bytes, 64u << 20);
}

TEST(SweepPlan, CountsWhatIsMoved) {
  SweepLists lists = Lists();
  lists.ops = {SweepOp::kWrite};
  lists.engines = {kPsyncEngine};
  lists.bs_bytes = {65536};
  ASSERT_OK_AND_ASSIGN(const SweepPlan plan, MakeSweepPlan(lists));
  const uint64_t pass_bytes = 16 << 20;
  EXPECT_EQ(TrafficOf(plan, 3, false).written_bytes, pass_bytes * (1 + 2 * 4));
  EXPECT_EQ(TrafficOf(plan, 3, true).written_bytes, pass_bytes * (1 + 2 * 7));
  EXPECT_EQ(TrafficOf(plan, 3, false).read_bytes, 0u);
}

TEST(SweepPlan, RefusesWhatCantBeMeasured) {
  const auto refused = [](auto change, const char* says) {
    SweepLists lists = Lists();
    change(lists);
    EXPECT_TRUE(FailsWith(MakeSweepPlan(lists).status(), StatusCode::kInvalidArgument, says));
  };
  refused([](SweepLists& lists) { lists.bs_bytes = {5000}; }, "multiple of 4096");
  refused([](SweepLists& lists) { lists.bs_bytes = {uint64_t{2} << 30}; }, "--bs");
  refused([](SweepLists& lists) { lists.bs_bytes = {4096, 4096}; }, "twice");
  refused([](SweepLists& lists) { lists.bs_bytes = {}; }, "empty");
  refused([](SweepLists& lists) { lists.iodepths = {4097}; }, "--iodepth");
  refused([](SweepLists& lists) { lists.iodepths = {4, 4}; }, "twice");
  refused([](SweepLists& lists) { lists.ops = {}; }, "empty");
  refused([](SweepLists& lists) { lists.bytes = uint64_t{1} << 62; }, "--bytes");
  refused(
      [](SweepLists& lists) {
        lists.bs_bytes.clear();
        for (uint64_t i = 1; i <= 4000; ++i) lists.bs_bytes.push_back(i * 4096);
      },
      "points");
}

// ---- a point ---------------------------------------------------------------------------------

class SweepPointTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBlockBytes = 4 * kPageBytes;
  static constexpr uint64_t kBlocks = 40;
  static constexpr uint32_t kDepth = 4;

  // Counters of an NFS mount that never move, whatever this machine's disks do.
  void SetUp() override {
    const SystemRoots roots{.proc = dir_ / "proc", .sys = dir_ / "sys"};
    fs::create_directories(roots.proc + "/self");
    std::ofstream(roots.proc + "/self/mountinfo")
        << "30 27 0:44 / " << dir_.path() << " rw - nfs4 server:/export rw\n";
    std::ofstream(roots.proc + "/self/mountstats")
        << "device server:/export mounted on " << dir_.path()
        << " with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 500 600 7 8\n";
    still_ = DeviceCounters::For(dir_.path(), roots);
    ASSERT_EQ(still_.source(), CounterSource::kMountStats);
    ASSERT_OK_AND_ASSIGN(memory_, AlignedBuffer::Allocate(kDepth * kBlockBytes));
    PageStamps::FillBase(memory_.bytes(), 1);
    ASSERT_OK_AND_ASSIGN(io_, OpenIo(IoEngine::kAuto));
    Fill();
  }

  RawTransfer Transfer(bool write) const {
    return {.write = write,
            .file = dir_ / "f",
            .direct = false,
            .block_bytes = kBlockBytes,
            .blocks = kBlocks,
            .iodepth = kDepth};
  }
  void Fill() {
    ASSERT_OK_AND_ASSIGN(const auto channel,
                         RawChannel::Open(*io_, Transfer(true), memory_.bytes()));
    ASSERT_OK(channel->Pass({.stamps = &kFilled}).status());
  }
  SweepPointSetup Setup(bool write, const DeviceCounters& device) {
    SweepPointSetup setup;
    setup.iodepth = kDepth;
    setup.transfer = Transfer(write);
    setup.memory = memory_.bytes();
    setup.file_stamps = kFilled;
    setup.device = &device;
    return setup;
  }
  Result<SweepPoint> Measure(Io& io, const SweepPointSetup& setup) {
    return MeasureSweepPoint(io, setup, [this] { ++passes_; });
  }
  static SweepRows RowsOf(std::vector<SweepPoint> points) {
    SweepGroupResult group;
    group.group.op = points[0].verified_blocks > 0 ? SweepOp::kRead : SweepOp::kWrite;
    group.support.filesystem = "ext4";
    group.points = std::move(points);
    return MakeSweepRows({}, group, {});
  }
  static bool HasReason(const Json& row, std::string_view part) {
    return std::ranges::any_of(row.at("reasons"), [&](const Json& reason) {
      return reason.get<std::string>().find(part) != std::string::npos;
    });
  }

  static constexpr PageStamps kFilled{7, 0};
  TempDir dir_;
  AlignedBuffer memory_;
  std::unique_ptr<Io> io_;
  DeviceCounters still_;
  DeviceCounters blind_;
  int passes_ = 0;
};

TEST_F(SweepPointTest, AReadFindsWhatWasWrittenWithFewBlocksOfMemory) {
  for (BlockOrderKind order : {BlockOrderKind::kSequential, BlockOrderKind::kRandom}) {
    SweepPointSetup setup = Setup(false, blind_);
    setup.transfer.order = order;
    passes_ = 0;
    ASSERT_OK_AND_ASSIGN(const SweepPoint point, Measure(*io_, setup));
    EXPECT_OK(point.failure);
    EXPECT_EQ(passes_, 4) << "a warm-up and three timed passes";
    EXPECT_EQ(point.samples_ns.size(), 3u);
    EXPECT_EQ(point.latencies_ns.size(), 3 * kBlocks);
    EXPECT_EQ(point.bytes.app.read_bytes, 3 * kBlocks * kBlockBytes);
    EXPECT_EQ(point.verified_blocks, 4 * kDepth) << "what is in memory after each pass";
    EXPECT_EQ(point.wrong_blocks, 0u);
    if (point.queue.engine == IoEngine::kIoUring) {
      EXPECT_EQ(point.queue.iodepth_achieved, kDepth);
    }
    EXPECT_GT(point.null_gb_per_s.value_or(0), 0);
  }
}

TEST_F(SweepPointTest, AWriteIsOfNewDataEachTime) {
  ASSERT_OK_AND_ASSIGN(const SweepPoint point, Measure(*io_, Setup(true, blind_)));
  EXPECT_OK(point.failure);
  EXPECT_EQ(point.bytes.app.written_bytes, 3 * kBlocks * kBlockBytes);
  // So a read that expects what was there before is told apart.
  ASSERT_OK_AND_ASSIGN(const SweepPoint read, Measure(*io_, Setup(false, blind_)));
  EXPECT_EQ(read.wrong_blocks, read.verified_blocks);
  const SweepRows rows = RowsOf({read});
  EXPECT_TRUE(rows.failed_check);
  EXPECT_EQ(rows.rows[0]["status"], "failed");
  EXPECT_EQ(rows.rows[0]["verify"]["status"], "differs");
}

TEST_F(SweepPointTest, TheNullQueueInThePlaceOfADiskIsCaughtByTheByteRatio) {
  ASSERT_OK_AND_ASSIGN(auto base, OpenIo(IoEngine::kPsync));
  const auto null = MakeNullIo(std::move(base));
  for (bool write : {true, false}) {
    ASSERT_OK_AND_ASSIGN(SweepPoint point, Measure(*null, Setup(write, still_)));
    EXPECT_OK(point.failure);
    point.bytes.direct = true;  // as it is where the filesystem takes O_DIRECT
    const SweepRows rows = RowsOf({point});
    EXPECT_TRUE(rows.failed_check);
    EXPECT_EQ(rows.rows[0]["status"], "failed");
    EXPECT_EQ(rows.rows[0]["bytes"]["ratio"], 0);
    EXPECT_TRUE(HasReason(rows.rows[0], "a cache answered"));
    if (!write) {
      EXPECT_EQ(rows.rows[0]["verify"]["status"], "differs") << "nothing came";
    }
  }
}

TEST_F(SweepPointTest, ABufferedRowIsLabelledAndNeverPublishable) {
  SweepPointSetup setup = Setup(false, still_);
  setup.repetitions = 5;
  ASSERT_OK_AND_ASSIGN(const SweepPoint point, Measure(*io_, setup));
  const SweepRows rows = RowsOf({point});
  EXPECT_FALSE(rows.failed_check) << "that the page cache answered is what it is for";
  EXPECT_FALSE(rows.publishable);
  EXPECT_EQ(rows.rows[0]["cell"]["cache_mode"], "warm");
  EXPECT_EQ(rows.rows[0]["cell"]["direct"], false);
  EXPECT_EQ(rows.rows[0]["bytes"]["ratio"], 0);
  EXPECT_TRUE(HasReason(rows.rows[0], "not direct"));
}

TEST_F(SweepPointTest, AFailureIsARowWithoutFiguresAndTheGroupHasNoKnee) {
  ASSERT_OK_AND_ASSIGN(const SweepPoint good, Measure(*io_, Setup(false, blind_)));
  SweepPointSetup setup = Setup(false, blind_);
  setup.transfer.blocks = 2 * kBlocks;  // beyond the end of the file
  ASSERT_OK_AND_ASSIGN(const SweepPoint bad, Measure(*io_, setup));
  EXPECT_FALSE(bad.failure.ok());
  const SweepRows rows = RowsOf({good, bad});
  EXPECT_TRUE(rows.failed_io);
  EXPECT_EQ(rows.rows[0]["status"], "ok");
  EXPECT_EQ(rows.rows[1]["status"], "failed");
  EXPECT_EQ(rows.rows[1]["gb_per_s"], nullptr);
  EXPECT_EQ(rows.rows[0]["knee"], nullptr);
  EXPECT_NE(rows.rows[0]["knee_reason"].get<std::string>().find("failed"), std::string::npos);
}

TEST_F(SweepPointTest, UnregisteredMemoryIsSaidToBe) {
  SweepPointSetup setup = Setup(false, blind_);
  setup.transfer.registered = false;
  ASSERT_OK_AND_ASSIGN(const SweepPoint point, Measure(*io_, setup));
  EXPECT_OK(point.failure);
  EXPECT_FALSE(point.queue.registered_buffers);
  EXPECT_FALSE(point.queue.registered_files);
  EXPECT_NE(point.queue.registered_buffers_reason, "");
}

// ---- rows and tables -------------------------------------------------------------------------

// A point whose passes took so long each.
SweepPoint Timed(uint32_t iodepth, std::vector<uint64_t> samples_ns) {
  SweepPoint point;
  point.blocks = 1000;
  point.block_bytes = 1'000'000;
  point.repetitions = static_cast<uint32_t>(samples_ns.size());
  point.iodepth = point.queue.iodepth_achieved = iodepth;
  point.queue.engine = IoEngine::kIoUring;
  point.direct = point.bytes.direct = true;
  point.latencies_ns.assign(100, 1000 * iodepth);
  point.cpu_ns = point.stamp_ns = std::vector<uint64_t>(samples_ns.size(), 100'000'000);
  point.samples_ns = std::move(samples_ns);
  point.bytes.app = {1000, 0};
  point.bytes.process = point.bytes.device = point.bytes.app;
  point.bytes.source = CounterSource::kSectors;
  return point;
}

SweepRows TwoDepths() {
  SweepGroupResult group;
  group.group.bs_bytes = 1'000'000;
  group.support.filesystem = "ext4";
  group.points = {Timed(1, {500'000'000, 500'000'000, 500'000'000, 500'000'000, 500'000'000}),
                  Timed(4, {250'000'000, 240'000'000, 260'000'000, 250'000'000, 250'000'000})};
  return MakeSweepRows({}, group, {.argv = {}, .started_unix_ns = 0, .env = Json::object()});
}

TEST(SweepRow, HasTheFixedNamesAndMedians) {
  const SweepRows rows = TwoDepths();
  EXPECT_TRUE(rows.publishable) << rows.rows[1]["reasons"];
  const Json& row = rows.rows[1];
  EXPECT_EQ(row["schema"], "kvbed-sweep/1");
  EXPECT_EQ(row["gb_per_s"], 4.0);
  EXPECT_EQ(row["iops"], 4000.0);
  EXPECT_EQ(row["median_ns"], 250'000'000);
  EXPECT_EQ(row["min_ns"], 240'000'000);
  EXPECT_EQ(row["max_ns"], 260'000'000);
  EXPECT_EQ(row["samples_ns"].size(), 5u);
  EXPECT_EQ(row["cpu_s_per_gb"], 0.1);
  EXPECT_EQ(row["lat_ns"]["p99"], 4000);
  EXPECT_EQ(row["lat_ns"]["p99_9"], nullptr) << "100 values are too few";
  EXPECT_EQ(row["cell"]["cache_mode"], "none");
  for (const Json& one : rows.rows) {
    EXPECT_EQ(one["knee"]["iodepth"], 4);
    EXPECT_EQ(one["knee"]["lat_p50_ns"], 4000);
    EXPECT_EQ(one["knee"]["peak_gb_per_s"], 4.0);
  }
}

TEST(SweepRow, HasNoKneeOverAPointThatACacheAnswered) {
  SweepGroupResult group;
  group.support.filesystem = "ext4";
  group.points = {Timed(1, {2, 2, 2, 2, 2}), Timed(4, {1, 1, 1, 1, 1})};
  group.points[1].bytes.device->read_bytes = 0;
  const SweepRows rows = MakeSweepRows({}, group, {});
  EXPECT_EQ(rows.rows[0]["status"], "ok");
  EXPECT_EQ(rows.rows[1]["status"], "failed");
  EXPECT_EQ(rows.rows[0]["knee"], nullptr);
}

TEST(SweepRow, OfPsyncSaysThatDepthIsOne) {
  SweepGroupResult group;
  group.support.filesystem = "ext4";
  group.points = {Timed(1, {1, 1, 1, 1, 1}), Timed(4, {1, 1, 1, 1, 1})};
  for (SweepPoint& point : group.points) {
    point.queue.engine = IoEngine::kPsync;
    point.queue.iodepth_achieved = 1;
  }
  const SweepRows rows = MakeSweepRows({}, group, {});
  EXPECT_EQ(rows.rows[1]["iodepth_achieved"], 1);
  EXPECT_NE(rows.rows[1]["iodepth_achieved_reason"], nullptr);
  EXPECT_EQ(rows.rows[1]["knee"], nullptr);
}

TEST(SweepTable, HasSizesDownDepthsAcrossAndTheKneeBelow) {
  const SweepRows rows = TwoDepths();
  SweepTable table(SweepTableStyle::kText, "subject");
  std::string text = table.Group(rows.rows);
  text += table.End();
  EXPECT_NE(text.find("         bs    depth 1    depth 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    1000000      2.000     4.000*\n"), std::string::npos) << text;
  EXPECT_NE(text.find("depth 4: 4.000 GB/s of 4.000 at the peak, p50 4 us"), std::string::npos)
      << text;
  EXPECT_EQ(table.End(), "");
}

TEST(SweepTable, ALabelCantSteerTheTerminalOrTheCsv) {
  SweepRows rows = TwoDepths();
  rows.rows[0]["reasons"].push_back("\x1b[2J");
  rows.rows[0]["cell"]["label"] = "a,\"b\"";
  SweepTable table(SweepTableStyle::kMarkdown, "subject");
  std::string text = table.Group(rows.rows);
  text += table.End();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(SweepCsvColumns().CsvLine(rows.rows[0]).find("\"a,\"\"b\"\"\""), std::string::npos);
}

// ---- the place -------------------------------------------------------------------------------

TEST(SweepPlaceTest, RemovesItsFolderAndTheFoldersThatItMade) {
  const TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(const auto place, SweepPlace::Open(dir / "a/b/"));
    std::ofstream(place->folder() + "/f") << "x";
    EXPECT_TRUE(fs::exists(dir / "a/b"));
  }
  EXPECT_FALSE(fs::exists(dir / "a"));
}

TEST(SweepPlaceTest, LeavesWhatSomebodyElsePutThere) {
  const TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(const auto place, SweepPlace::Open(dir / "a/b"));
    std::ofstream(dir / "a/mine") << "x";
  }
  EXPECT_FALSE(fs::exists(dir / "a/b"));
  EXPECT_TRUE(fs::exists(dir / "a/mine"));
}

TEST(SweepPlaceTest, SweepsWhatAKilledOneLeftAndNotOneThatRuns) {
  const TempDir dir;
  fs::create_directories(dir / "sweep-files-killed");
  std::ofstream(dir / "sweep-files-killed/lock");
  std::ofstream(dir / "sweep-files-killed/direct-required.dat") << "x";
  ASSERT_OK_AND_ASSIGN(const auto first, SweepPlace::Open(dir.path()));
  EXPECT_FALSE(fs::exists(dir / "sweep-files-killed"));
  ASSERT_OK_AND_ASSIGN(const auto second, SweepPlace::Open(dir.path()));
  EXPECT_TRUE(fs::exists(first->folder()));
  EXPECT_TRUE(fs::exists(second->folder()));
}

TEST(SweepPlaceTest, AFileInItsWayIsAnErrorAndStays) {
  const TempDir dir;
  std::ofstream(dir / "file") << "x";
  EXPECT_FALSE(SweepPlace::Open(dir / "file").ok());
  EXPECT_FALSE(SweepPlace::Open(dir / "file/below").ok());
  EXPECT_TRUE(fs::exists(dir / "file"));
}

}  // namespace
}  // namespace kvbed
