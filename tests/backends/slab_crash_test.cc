// The slab store when the process dies or the power goes, at every operation: what was answered ok
// is there and whole, what was under way is there wholly or not at all, and space comes back.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "backends/faulty_io.h"
#include "backends/open_store.h"
#include "tests/backends/io_engines.h"
#include "tests/backends/store_testing.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSlots = 16;

Result<std::unique_ptr<BlockStore>> OpenOver(std::unique_ptr<Io> io, const std::string& path,
                                             StoreAccess access, const std::string& options = "") {
  const std::string spec =
      fmt::format("slab:{}?capacity={}{}", path, kSlots * kSmallRecord, options);
  return OpenStoreOver(std::move(io), ParseStoreSpec(spec).value(), {.access = access});
}

// What each snapshot may be by now: nothing, or one of some manifests.
class Expected {
 public:
  using State = std::optional<Manifest>;

  // The change of `name` to `to` by `change`; once it failed, nothing more is done.
  void Step(const std::string& name, const State& to, const std::function<Status()>& change) {
    if (stopped_) return;
    std::vector<State>& allowed = allowed_[name];
    if (allowed.empty()) allowed.emplace_back();
    allowed.push_back(to);
    if (change().ok()) {
      allowed = {to};
      ++steps_done_;
    } else {
      stopped_ = true;
    }
  }
  void Snapshot(BlockStore& store, const Manifest& manifest) {
    Step(manifest.name, manifest,
         [&] { return TakeSnapshot(store, manifest, CommitMode::kReplace); });
  }
  void Remove(BlockStore& store, const std::string& name) {
    Step(name, std::nullopt, [&] { return store.RemoveManifest(name); });
  }
  void GoOn() { stopped_ = false; }
  void Settle(const std::string& name, const State& state) { allowed_[name] = {state}; }
  bool stopped() const { return stopped_; }
  uint64_t steps_done() const { return steps_done_; }

  // Everything in the store is allowed and whole, and everything that must be there is. What is
  // there then counts as settled.
  void Check(BlockStore& store) {
    std::set<RecordId> records;
    const auto listed = store.ListManifests();
    ASSERT_OK(listed);
    for (const ManifestSummary& summary : *listed) {
      EXPECT_OK(summary.status);
      EXPECT_TRUE(allowed_.contains(summary.name)) << summary.name;
    }
    for (auto& [name, allowed] : allowed_) {
      const auto there = store.ReadManifest(name);
      State state;
      if (there.ok()) {
        const auto same = [&](const State& one) {
          return one && BlockIds(*one) == BlockIds(*there);
        };
        const auto found = std::find_if(allowed.begin(), allowed.end(), same);
        ASSERT_TRUE(found != allowed.end()) << name << " has a state that it never had";
        state = *found;
        EXPECT_TRUE(IsWhole(store, *state)) << name;
        for (const RecordId& id : BlockIds(*state)) records.insert(id);
      } else {
        EXPECT_EQ(there.status().code(), StatusCode::kNotFound) << there.status().ToString();
        EXPECT_TRUE(std::count(allowed.begin(), allowed.end(), State())) << name << " is gone";
      }
      allowed = {state};
    }
    // No record of an uncommitted snapshot is left.
    EXPECT_EQ(store.info().records, records.size());
  }

 private:
  std::map<std::string, std::vector<State>> allowed_;
  bool stopped_ = false;
  uint64_t steps_done_ = 0;
};

// Every slot that no snapshot names can be written, and nothing that is there suffers.
void CheckSpace(BlockStore& store, Expected& expected) {
  const uint64_t free = kSlots - store.info().records;
  EXPECT_EQ(store.info().free_bytes, free * kSmallRecord);
  const Manifest filler = MakeManifest("filler", kSmallRecord, free, 4711);
  EXPECT_OK(PutAll(store, filler));
  TestRequests gets = GetsOf(filler);
  gets.RunOn(store);
  EXPECT_OK(gets.first_error());
  for (size_t i = 0; i < gets.size(); ++i) EXPECT_TRUE(gets.IsIntact(i));
  EXPECT_EQ(PutAll(store, MakeManifest("more", kSmallRecord, 1, 4712)).code(),
            StatusCode::kOutOfSpace);
  store.Discard(BlockIds(filler));
  expected.Check(store);
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

  // Snapshot, replace and remove, each followed by a snapshot that takes the slots which came free.
  // Returns whether it got to the end.
  bool RunScenario(FaultDevice& device, Expected& expected) {
    auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite);
    if (!store.ok()) return false;
    expected.Snapshot(**store, MakeManifest("new", kSmallRecord, 3, 3));
    expected.Snapshot(**store, Grown(old_, "old", 2, 4));
    expected.Snapshot(**store, MakeManifest("after-replace", kSmallRecord, 2, 5));
    expected.Remove(**store, "old");
    expected.Snapshot(**store, MakeManifest("after-remove", kSmallRecord, 4, 6));
    return !expected.stopped();
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

TEST_F(SlabCrashTest, ACrashAtAnyOperationLeavesEverySnapshotWholeOrAbsent) {
  uint64_t last_steps = 0;
  for (uint64_t after = 0;; ++after) {
    SCOPED_TRACE(fmt::format("crash after {} operations", after));
    Expected expected = Fresh();
    FaultDevice device({}, {.power_cuts = false});
    device.CrashAfter(after);
    const bool whole = RunScenario(device, expected);
    EXPECT_EQ(whole, !device.dead());
    EXPECT_GE(expected.steps_done(), last_steps);
    last_steps = expected.steps_done();
    CheckAfter(expected);
    if (whole || HasFailure()) break;
  }
  EXPECT_EQ(last_steps, 5u);
}

TEST_F(SlabCrashTest, APowerCutAtAnyOperationTakesNothingThatWasAnsweredOk) {
  for (const FaultKind how : {FaultKind::kLostWrites, FaultKind::kReorderedWrites}) {
    for (uint64_t at = 0;; ++at) {
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

TEST_F(SlabCrashTest, AStoreThatIsBeingMadeWhenItCrashesIsMadeByTheNext) {
  for (uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    fs::remove_all(path_);
    FaultDevice device({.faults = {{.kind = FaultKind::kReorderedWrites, .first = at}}});
    const bool whole = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kCreate).ok();
    auto store = OpenOver(Plain(), path_, StoreAccess::kCreate);
    ASSERT_OK(store);
    Expected expected;
    expected.Snapshot(**store, kept_);
    expected.Check(**store);
    if (whole) break;
  }
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
  expected.Snapshot(**store, MakeManifest("after", kSmallRecord, 4, 6));
  EXPECT_FALSE(expected.stopped());
  device.PowerCut(FaultKind::kLostWrites);
  ASSERT_OK(device.power_cut_status());
  store->reset();
  CheckAfter(expected);
}

TEST_F(SlabCrashTest, AfterAFailedSyncNothingIsCommittedUntilTheStoreIsReopened) {
  uint64_t refused = 0;
  for (uint64_t first = 0;; ++first) {
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
    if (whole) break;  // no sync was left to fail
  }
  EXPECT_GE(refused, 9u);  // data, manifest, folder of each snapshot; folder of the remove

  // The data's sync: the next ones would succeed, and must not be taken for a success.
  Expected expected = Fresh();
  uint64_t syncs_at_open = 0;
  {
    FaultDevice device;
    auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite);
    ASSERT_OK(store);
    for (const std::string& line : device.Trace()) syncs_at_open += line.find("sync") < 6;
  }
  FaultDevice device({.faults = {{.kind = FaultKind::kFailedSync,
                                  .target = FaultTarget::kSync,
                                  .first = syncs_at_open}}});
  auto store = OpenOver(MakeFaultyIo(Plain(), device), path_, StoreAccess::kWrite);
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

size_t Position(const std::vector<std::string>& trace, std::string_view part, bool last = false) {
  size_t position = trace.size();
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].find(part) == std::string::npos) continue;
    position = i;
    if (!last) break;
  }
  EXPECT_LT(position, trace.size()) << part;
  return position;
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

[[noreturn]] void ChangeUntilKilled(const std::string& path, IoEngine engine, uint64_t seed,
                                    int pipe) {
  std::mt19937_64 random(seed);
  auto store = OpenOver(OpenIo(engine).value(), path, StoreAccess::kWrite);
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

class SlabKillTest : public ::testing::TestWithParam<IoEngine> {};

TEST_P(SlabKillTest, AKilledProcessLeavesEverySnapshotWholeAndTheStoreFree) {
  KVBED_NEEDS_ENGINE(GetParam());
  const TempDir dir;
  const std::string path = dir / "store";
  ASSERT_OK(OpenOver(OpenIo(GetParam()).value(), path, StoreAccess::kCreate));
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
      ChangeUntilKilled(path, GetParam(), child_seed, ends[1]);
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
      expected.Step(std::string(1, notes[i].name), state,
                    [&] { return done ? Status::Ok() : Status::IoError("killed"); });
    }
    auto store = OpenOver(OpenIo(GetParam()).value(), path, StoreAccess::kWrite);
    ASSERT_OK(store);
    expected.Check(**store);
    CheckSpace(**store, expected);
    expected.GoOn();
  }
}

INSTANTIATE_TEST_SUITE_P(BothEngines, SlabKillTest,
                         ::testing::Values(IoEngine::kIoUring, IoEngine::kPsync),
                         [](const auto& engine) {
                           return std::string(IoEngineName(engine.param));
                         });

}  // namespace
}  // namespace kvbed
