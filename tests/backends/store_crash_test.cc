// Every store that keeps files when the process dies or the power goes, at every operation: what
// was answered ok is there and whole, what was under way is there wholly or not at all, and space
// comes back.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>

#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "tests/backends/crash_testing.h"
#include "tests/backends/io_engines.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

struct CrashCase {
  const char* name;
  const char* kind;
  const char* options;
  uint64_t capacity_bytes;
  bool to_the_byte;  // the capacity is for records only
  uint64_t stride;   // every so many operations is one to crash at
  uint64_t syncs;    // the scenario needs at least so many
  uint64_t sync_stride = 1;
};

std::ostream& operator<<(std::ostream& out, const CrashCase& one) { return out << one.name; }

Result<std::unique_ptr<BlockStore>> OpenOver(std::unique_ptr<Io> io, const CrashCase& one,
                                             const std::string& path, StoreAccess access,
                                             const std::string& options = "") {
  const std::string spec = fmt::format("{}:{}?capacity={}{}{}", one.kind, path, one.capacity_bytes,
                                       one.options, options);
  return OpenStoreOver(std::move(io), ParseStoreSpec(spec).value(), {.access = access});
}

class StoreCrashTest : public ::testing::TestWithParam<CrashCase> {
 protected:
  // A store with two snapshots, made once and copied for each run.
  void SetUp() override {
    auto store = OpenOver(Plain(), GetParam(), template_, StoreAccess::kCreate);
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

  // Snapshot, replace and remove, each followed by a snapshot that takes the slots which came free.
  // Returns whether it got to the end.
  bool RunScenario(FaultDevice& device, Expected& expected) {
    auto store = OpenOver(MakeFaultyIo(Plain(), device), GetParam(), path_, StoreAccess::kWrite);
    if (!store.ok()) return false;
    expected.Snapshot(**store, MakeManifest("new", kSmallRecord, 3, 3)).IgnoreError();
    expected.Snapshot(**store, Grown(old_, "old", 2, 4)).IgnoreError();
    expected.Snapshot(**store, MakeManifest("after-replace", kSmallRecord, 2, 5)).IgnoreError();
    expected.Remove(**store, "old").IgnoreError();
    expected.Snapshot(**store, MakeManifest("after-remove", kSmallRecord, 4, 6)).IgnoreError();
    return !expected.stopped();
  }

  void CheckAfter(Expected& expected) {
    {
      auto store = OpenOver(Plain(), GetParam(), path_, StoreAccess::kRead, "&direct=off");
      ASSERT_OK(store);
      expected.Check(**store);
    }
    auto store = OpenOver(Plain(), GetParam(), path_, StoreAccess::kWrite, "&direct=off");
    ASSERT_OK(store);
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      EXPECT_FALSE(IsTemporaryPath(entry.path().string())) << entry.path();
    }
    CheckSpace(**store, expected, GetParam().to_the_byte);
  }

  TempDir dir_;
  const std::string template_ = dir_ / "template";
  const std::string path_ = dir_ / "store";
  const Manifest kept_ = MakeManifest("kept", kSmallRecord, 2, 1);
  const Manifest old_ = MakeManifest("old", kSmallRecord, 4, 2);
};

TEST_P(StoreCrashTest, ACrashAtAnyOperationLeavesEverySnapshotWholeOrAbsent) {
  uint64_t last_steps = 0;
  for (uint64_t after = 0;; after += GetParam().stride) {
    SCOPED_TRACE(fmt::format("crash after {} operations", after));
    Expected expected = Fresh();
    FaultDevice device({}, {.power_cuts = false});
    device.CrashAfter(after);
    const bool whole = RunScenario(device, expected);
    // What a store does in the background may come after the last step.
    EXPECT_TRUE(whole || device.dead());
    EXPECT_GE(expected.steps_done(), last_steps);
    last_steps = expected.steps_done();
    CheckAfter(expected);
    if (whole || HasFailure()) break;
  }
  EXPECT_EQ(last_steps, 5u);
}

TEST_P(StoreCrashTest, APowerCutAtAnyOperationTakesNothingThatWasAnsweredOk) {
  for (const FaultKind how : {FaultKind::kLostWrites, FaultKind::kReorderedWrites}) {
    for (uint64_t at = 0;; at += GetParam().stride) {
      const uint64_t seed = at + 1;
      SCOPED_TRACE(fmt::format("{} at operation {}, seed {}", FaultKindName(how), at, seed));
      Expected expected = Fresh();
      FaultDevice device({.seed = seed, .faults = {{.kind = how, .first = at}}});
      const bool whole = RunScenario(device, expected);
      EXPECT_OK(device.power_cut_status());
      CheckAfter(expected);
      if (whole || HasFailure()) break;
    }
  }
}

TEST_P(StoreCrashTest, AStoreThatIsBeingMadeWhenItCrashesIsMadeByTheNext) {
  for (uint64_t at = 0;; at += GetParam().stride) {
    SCOPED_TRACE(at);
    fs::remove_all(path_);
    FaultDevice device({.faults = {{.kind = FaultKind::kReorderedWrites, .first = at}}});
    const bool whole =
        OpenOver(MakeFaultyIo(Plain(), device), GetParam(), path_, StoreAccess::kCreate).ok();
    auto store = OpenOver(Plain(), GetParam(), path_, StoreAccess::kCreate);
    ASSERT_OK(store);
    Expected expected;
    expected.Snapshot(**store, kept_).IgnoreError();
    expected.Check(**store);
    if (whole) break;
  }
}

TEST_P(StoreCrashTest, AfterAFailedSyncNothingIsCommittedUntilTheStoreIsReopened) {
  uint64_t refused = 0;
  for (uint64_t first = 0;; first += GetParam().sync_stride) {
    SCOPED_TRACE(fmt::format("sync {} fails", first));
    Expected expected = Fresh();
    FaultDevice device(
        {.faults = {
             {.kind = FaultKind::kFailedSync, .target = FaultTarget::kSync, .first = first}}});
    const bool whole = RunScenario(device, expected);
    if (expected.stopped()) {
      ++refused;
      continue;
    }
    if (whole && device.struck() == 0) break;  // no sync was left to fail
  }
  EXPECT_GE(refused, GetParam().syncs);

  // The data's sync: the next ones would succeed, and must not be taken for a success.
  Expected expected = Fresh();
  uint64_t syncs_at_open = 0;
  {
    FaultDevice device;
    auto store = OpenOver(MakeFaultyIo(Plain(), device), GetParam(), path_, StoreAccess::kWrite);
    ASSERT_OK(store);
    for (const std::string& line : device.Trace()) syncs_at_open += line.find("sync") < 6;
  }
  FaultDevice device({.faults = {{.kind = FaultKind::kFailedSync,
                                  .target = FaultTarget::kSync,
                                  .first = syncs_at_open}}});
  auto store = OpenOver(MakeFaultyIo(Plain(), device), GetParam(), path_, StoreAccess::kWrite);
  ASSERT_OK(store);
  Manifest manifest = MakeManifest("new", kSmallRecord, 2, 3);
  ASSERT_OK(PutAll(**store, manifest));
  EXPECT_EQ((*store)->Flush().code(), StatusCode::kIoError);
  EXPECT_EQ(device.struck(), 1u);
  EXPECT_TRUE(FailsWith((*store)->Flush(), StatusCode::kIoError, "reopen"));
  EXPECT_TRUE(
      FailsWith((*store)->Commit(manifest, CommitMode::kNew), StatusCode::kIoError, "reopen"));
  EXPECT_TRUE(FailsWith(TakeSnapshot(**store, MakeManifest("other", kSmallRecord, 1, 4)),
                        StatusCode::kIoError, "reopen"));
  EXPECT_TRUE(IsWhole(**store, kept_));
  store->reset();
  CheckAfter(expected);
}

const CrashCase kCases[] = {
    // Data, manifest and folder of each snapshot; the folder of the remove.
    {"Slab", "slab", "", kSlots* kSmallRecord, true, 1, 9},
    // Data and folders of each snapshot besides.
    {"Files", "files", "", kSlots* kSmallRecord, true, 7, 20},
#ifdef KVBED_HAS_ROCKSDB
    // Memtables and the database's own record of its files, for data and manifest alike.
    {"RocksDbBlob", "rocksdb", "", 8 << 20, false, 97, 3, 13},
    {"RocksDbBlobWal", "rocksdb", "&wal=on", 8 << 20, false, 97, 1, 13},
    {"RocksDbIndex", "rocksdb", "&layout=index", kSlots* kSmallRecord, true, 61, 2, 13},
#endif
};

// A child changes snapshots until it is killed, and says of each change when it begins and ends.
struct ChangeNote {
  char name = 'a';
  bool done = false;
  uint64_t sequence_id = 0;  // 0: removed
  uint64_t blocks = 0;
};

Expected::State StateOf(const ChangeNote& note) {
  if (note.sequence_id == 0) return std::nullopt;
  return MakeManifest(std::string(1, note.name), kSmallRecord, note.blocks, note.sequence_id);
}

// What the child is told, in its environment: RocksDB's threads don't survive a fork, so that it
// is this program again.
constexpr const char* kChildVariable = "KVBED_TEST_KILLED_CHILD";

TEST(StoreKillChild, ChangesUntilItIsKilled) {
  const char* const told = std::getenv(kChildVariable);
  if (told == nullptr) return;  // by itself it has nothing to do
  std::istringstream words(told);
  size_t at = 0;
  int engine = 0, pipe = 0;
  uint64_t seed = 0;
  std::string path;
  words >> at >> engine >> seed >> pipe >> path;
  std::mt19937_64 random(seed);
  auto store = OpenOver(OpenIo(static_cast<IoEngine>(engine)).value(), kCases[at], path,
                        StoreAccess::kWrite);
  if (!store.ok()) ::_exit(1);
  while (true) {
    ChangeNote note{.name = static_cast<char>('a' + random() % 3)};
    const bool there = (*store)->ReadManifest(std::string(1, note.name)).ok();
    if (!there || random() % 3 != 0) {
      note.sequence_id = random() | 1;
      note.blocks = 1 + random() % 4;
    }
    if (::write(pipe, &note, sizeof(note)) != sizeof(note)) ::_exit(2);
    const auto state = StateOf(note);
    const Status status = state ? TakeSnapshot(**store, *state, CommitMode::kReplace)
                                : (*store)->RemoveManifest(std::string(1, note.name));
    if (!status.ok()) ::_exit(3);
    note.done = true;
    if (::write(pipe, &note, sizeof(note)) != sizeof(note)) ::_exit(2);
  }
}

[[noreturn]] void BecomeChild(const std::string& told) {
  ::setenv(kChildVariable, told.c_str(), 1);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::execl("/proc/self/exe", "backends_test", "--gtest_filter=StoreKillChild.*", nullptr);
  ::_exit(127);
}

class StoreKillTest : public ::testing::TestWithParam<std::tuple<size_t, IoEngine>> {};

TEST_P(StoreKillTest, AKilledProcessLeavesEverySnapshotWholeAndTheStoreFree) {
  const auto& [at, engine] = GetParam();
  const CrashCase& one = kCases[at];
  KVBED_NEEDS_ENGINE(engine);
  const TempDir dir;
  const std::string path = dir / "store";
  ASSERT_OK(OpenOver(OpenIo(engine).value(), one, path, StoreAccess::kCreate));
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  Expected expected;
  for (int round = 0; round < 8; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const uint64_t child_seed = random();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      BecomeChild(
          fmt::format("{} {} {} {} {}", at, static_cast<int>(engine), child_seed, ends[1], path));
    }
    ::close(ends[1]);
    // Killed at some moment after it began its first changes.
    std::vector<ChangeNote> notes;
    const auto read_note = [&] {
      ChangeNote note;
      if (::read(ends[0], &note, sizeof(note)) != sizeof(note)) return false;
      notes.push_back(note);
      return true;
    };
    for (uint64_t i = random() % 12; i > 0 && read_note(); --i) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    while (read_note()) continue;
    ::close(ends[0]);

    for (size_t i = 0; i < notes.size(); ++i) {
      if (notes[i].done) continue;
      const bool done = i + 1 < notes.size();
      Expected::State state = StateOf(notes[i]);
      expected
          .Step(std::string(1, notes[i].name), state,
                [&] { return done ? Status::Ok() : Status::IoError("killed"); })
          .IgnoreError();
    }
    auto store = OpenOver(OpenIo(engine).value(), one, path, StoreAccess::kWrite);
    ASSERT_OK(store);
    expected.Check(**store);
    CheckSpace(**store, expected, one.to_the_byte);
    expected.GoOn();
  }
}

INSTANTIATE_TEST_SUITE_P(EveryStore, StoreCrashTest, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });
INSTANTIATE_TEST_SUITE_P(EveryStore, StoreKillTest,
                         ::testing::Combine(::testing::Range<size_t>(0, std::size(kCases)),
                                            ::testing::Values(IoEngine::kIoUring,
                                                              IoEngine::kPsync)),
                         [](const auto& one) {
                           return std::string(kCases[std::get<0>(one.param)].name) + "_" +
                                  std::string(IoEngineName(std::get<1>(one.param)));
                         });

}  // namespace
}  // namespace kvbed
