// Stores outside kvbed, as a plug-in and as a program, that are right, and that are wrong in every
// way that tests/adapters has: each is told by name, none harms this process.
#include "backends/external_store.h"

#include <csignal>
#include <functional>
#include <thread>

#include "backends/open_store.h"
#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

struct External {
  std::unique_ptr<BlockStore> store;
  Status status;
};

External OpenSpec(const std::string& text, StoreAccess access = StoreAccess::kCreate) {
  const auto spec = ParseStoreSpec(text);
  EXPECT_OK(spec);
  if (!spec.ok()) return {nullptr, spec.status()};
  auto store = OpenStore(*spec, {.access = access, .plugin_host = KVBED_TEST_PLUGIN_HOST});
  if (!store.ok()) return {nullptr, store.status()};
  return {std::move(*store), Status::Ok()};
}

std::string PluginSpec(const std::string& dir, const std::string& kind,
                       const std::string& timeout = "30") {
  return "plugin:" KVBED_TEST_PLUGIN "?timeout=" + timeout + "&path=" + dir +
         (kind.empty() ? "" : "&break=" + kind);
}
std::string ExecSpec(const std::string& dir, const std::string& kind,
                     const std::string& timeout = "30") {
  return "exec:timeout=" + timeout + " " KVBED_TEST_EXEC_STORE " --dir " + dir +
         (kind.empty() ? "" : " --break " + kind);
}

ExternalStoreState StateOf(const BlockStore& store) {
  const auto state = StateOfExternalStore(store);
  EXPECT_TRUE(state.has_value());
  return state.value_or(ExternalStoreState{});
}

// The first thing that goes wrong when a snapshot is taken and read back.
Status FirstFailure(BlockStore& store, const Manifest& manifest) {
  KVBED_RETURN_IF_ERROR(TakeSnapshot(store, manifest));
  KVBED_RETURN_IF_ERROR(StatusOf(store.ReadManifest(manifest.name)));
  TestRequests gets = GetsOf(manifest);
  gets.RunOn(store);
  return gets.first_error();
}

bool IsGone(int pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

struct Broken {
  const char* kind;
  const char* verb;  // that is named
  const char* part;  // of the message
  StatusCode code = StatusCode::kIoError;
  bool store_failed = true;
  bool opens = true;
  bool hangs = false;
};

std::ostream& operator<<(std::ostream& out, const Broken& broken) { return out << broken.kind; }

using SpecWithTimeout = std::function<std::string(const std::string& timeout)>;

// A store that hangs is opened with a short time-out, and with a longer one where it was too short
// for what comes before on a busy machine.
void ExpectReported(const SpecWithTimeout& spec_of, const Broken& broken) {
  const std::string place = std::string(broken.verb) + " (call ";
  External external;
  Status first;
  int pid = 0;
  for (const char* timeout : {"1", "5", "25", "125"}) {
    external = OpenSpec(spec_of(broken.hangs ? timeout : "30"));
    if (external.status.ok()) {
      pid = StateOf(*external.store).pid;
      first = FirstFailure(*external.store, MakeManifest("s", kSmallRecord, 4));
    } else {
      first = external.status;
    }
    if (!broken.hangs || first.message().find(place) != std::string::npos) break;
  }
  SCOPED_TRACE(first.message());
  if (!broken.opens) {
    EXPECT_EQ(external.store, nullptr);
    EXPECT_TRUE(FailsWith(external.status, broken.code, broken.part));
    EXPECT_NE(external.status.message().find(broken.verb), std::string::npos)
        << external.status.message();
    return;
  }
  ASSERT_OK(external.status);
  BlockStore& store = *external.store;
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(FailsWith(first, broken.code, broken.part));
  EXPECT_NE(first.message().find(place), std::string::npos) << first.message();
  EXPECT_EQ(StateOf(store).failure.ok(), !broken.store_failed);
  if (!broken.store_failed) return;
  // It is gone, and every later request says why.
  EXPECT_EQ(StateOf(store).pid, 0);
  EXPECT_TRUE(IsGone(pid));
  EXPECT_EQ(StateOf(store).failure, first);
  TestRequests puts = PutsOf(MakeManifest("t", kSmallRecord, 1, 2));
  puts.RunOn(store);
  EXPECT_EQ(puts[0].status, first);
  EXPECT_FALSE(store.Flush().ok());
  EXPECT_EQ(StatusOf(store.ReadManifest("s")), first);
  // Another child takes its place.
  Status restarted = RestartExternalStore(store, ChildEnd::kKill);
  for (int tries = 0; broken.hangs && tries < 60 && !restarted.ok(); ++tries) {
    restarted = RestartExternalStore(store, ChildEnd::kKill);
  }
  EXPECT_OK(restarted);
  EXPECT_OK(StateOf(store).failure);
  EXPECT_GT(StateOf(store).pid, 0);
}

class BrokenPluginTest : public ::testing::TestWithParam<Broken> {};
class BrokenExecTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenPluginTest, IsReportedByNameAndHarmsNothing) {
  const TempDir dir;
  ExpectReported(
      [&](const std::string& timeout) {
        return PluginSpec(dir / timeout, GetParam().kind, timeout);
      },
      GetParam());
}

TEST_P(BrokenExecTest, IsReportedByNameAndHarmsNothing) {
  const TempDir dir;
  ExpectReported(
      [&](const std::string& timeout) { return ExecSpec(dir / timeout, GetParam().kind, timeout); },
      GetParam());
}

constexpr StatusCode kDamaged = StatusCode::kCorruption;

const Broken kBrokenInBoth[] = {
    {"crash_put", "put", "was killed by signal 11"},
    {"crash_put", "put", "last words of the test"},
    {"crash_get", "get", "was killed by signal 11"},
    {"crash_commit", "commit_manifest", "was killed by signal 11"},
    {"exit_put", "put", "exited with code 3"},
    {"hang_put", "put", " s; it was killed", StatusCode::kIoError, true, true, true},
    {"hang_get", "get", " s; it was killed", StatusCode::kIoError, true, true, true},
    {"change_put", "put", "it changed the bytes of sequence"},
    {"short_record", "get", "has 4096 bytes, 8192 were put", kDamaged, false},
    {"bytes_lie", "get", "has 12288 bytes, 8192 were put", kDamaged, false},
    {"size_lie", "get", "from 4096 on nothing was written", kDamaged, false},
    {"late_read", "get", "bytes taken after their put", kDamaged, false},
    {"drop_nth", "get", "No such file", StatusCode::kNotFound, false},
};

const Broken kBrokenPlugins[] = {
    {"hang_open", "hello", "no answer within", StatusCode::kIoError, true, false, true},
    {"no_such_kind", "hello", "the options are path=DIR", StatusCode::kInvalidArgument, true,
     false},
    {"bad_status", "put", "a status of 99", StatusCode::kIoError, false},
    {"endless_message", "put", "mmmmmmmm", StatusCode::kIoError, false},
};

const Broken kBrokenPrograms[] = {
    {"hang_hello", "hello", "no answer within", StatusCode::kIoError, true, false, true},
    {"slow_reader", "hello", "no answer within", StatusCode::kIoError, true, false, true},
    {"wrong_version", "hello", "it speaks version 7 of the store protocol, this kvbed speaks 1",
     StatusCode::kNotSupported, true, false},
    {"refuse_hello", "hello", "no disk today", StatusCode::kIoError, true, false},
    {"unknown_capability", "hello", "teleport", StatusCode::kNotSupported, true, false},
    {"close_output", "put", "it closed its standard output; it was killed"},
    {"short_answer", "put", "of them"},
    {"extra_answer", "put", "of them"},
    {"garbage", "put", "what nobody asked for: ?[2Jdone!"},
    {"garbage_first", "put", "no JSON object: progress: 50 %"},
    {"not_json", "put", "no JSON object: ok"},
    {"no_call", "put", "names no call"},
    {"bad_status", "put", "no known status"},
    {"deep_json", "put", "nested too deeply"},
    {"long_line", "put", "longer than 4194304 bytes"},
    {"forget", "get", "No such file", StatusCode::kNotFound, false},
};

std::string NameOfBroken(const ::testing::TestParamInfo<Broken>& info) {
  return info.param.kind + std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Both, BrokenPluginTest, ::testing::ValuesIn(kBrokenInBoth), NameOfBroken);
INSTANTIATE_TEST_SUITE_P(Both, BrokenExecTest, ::testing::ValuesIn(kBrokenInBoth), NameOfBroken);
INSTANTIATE_TEST_SUITE_P(Own, BrokenPluginTest, ::testing::ValuesIn(kBrokenPlugins), NameOfBroken);
INSTANTIATE_TEST_SUITE_P(Own, BrokenExecTest, ::testing::ValuesIn(kBrokenPrograms), NameOfBroken);

// What both adapters are asked to do in the tests below.
class ExternalStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string Spec(const std::string& kind, const std::string& timeout = "30") const {
    return GetParam() ? PluginSpec(dir_ / "store", kind, timeout)
                      : ExecSpec(dir_ / "store", kind, timeout);
  }
  std::unique_ptr<BlockStore> Open(const std::string& kind) const {
    External external = OpenSpec(Spec(kind));
    EXPECT_OK(external.status);
    return std::move(external.store);
  }
  const TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Adapters, ExternalStoreTest, ::testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "Plugin" : "Exec");
});

TEST_P(ExternalStoreTest, ARightOneIsWhole) {
  const auto store = Open("");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 4);
  EXPECT_OK(FirstFailure(*store, manifest));
  EXPECT_TRUE(IsWhole(*store, manifest));
  const ExternalStoreState state = StateOf(*store);
  EXPECT_EQ(state.capabilities, (ExternalCapabilities{true, true, true, true, true}));
  EXPECT_FALSE(state.lossy);
  EXPECT_EQ(state.manifests, ExternalStoreState::Manifests::kStore);
  EXPECT_GE(state.calls, 4u);
  EXPECT_EQ(state.restarts, 0u);
  const int pid = state.pid;
  const StoreInfo info = store->info();
  EXPECT_EQ(info.kind, GetParam() ? "plugin" : "exec");
  EXPECT_FALSE(info.direct);
  EXPECT_EQ(info.direct_reason, "the store's own affair");
  EXPECT_NE(info.design.find(state.name), std::string::npos);
  EXPECT_OK(RestartExternalStore(*store, ChildEnd::kClose));
  EXPECT_TRUE(IsGone(pid));
  EXPECT_TRUE(IsWhole(*store, manifest));
  EXPECT_EQ(StateOf(*store).restarts, 1u);
}

TEST_P(ExternalStoreTest, WhatComesThroughUnnoticedOnlyTheBytesTell) {
  for (const char* kind : {"foreign", "flip"}) {
    const auto store = Open(kind);
    const Manifest manifest = MakeManifest(kind, kSmallRecord, 3);
    ASSERT_OK(TakeSnapshot(*store, manifest));
    TestRequests gets = GetsOf(manifest);
    gets.RunOn(*store);
    EXPECT_OK(gets.first_error());
    EXPECT_FALSE(gets.IsIntact(0)) << kind;
    ASSERT_OK(store->RemoveManifest(kind));
  }
}

TEST_P(ExternalStoreTest, AStaleOneGivesTheFirstGeneration) {
  const auto store = Open("stale");
  const Manifest first = MakeManifest("first", kSmallRecord, 1);
  const Manifest second = MakeManifest("second", kSmallRecord, 1, 1, 2);
  ASSERT_OK(TakeSnapshot(*store, first));
  EXPECT_TRUE(IsWhole(*store, first));
  ASSERT_OK(TakeSnapshot(*store, second));
  TestRequests gets = GetsOf(second);
  gets.RunOn(*store);
  EXPECT_OK(gets.first_error());
  EXPECT_FALSE(gets.IsIntact(0));
}

TEST_P(ExternalStoreTest, WritingAfterTheAnswerIsSeenAtTheNextCall) {
  const auto store = Open("scribble");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 1);
  ASSERT_OK(TakeSnapshot(*store, manifest));
  Status status;
  for (int tries = 0; tries < 1000 && status.ok(); ++tries) {
    TestRequests gets = GetsOf(manifest);
    gets.RunOn(*store);
    status = gets.first_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(FailsWith(status, StatusCode::kIoError, "wrote to the shared memory after"));
  EXPECT_TRUE(FailsWith(status, StatusCode::kIoError, "get (call "));
}

TEST_P(ExternalStoreTest, RemovalsAreAskedFor) {
  for (const char* kind : {"", "remove_nothing"}) {
    const auto store = Open(kind);
    const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
    ASSERT_OK(TakeSnapshot(*store, manifest));
    ASSERT_OK(store->RemoveManifest("s"));
    ASSERT_OK_AND_ASSIGN(const auto there, ExternalExists(*store, BlockIds(manifest)));
    EXPECT_EQ(there, std::vector<bool>(2, *kind != '\0')) << kind;
  }
}

TEST_P(ExternalStoreTest, ListsAreHeldAgainstTheManifests) {
  const Manifest manifest = MakeManifest("s", kSmallRecord, 3);
  {
    const auto store = Open("");
    ASSERT_OK(TakeSnapshot(*store, manifest));
    ASSERT_OK_AND_ASSIGN(const auto ids, ExternalList(*store));
    EXPECT_EQ(ids.size(), 3u);
    EXPECT_OK(store->ListRecords());
  }
  const auto inventing = Open("list_invents");
  ASSERT_OK_AND_ASSIGN(const auto invented, ExternalList(*inventing));
  EXPECT_EQ(invented.size(), 4u);
  const auto lacking = Open("list_lacks");
  ASSERT_OK(TakeSnapshot(*lacking, manifest, CommitMode::kReplace));
  EXPECT_TRUE(FailsWith(StatusOf(lacking->ListRecords()), StatusCode::kCorruption, "list of 2"));
}

TEST_P(ExternalStoreTest, AFlushThatDoesNothingShowsWhenItIsKilled) {
  for (const char* kind : {"lose_unflushed", "flush_nothing"}) {
    const auto store = Open(kind);
    const bool right = std::string_view(kind) == "lose_unflushed";
    const Manifest committed = MakeManifest(kind, kSmallRecord, 2, right ? 1 : 2);
    ASSERT_OK(TakeSnapshot(*store, committed));
    EXPECT_TRUE(IsWhole(*store, committed));
    const Manifest unflushed = MakeManifest("u", kSmallRecord, 2, 3);
    ASSERT_OK(PutAll(*store, unflushed));
    KillExternalStore(*store);
    ASSERT_OK(RestartExternalStore(*store, ChildEnd::kKill));
    EXPECT_EQ(IsWhole(*store, committed), right) << kind;
    TestRequests gets = GetsOf(unflushed);
    gets.RunOn(*store);
    EXPECT_EQ(gets[0].status.code(), StatusCode::kNotFound);
    const auto pointers = gets.pointers();
    ExternalGet(*store, pointers);
    EXPECT_TRUE(FailsWith(gets[0].status, StatusCode::kNotFound, "get (call "));
  }
}

TEST_P(ExternalStoreTest, ItCanBeKilledInTheMiddleOfACall) {
  External external = OpenSpec(Spec("hang_put", "600"));
  ASSERT_OK(external.status);
  BlockStore& store = *external.store;
  auto channel = store.OpenChannel({});
  ASSERT_OK(channel);
  TestRequests puts = PutsOf(MakeManifest("s", kSmallRecord, 2));
  channel->Submit(puts.pointers());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  KillExternalStore(store);
  std::vector<StoreRequest*> completed;
  while (channel->outstanding() > 0) channel->Reap(1, completed).IgnoreError();
  EXPECT_TRUE(FailsWith(puts[0].status, StatusCode::kIoError, "was killed by signal 9"));
  KillExternalStore(store);  // nobody
  EXPECT_OK(RestartExternalStore(store, ChildEnd::kClose));
}

TEST_P(ExternalStoreTest, AFailedFlushIsForgottenWithTheChild) {
  const auto store = Open("");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(PutAll(*store, manifest));
  KillExternalStore(*store);
  EXPECT_EQ(store->Flush().code(), StatusCode::kIoError);
  EXPECT_TRUE(FailsWith(store->Flush(), StatusCode::kIoError, "reopen the store"));
  ASSERT_OK(RestartExternalStore(*store, ChildEnd::kKill));
  ASSERT_OK(TakeSnapshot(*store, manifest));
  EXPECT_TRUE(IsWhole(*store, manifest));
}

TEST_P(ExternalStoreTest, ARecordLargerThanTheWindowIsRefused) {
  const std::string spec = GetParam() ? "plugin:" KVBED_TEST_PLUGIN "?window=8k&path="
                                      : "exec:window=8k " KVBED_TEST_EXEC_STORE " --dir ";
  External external = OpenSpec(spec + (dir_ / "store"));
  ASSERT_OK(external.status);
  TestRequests puts = PutsOf(MakeManifest("s", 12'288, 1));
  puts.RunOn(*external.store);
  EXPECT_TRUE(FailsWith(puts[0].status, StatusCode::kInvalidArgument, "give window=12288"));
  // Those that fit one by one go one by one.
  EXPECT_OK(FirstFailure(*external.store, MakeManifest("t", kSmallRecord, 5, 2)));
}

TEST_P(ExternalStoreTest, AFloodOfErrorTextAndPrintsDoNoHarm) {
  const auto store = Open(GetParam() ? "prints" : "flood_errors");
  EXPECT_OK(FirstFailure(*store, MakeManifest("s", kSmallRecord, 4)));
}

TEST(ExternalPluginTest, WithoutCapabilitiesKvbedKeepsTheManifests) {
  const TempDir dir;
  const std::string spec = "plugin:" KVBED_TEST_PLUGIN_BARE "?path=" + (dir / "store");
  External external = OpenSpec(spec);
  ASSERT_OK(external.status);
  BlockStore& store = *external.store;
  const ExternalStoreState state = StateOf(store);
  EXPECT_EQ(state.capabilities, ExternalCapabilities{});
  EXPECT_EQ(state.manifests, ExternalStoreState::Manifests::kMemory);
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  ASSERT_OK(TakeSnapshot(store, manifest));
  ASSERT_OK(RestartExternalStore(store, ChildEnd::kKill));
  EXPECT_TRUE(IsWhole(store, manifest));
  const auto ids = BlockIds(manifest);
  EXPECT_TRUE(FailsWith(StatusOf(ExternalExists(store, ids)), StatusCode::kNotSupported,
                        "the capability exists"));
  EXPECT_TRUE(
      FailsWith(StatusOf(ExternalList(store)), StatusCode::kNotSupported, "the capability list"));
}

TEST(ExternalPluginTest, ManifestsInAFolderOutliveTheStore) {
  const TempDir dir;
  const std::string spec =
      "plugin:" KVBED_TEST_PLUGIN_BARE "?manifests=" + (dir / "m") + "&path=" + (dir / "store");
  const Manifest manifest = MakeManifest("s", kSmallRecord, 2);
  {
    External external = OpenSpec(spec);
    ASSERT_OK(external.status);
    EXPECT_EQ(StateOf(*external.store).manifests, ExternalStoreState::Manifests::kFolder);
    ASSERT_OK(TakeSnapshot(*external.store, manifest));
  }
  External external = OpenSpec(spec, StoreAccess::kRead);
  ASSERT_OK(external.status);
  EXPECT_TRUE(IsWhole(*external.store, manifest));
  // A store that keeps them itself wants no folder.
  EXPECT_TRUE(FailsWith(
      OpenSpec("plugin:" KVBED_TEST_PLUGIN "?manifests=" + (dir / "m") + "&path=" + (dir / "other"))
          .status,
      StatusCode::kInvalidArgument, "leave manifests="));
}

TEST(ExternalPluginTest, ALossyOneSaysSo) {
  const TempDir dir;
  const External plugin = OpenSpec("plugin:" KVBED_TEST_PLUGIN_LOSSY "?path=" + (dir / "a"));
  ASSERT_OK(plugin.status);
  EXPECT_TRUE(StateOf(*plugin.store).lossy);
  const External exec = OpenSpec("exec:" KVBED_TEST_EXEC_STORE " --lossy --dir " + (dir / "b"));
  ASSERT_OK(exec.status);
  EXPECT_TRUE(StateOf(*exec.store).lossy);
}

TEST(ExternalPluginTest, WhatIsNoPluginIsRefusedByName) {
  const TempDir dir;
  const auto refused = [&](const std::string& library, StatusCode code, std::string_view part) {
    return FailsWith(OpenSpec("plugin:" + library + "?path=" + (dir / "store")).status, code, part);
  };
  EXPECT_TRUE(refused(KVBED_TEST_PLUGIN_V7, StatusCode::kNotSupported,
                      "built for version 7 of the plug-in interface, this kvbed has 1"));
  EXPECT_TRUE(refused("/nowhere/libx.so", StatusCode::kIoError, "cannot open shared object"));
  EXPECT_TRUE(refused("libc.so.6", StatusCode::kIoError, "./libc.so.6"));
  EXPECT_TRUE(refused("/lib/x86_64-linux-gnu/libm.so.6", StatusCode::kNotSupported,
                      "has no symbol kvbed_store_plugin_v1"));
}

TEST(ExternalExecTest, AProgramThatIsNoStoreIsRefusedByName) {
  EXPECT_TRUE(FailsWith(OpenSpec("exec:no-such-program-anywhere").status, StatusCode::kNotFound,
                        "there is no program no-such-program-anywhere"));
  EXPECT_TRUE(
      FailsWith(OpenSpec("exec:true").status, StatusCode::kIoError, "in hello (call 1) after"));
  EXPECT_TRUE(FailsWith(OpenSpec("exec:true").status, StatusCode::kIoError, "exited with code 0"));
  EXPECT_TRUE(FailsWith(OpenSpec("exec:sh -c 'read line; echo hello'").status, StatusCode::kIoError,
                        "no JSON object: hello"));
  // It may come before the question or after it.
  EXPECT_TRUE(FailsWith(OpenSpec("exec:echo hello").status, StatusCode::kIoError, ": hello"));
  EXPECT_TRUE(FailsWith(OpenSpec("exec:cat").status, StatusCode::kIoError, "has no status"));
  EXPECT_TRUE(FailsWith(OpenSpec("exec:sh -c 'echo oh no >&2; exit 5'").status,
                        StatusCode::kIoError, "exited with code 5"));
  EXPECT_TRUE(FailsWith(OpenSpec("exec:timeout=1 yes").status, StatusCode::kIoError, "y"));
}

TEST(ExternalExecTest, AnAnswerGivenTwiceIsSeen) {
  const TempDir dir;
  External external = OpenSpec(ExecSpec(dir / "store", "duplicate"));
  ASSERT_OK(external.status);
  const Status status = FirstFailure(*external.store, MakeManifest("s", kSmallRecord, 2));
  // By the time of the next call it has come, or it comes as that one's answer.
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_TRUE(status.message().find("nobody asked for") != std::string::npos ||
              status.message().find("a second time") != std::string::npos)
      << status.message();
}

TEST(ExternalExecTest, AListOutOfOrderEndsTheStore) {
  const TempDir dir;
  External external = OpenSpec(ExecSpec(dir / "store", "list_disorder"));
  ASSERT_OK(external.status);
  ASSERT_OK(TakeSnapshot(*external.store, MakeManifest("s", kSmallRecord, 2)));
  EXPECT_TRUE(FailsWith(StatusOf(ExternalList(*external.store)), StatusCode::kIoError,
                        "isn't in ascending order"));
  EXPECT_FALSE(StateOf(*external.store).failure.ok());
}

TEST(ExternalExecTest, AManifestWithoutItsEndIsCorruption) {
  const TempDir dir;
  External external = OpenSpec(ExecSpec(dir / "store", "manifest_lies"));
  ASSERT_OK(external.status);
  ASSERT_OK(TakeSnapshot(*external.store, MakeManifest("s", kSmallRecord, 2)));
  EXPECT_EQ(StatusOf(external.store->ReadManifest("s")).code(), StatusCode::kCorruption);
}

TEST(ExternalExecTest, OtherStoresAreNotExternal) {
  const External memory = OpenSpec("memory:");
  EXPECT_FALSE(StateOfExternalStore(*memory.store).has_value());
}

}  // namespace
}  // namespace kvbed
