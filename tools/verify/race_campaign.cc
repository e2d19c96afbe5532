// Races: many threads, and a second process, at one store at once. A reader may get a record's
// bytes or be told that it isn't there; other bytes, another snapshot's records, an older state
// than was committed, or an error are failures.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <filesystem>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "tools/interrupt.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/small_stores.h"
#include "tools/verify/snapshot_change.h"
#include "tools/verify/store_under_test.h"
#include "tools/verify/verify_child.h"
#include "tools/verify/verify_worker.h"
#include "verify/seeded_snapshot.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRaceThreads = 8;
constexpr uint64_t kRaceRecordBytes = 28'672;
constexpr std::byte kScribble{0xA5};

struct RaceStore {
  const CampaignOptions& options;
  StoreSpec spec;
  std::optional<StoreSpec>
      small;  // with room for kCampaignSlots records; none: it can't be limited
  bool to_the_byte = false;
  uint64_t rounds = 1;
  bool removes = true;  // the store itself removes records

  Result<std::unique_ptr<BlockStore>> Open(StoreAccess access) const {
    return OpenSpec(spec, access);
  }
  Result<std::unique_ptr<BlockStore>> OpenSpec(const StoreSpec& which, StoreAccess access) const {
    return options.open(nullptr, which, {.access = access, .defaults = options.settings});
  }
};

std::string RaceName(std::string_view name) { return fmt::format("{}{}", kCampaignPrefix, name); }

Manifest RaceSnapshot(std::string_view name, uint64_t record_bytes, uint64_t sequence_id,
                      uint64_t blocks) {
  const std::vector<uint64_t> generations(blocks, 1);
  return SeededManifest(RaceName(name), record_bytes, sequence_id, generations);
}

// What the threads of a race found. Any of them may add to it.
class RaceTally {
 public:
  // Right bytes, or none.
  void Add(const SnapshotReading& reading, std::string_view what) {
    const std::lock_guard lock(mutex_);
    total_.Add(reading);
    if (reading.wrong > 0 || reading.refused > 0) Note(what, reading.Problem());
  }
  // Must be ok.
  void Add(const Status& status, std::string_view what) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    Note(what, status.ToString());
  }
  void Problem(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = problem;
  }
  void Wrong(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    ++total_.wrong;
    if (problem_.empty()) problem_ = problem;
  }
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return !problem_.empty();
  }
  // When the threads have ended.
  void TellTo(CaseResult& result) const {
    result.served_wrong += total_.wrong;
    if (!problem_.empty()) FailCase(result, problem_, total_.finding);
  }

 private:
  void Note(std::string_view what, const std::string& problem) {
    if (problem_.empty()) problem_ = fmt::format("{}: {}", what, problem);
  }

  mutable std::mutex mutex_;
  SnapshotReading total_;
  std::string problem_;
};

// All begin at the same moment.
template <class Work>
void InThreads(size_t count, Work work) {
  std::latch all_there(static_cast<ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      all_there.arrive_and_wait();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void MustBeWhole(BlockStore& store, const Manifest& expected, RaceTally& tally) {
  const auto there = store.ReadManifest(expected.name);
  if (!there.ok()) return tally.Add(there.status(), expected.name);
  if (!SameRecords(*there, expected)) {
    return tally.Wrong(fmt::format("{} names records that it never had", expected.name));
  }
  const SnapshotReading reading = ReadRecords(store, *there);
  tally.Add(reading, expected.name);
  if (reading.missed > 0) tally.Add(reading.first_error, expected.name);
}

// ---- one store, many threads -----------------------------------------------------------------

// Half of the threads put the same records, the others read them meanwhile.
void ReadWhileWritten(const RaceStore&, BlockStore& store, std::mt19937_64& random,
                      RaceTally& tally) {
  const Manifest manifest = RaceSnapshot("same", kRaceRecordBytes, random() | 1, 12);
  std::atomic<size_t> writers = kRaceThreads / 2;
  InThreads(kRaceThreads, [&](size_t thread) {
    if (thread % 2 == 0) {
      tally.Add(PutRecords(store, manifest), "put of a record that others put too");
      --writers;
      return;
    }
    while (writers > 0) tally.Add(ReadRecords(store, manifest, 4), "read while it is written");
  });
  tally.Add(store.Flush(), "flush");
  Manifest committed = manifest;
  tally.Add(store.Commit(committed, CommitMode::kReplace), "commit");
  MustBeWhole(store, manifest, tally);
}

// One thread replaces a snapshot by ever newer ones, the others restore it.
void Overwrite(const RaceStore&, BlockStore& store, std::mt19937_64& random, RaceTally& tally) {
  constexpr size_t kVersions = 12;
  std::vector<Manifest> versions;
  uint64_t sequence = random() | 1;
  std::vector<uint64_t> generations(6, 1);
  for (size_t i = 0; i < kVersions; ++i) {
    // In turn the tail changes, and another sequence takes the name.
    if (i % 4 == 3) sequence = random() | 1;
    for (size_t k = 3; k < generations.size(); ++k) generations[k] = i + 2;
    versions.push_back(
        SeededManifest(RaceName("overwritten"), kRaceRecordBytes, sequence, generations));
  }
  tally.Add(TakeSnapshot(store, versions[0], CommitMode::kReplace), "the first state");
  std::atomic<size_t> committed = 0, reads = 0;
  std::atomic<bool> done = false;
  InThreads(kRaceThreads, [&](size_t thread) {
    if (thread == 0) {
      for (size_t i = 1; i < kVersions && !tally.failed(); ++i) {
        tally.Add(TakeSnapshot(store, versions[i], CommitMode::kReplace), "replace");
        committed = i;
        // However quick the store is, each state is read.
        const size_t until = reads + kRaceThreads;
        while (reads < until && !tally.failed()) std::this_thread::yield();
      }
      done = true;
      return;
    }
    for (; !done; ++reads) {
      const size_t least = committed;
      const auto there = store.ReadManifest(versions[0].name);
      if (!there.ok()) {
        tally.Add(there.status(), "a name that is being replaced");
        return;
      }
      const auto found = std::ranges::find_if(
          versions, [&](const Manifest& one) { return SameRecords(one, *there); });
      if (found == versions.end()) {
        return tally.Wrong("a reader got a mixture of two states of a snapshot");
      }
      if (static_cast<size_t>(found - versions.begin()) < least) {
        return tally.Wrong("a reader got an older state of a snapshot than was committed");
      }
      tally.Add(ReadRecords(store, *there, 4), "read while it is replaced");
    }
  });
  if (!tally.failed()) MustBeWhole(store, versions.back(), tally);
}

// What is being read is removed, and its place taken by others at once.
void RemoveDuringGet(const RaceStore&, BlockStore& store, std::mt19937_64& random,
                     RaceTally& tally) {
  const Manifest read = RaceSnapshot("read", kCampaignRecordBytes, random() | 1, 24);
  tally.Add(TakeSnapshot(store, read, CommitMode::kReplace), "take a snapshot");
  const Manifest placed = [&] {
    const auto there = store.ReadManifest(read.name);
    return there.ok() ? *there : read;
  }();
  std::atomic<bool> done = false;
  InThreads(kRaceThreads, [&](size_t thread) {
    if (thread != 0) {
      while (!done) tally.Add(ReadRecords(store, placed, 4), "read while it is removed");
      return;
    }
    tally.Add(store.RemoveManifest(read.name), "remove");
    for (int i = 0; i < 4; ++i) {
      const Manifest next =
          RaceSnapshot(fmt::format("next-{}", i), kCampaignRecordBytes, random() | 1, 24);
      tally.Add(TakeSnapshot(store, next, CommitMode::kReplace), "take the place of a removed one");
      MustBeWhole(store, next, tally);
    }
    done = true;
  });
  if (store.ReadManifest(read.name).ok()) tally.Problem("a removed snapshot is there");
}

// A store with room for few records: the oldest snapshot goes when there is none.
void Evict(const RaceStore&, BlockStore& store, std::mt19937_64& random, RaceTally& tally) {
  std::mutex mutex;
  std::deque<std::string> oldest;  // guarded by mutex
  std::atomic<size_t> writers = kRaceThreads / 2;
  std::vector<uint64_t> seeds(kRaceThreads);
  for (uint64_t& seed : seeds) seed = random();
  const auto evict_one = [&] {
    std::string name;
    {
      const std::lock_guard lock(mutex);
      if (oldest.empty()) return;
      name = oldest.front();
      oldest.pop_front();
    }
    const Status removed = store.RemoveManifest(name);
    if (removed.code() != StatusCode::kNotFound) tally.Add(removed, "evict");
  };
  const auto write = [&](size_t thread) {
    std::mt19937_64 own(seeds[thread]);
    for (int i = 0; i < 8 && !tally.failed(); ++i) {
      const std::string name = fmt::format("evict-{}-{}", thread, i);
      const Manifest manifest = RaceSnapshot(name, kCampaignRecordBytes, own() | 1, 1 + own() % 4);
      Status status;
      for (int attempt = 0; attempt < 200; ++attempt) {
        status = TakeSnapshot(store, manifest, CommitMode::kReplace);
        if (status.code() != StatusCode::kOutOfSpace) break;
        evict_one();
        std::this_thread::yield();
      }
      tally.Add(status, "a snapshot in the place of evicted ones");
      const std::lock_guard lock(mutex);
      oldest.push_back(manifest.name);
    }
    --writers;
  };
  const auto read = [&] {
    while (writers > 0) {
      const auto listed = store.ListManifests();
      if (!listed.ok()) return tally.Add(listed.status(), "list");
      for (const ManifestSummary& summary : *listed) {
        const auto there = store.ReadManifest(summary.name);
        if (there.ok()) {
          tally.Add(ReadRecords(store, *there, 4), "read while others evict");
        } else if (there.status().code() != StatusCode::kNotFound) {
          tally.Add(there.status(), "read a manifest while others evict");
        }
      }
    }
  };
  InThreads(kRaceThreads, [&](size_t thread) { thread % 2 == 0 ? write(thread) : read(); });
  const auto left = store.ListManifests();
  if (!left.ok()) return tally.Add(left.status(), "list");
  for (const ManifestSummary& summary : *left) {
    const auto there = store.ReadManifest(summary.name);
    if (!there.ok()) return tally.Add(there.status(), summary.name);
    MustBeWhole(store, *there, tally);
    tally.Add(store.RemoveManifest(summary.name), "remove what is left");
  }
  if (store.info().records != 0) tally.Problem("records are left of snapshots that were evicted");
}

// The caller's memory is its own again once a request is handed back: it writes over what it put,
// and nothing comes into what it got.
void Scribble(const RaceStore&, BlockStore& store, std::mt19937_64& random, RaceTally& tally) {
  std::vector<Manifest> manifests;
  for (size_t i = 0; i < kRaceThreads; ++i) {
    manifests.push_back(
        RaceSnapshot(fmt::format("scribble-{}", i), kRaceRecordBytes, random() | 1, 6));
  }
  // A store that touches it too late must find it there.
  std::deque<RecordRequests> puts, gets;
  for (const Manifest& manifest : manifests) puts.push_back(RecordRequests::Puts(manifest));
  const auto scribbled = [&](RecordRequests& requests, auto look) {
    auto channel = store.OpenChannel({.iodepth = 4, .memory = requests.memory()});
    if (!channel.ok()) return tally.Add(channel.status(), "open a channel");
    channel->Submit(requests.pointers());
    std::vector<StoreRequest*> completed;
    while (channel->outstanding() > 0) {
      completed.clear();
      tally.Add(channel->Reap(1, completed), "reap");
      for (StoreRequest* request : completed) {
        look(*request);
        std::ranges::fill(request->record, kScribble);
      }
    }
  };
  InThreads(kRaceThreads, [&](size_t thread) {
    scribbled(puts[thread], [&](const StoreRequest& put) { tally.Add(put.status, "put"); });
  });
  tally.Add(store.Flush(), "flush");
  for (size_t i = 0; i < manifests.size(); ++i) {
    Manifest committed = manifests[i];
    for (size_t k = 0; k < committed.blocks.size(); ++k) {
      committed.blocks[k].place = puts[i][k].place;
    }
    tally.Add(store.Commit(committed, CommitMode::kReplace), "commit");
    gets.push_back(RecordRequests::Gets(committed));
  }
  if (tally.failed()) return;
  InThreads(kRaceThreads, [&](size_t thread) {
    RecordRequests& mine = gets[thread];
    scribbled(mine, [&](const StoreRequest& get) {
      const size_t at = static_cast<size_t>(&get - &mine[0]);
      const SnapshotReading reading = JudgeGet(manifests[thread], at, get);
      tally.Add(reading, "a record whose memory was written over after its put");
      if (reading.missed > 0) tally.Add(reading.first_error, "get");
    });
    MustBeWhole(store, manifests[thread], tally);
    if (std::ranges::any_of(mine.memory(), [](std::byte one) { return one != kScribble; })) {
      tally.Wrong("the store wrote into memory whose get it had handed back");
    }
  });
}

// ---- opening and closing ---------------------------------------------------------------------

// Threads take snapshots, and end with reads under way; the store is closed and opened at once.
Status ReopenUnderLoad(const RaceStore& race, std::mt19937_64& random, RaceTally& tally) {
  std::vector<Manifest> committed;
  for (int round = 0; round < 4 && !tally.failed(); ++round) {
    KVBED_ASSIGN_OR_RETURN(auto store, race.Open(StoreAccess::kCreate));
    for (const Manifest& manifest : committed) MustBeWhole(*store, manifest, tally);
    std::vector<Manifest> taken;
    for (size_t i = 0; i < kRaceThreads; ++i) {
      taken.push_back(
          RaceSnapshot(fmt::format("reopen-{}", i), kCampaignRecordBytes, random() | 1, 4));
    }
    InThreads(kRaceThreads, [&](size_t thread) {
      tally.Add(TakeSnapshot(*store, taken[thread], CommitMode::kReplace), "take a snapshot");
      const auto there = store->ReadManifest(taken[thread].name);
      if (!there.ok()) return tally.Add(there.status(), "read it");
      RecordRequests gets = RecordRequests::Gets(*there);
      auto channel = store->OpenChannel({.iodepth = 2, .memory = gets.memory()});
      if (!channel.ok()) return tally.Add(channel.status(), "open a channel");
      channel->Submit(gets.pointers());  // and the channel is closed
    });
    committed = std::move(taken);
  }
  KVBED_ASSIGN_OR_RETURN(auto store, race.Open(StoreAccess::kWrite));
  for (const Manifest& manifest : committed) MustBeWhole(*store, manifest, tally);
  return Status::Ok();
}

struct OtherProcess {
  std::string refused;  // why it couldn't open the store
  std::string failure;
  std::string problem;
  std::string change_refused;  // the first
  uint64_t changes = 0;
  uint64_t wrong = 0;

  // A store may refuse changes while another process has it open, but not all.
  std::string Failure() const {
    if (!failure.empty()) return failure;
    if (!problem.empty()) return problem;
    if (!refused.empty() || changes > 0 || change_refused.empty()) return {};
    return "no change was possible: " + change_refused;
  }
};

Result<OtherProcess> FollowOther(VerifyChild& child, SnapshotOracle& oracle) {
  OtherProcess other;
  while (true) {
    KVBED_ASSIGN_OR_RETURN(const std::optional<std::string> line, child.Next());
    if (!line) break;
    if (line->starts_with(kChangeBegins)) {
      KVBED_ASSIGN_OR_RETURN(const SnapshotChange change,
                             SnapshotChange::Parse(line->substr(kChangeBegins.size())));
      oracle.Begin(change.name, change.state());
    } else if (*line == kChangeDone) {
      oracle.End();
      ++other.changes;
    } else if (line->starts_with(kChangeRefused)) {
      if (other.change_refused.empty()) other.change_refused = *line;
    } else if (line->starts_with(kJobRefused)) {
      other.refused = line->substr(kJobRefused.size());
    } else if (line->starts_with(kJobSays)) {
      other.problem = line->substr(kJobSays.size());
    } else if (*line == kServedWrong) {
      ++other.wrong;
    } else {
      other.failure = *line;
    }
  }
  if (child.end() != JobEnd{} && other.failure.empty()) other.failure = "it crashed";
  return other;
}

// Both change snapshots of their own, or the second is refused and harms nothing; once the first
// has closed the store the second may have it.
Status TwoProcesses(const RaceStore& race, std::mt19937_64& random, RaceTally& tally) {
  KVBED_ASSIGN_OR_RETURN(VerifyChild child,
                         VerifyChild::Start(race.options.child_command,
                                            SpecWithSettings(race.spec, race.options.settings)));
  SnapshotOracle ours, others;
  constexpr std::string_view kOurs = "one-";
  const SnapshotOracle::CheckOptions our_names = {RaceName(kOurs), false};
  const SnapshotOracle::CheckOptions other_names = {RaceName(kOtherOwner), false};
  const auto judge = [&](const OtherProcess& other) {
    const std::string failure = other.Failure();
    if (!failure.empty()) tally.Problem("the second process: " + failure);
    for (uint64_t i = 0; i < other.wrong; ++i) tally.Wrong("the second process got wrong bytes");
  };
  const auto check = [&](BlockStore& store) {
    for (auto* part : {&ours, &others}) {
      const OracleVerdict verdict = part->Check(store, part == &ours ? our_names : other_names);
      if (!verdict.ok()) tally.Problem("after both: " + verdict.problem);
      for (uint64_t i = 0; i < verdict.served_wrong; ++i) tally.Wrong(verdict.problem);
    }
  };
  std::string refused;
  {
    KVBED_ASSIGN_OR_RETURN(auto store, race.Open(StoreAccess::kCreate));
    KVBED_ASSIGN_OR_RETURN(SnapshotStates present, ReadCampaignSnapshots(*store, kOurs));
    KVBED_RETURN_IF_ERROR(child.Send(ShareJob{.seed = random()}.Line()));
    OtherProcess mine;
    for (int i = 0; i < 12; ++i) {
      const SnapshotChange change = NextChange(random, present);
      const Status made =
          ours.Step(change.name, change.state(), [&] { return change.ApplyTo(*store); });
      mine.changes += made.ok();
      if (!made.ok() && mine.change_refused.empty()) mine.change_refused = made.ToString();
      ours.GoOn();
      KVBED_ASSIGN_OR_RETURN(present, ReadCampaignSnapshots(*store, kOurs));
    }
    if (!mine.Failure().empty()) tally.Problem("beside a second process: " + mine.Failure());
    KVBED_ASSIGN_OR_RETURN(const OtherProcess other, FollowOther(child, others));
    judge(other);
    refused = other.refused;
    const OracleVerdict verdict = ours.Check(*store, our_names);
    if (!verdict.ok()) tally.Problem("beside a second process: " + verdict.problem);
  }
  if (!refused.empty()) {
    KVBED_RETURN_IF_ERROR(child.Send(ShareJob{.seed = random()}.Line()));
    KVBED_ASSIGN_OR_RETURN(const OtherProcess other, FollowOther(child, others));
    judge(other);
    if (!other.refused.empty()) {
      tally.Problem("a closed store can't be opened by a second process: " + other.refused);
    }
  }
  KVBED_ASSIGN_OR_RETURN(auto store, race.Open(StoreAccess::kWrite));
  check(*store);
  return Status::Ok();
}

// ---- cases -----------------------------------------------------------------------------------

// Over one open store, again and again.
template <class Race>
Status PlayThreads(const RaceStore& race, const StoreSpec& spec, std::mt19937_64& random,
                   RaceTally& tally, Race play) {
  KVBED_ASSIGN_OR_RETURN(auto store, race.OpenSpec(spec, StoreAccess::kCreate));
  for (uint64_t i = 0; i < race.rounds && !tally.failed(); ++i) {
    if (Interrupted()) return InterruptedStatus();
    play(race, *store, random, tally);
  }
  return tally.failed() ? Status::Ok() : RemoveCampaignSnapshots(*store);
}

struct RaceCase {
  const char* name;
  void (*threads)(const RaceStore&, BlockStore&, std::mt19937_64&, RaceTally&);
  Status (*whole)(const RaceStore&, std::mt19937_64&, RaceTally&);
  bool small = false;  // needs a store with a capacity
};
constexpr RaceCase kRaceCases[] = {
    {"read_while_written", ReadWhileWritten, nullptr},
    {"overwrite", Overwrite, nullptr},
    {"remove_during_get", RemoveDuringGet, nullptr},
    {"eviction", Evict, nullptr, true},
    {"scribbled_buffers", Scribble, nullptr},
    {"reopen_under_load", nullptr, ReopenUnderLoad},
    {"two_processes", nullptr, TwoProcesses},
};

std::string WhySkipped(const RaceStore& race, const RaceCase& one) {
  if (one.whole != nullptr && !KeepsFiles(race.spec.kind)) {
    return "the store keeps nothing beyond its process";
  }
  if (one.threads == RemoveDuringGet && !race.removes) {
    return "the store doesn't declare remove: its records stay for ever";
  }
  if (one.small && !race.small)
    return IsExternal(race.spec.kind)
               ? "the store takes no capacity= that would make it small"
               : "kvbed's own stores with files are raced in a small one by the self-test";
  return {};
}

Status RunRaceCase(const RaceStore& race, const RaceCase& one, CaseResult& result) {
  std::mt19937_64 random(result.seed);
  RaceTally tally;
  Status status;
  if (one.threads != nullptr) {
    status = PlayThreads(race, one.small ? *race.small : race.spec, random, tally, one.threads);
  } else {
    status = one.whole(race, random, tally);
  }
  tally.TellTo(result);
  return Failed(result) ? Status::Ok() : status;
}

Status RunRacesOf(const RaceStore& race, const std::string& prefix, const std::string& folder,
                  CaseLog& log) {
  for (const RaceCase& one : kRaceCases) {
    const std::string name = prefix + one.name;
    if (!log.Wants(name)) continue;
    CaseResult result = log.Start(name, CaseKind::kRace);
    Status status;
    if (const std::string reason = WhySkipped(race, one); !reason.empty()) {
      SkipCase(result, reason);
    } else {
      status = RunRaceCase(race, one, result);
    }
    std::error_code ignored;
    if (!folder.empty()) {
      fs::remove_all(folder, ignored);
    } else if (status.ok() && result.status == CaseStatus::kPass) {
      status = CleanStore(race.options.open, race.spec, race.options.settings);
    }
    KVBED_RETURN_IF_ERROR(status.WithContext(name));
    log.Finish(std::move(result));
  }
  return Status::Ok();
}

}  // namespace

Status RunRaces(const CampaignOptions& options, CaseLog& log) {
  std::vector<SmallStore> stores = SmallFileStores();
  stores.push_back({.name = "memory",
                    .kind = StoreKind::kMemory,
                    .capacity_bytes = kCampaignSlots * kCampaignRecordBytes});
  for (const SmallStore& one : stores) {
    const std::string prefix = fmt::format("race/{}/", one.name);
    if (!log.WantsBelow(prefix)) continue;
    const std::string folder = options.work_folder + "/race";
    const RaceStore race = {.options = options,
                            .spec = one.SpecIn(folder, false),
                            .small = one.SpecIn(folder, true),
                            .to_the_byte = one.to_the_byte,
                            .rounds = options.profile == VerifyProfile::kFull ? 20u : 2u};
    if (const Status here = IsStoreHere(race.spec); !here.ok()) {
      CaseResult result = log.Start(prefix + "all", CaseKind::kRace);
      SkipCase(result, here.message());
      log.Finish(std::move(result));
      continue;
    }
    KVBED_RETURN_IF_ERROR(RunRacesOf(race, prefix, folder, log));
  }
  return Status::Ok();
}

Status RunStoreRaces(const CampaignOptions& given, CaseLog& log) {
  constexpr std::string_view kPrefix = "store/race/";
  if (!log.WantsBelow(kPrefix)) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(given));
  if (!under.skipped.empty()) {
    SkipCampaign(log, kPrefix, CaseKind::kRace, under.skipped);
    return Status::Ok();
  }
  RaceStore race = {.options = under.options,
                    .spec = *under.options.store,
                    .small = std::nullopt,
                    .rounds = given.profile == VerifyProfile::kFull ? 20u : 2u,
                    .removes = under.removes};
  // What a store with files has is not to be met by a limit that it wasn't made with.
  if (race.spec.kind == StoreKind::kMemory) {
    race.small = race.spec;
    race.small->capacity_bytes = kCampaignSlots * kCampaignRecordBytes;
  }
  return RunRacesOf(race, std::string(kPrefix), "", log);
}

}  // namespace kvbed
