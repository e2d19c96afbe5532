// Specs of stores as people write them: what they mean, that they come back as text, and what is
// said of wrong ones.
#include "backends/store_spec.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

StoreSpec Spec(std::string_view text) {
  auto spec = ParseStoreSpec(text);
  EXPECT_OK(spec);
  return spec.ok() ? *spec : StoreSpec{};
}

TEST(StoreSpecTest, AFolderAndNothingElse) {
  const StoreSpec spec = Spec("slab:/data/kv");
  EXPECT_EQ(spec.kind, StoreKind::kSlab);
  EXPECT_EQ(spec.path, "/data/kv");
  EXPECT_FALSE(spec.iodepth || spec.ioengine || spec.direct || spec.capacity_bytes || spec.sync);
  EXPECT_EQ(spec.snapshot, "");
  EXPECT_EQ(Spec("slab:relative/kv").path, "relative/kv");
  EXPECT_EQ(Spec("slab:/with:colon").path, "/with:colon");
}

TEST(StoreSpecTest, OptionsAndASnapshot) {
  const StoreSpec spec =
      Spec("slab:/kv?iodepth=32&ioengine=psync&direct=optional&capacity=1.5GiB&sync=none#s-1.0");
  EXPECT_EQ(spec.iodepth, 32u);
  EXPECT_EQ(spec.ioengine, IoEngine::kPsync);
  EXPECT_EQ(spec.direct, DirectMode::kOptional);
  EXPECT_EQ(spec.capacity_bytes, uint64_t{3} << 29);
  EXPECT_EQ(spec.sync, SyncMode::kNone);
  EXPECT_EQ(spec.snapshot, "s-1.0");
  EXPECT_EQ(Spec("slab:/kv#s1").snapshot, "s1");
}

TEST(StoreSpecTest, MemoryHasNoPath) {
  EXPECT_EQ(Spec("memory:").kind, StoreKind::kMemory);
  EXPECT_EQ(Spec("memory:?capacity=1k").capacity_bytes, 1000u);
  EXPECT_TRUE(
      FailsWith(StatusOf(ParseStoreSpec("memory:/x")), StatusCode::kInvalidArgument, "no path"));
  EXPECT_TRUE(FailsWith(StatusOf(ParseStoreSpec("memory:?direct=off")),
                        StatusCode::kInvalidArgument, "not one of iodepth, capacity"));
}

TEST(StoreSpecTest, CharactersOfTheGrammarAreEncodedInThePath) {
  EXPECT_EQ(Spec("slab:/a%3Fb%23c%26d%25e").path, "/a?b#c&d%e");
  EXPECT_EQ(Spec("slab:/a%3fb").path, "/a?b");
  for (const char* bad : {"slab:/a%", "slab:/a%4", "slab:/a%zz", "slab:/a%00", "slab:/a&b"}) {
    EXPECT_TRUE(FailsWith(StatusOf(ParseStoreSpec(bad)), StatusCode::kInvalidArgument, "%2"))
        << bad;
  }
}

TEST(StoreSpecTest, TextComesBack) {
  for (const char* text :
       {"slab:/data/kv", "memory:", "memory:?iodepth=4&capacity=1000", "slab:a%3Fb%23c%26d%25e#s",
        "slab:/kv?iodepth=32&ioengine=io_uring&direct=off&capacity=4096&sync=full#s1",
        "rocksdb:/rdb?layout=index&wal=on&fs=posix&crc=stock#s",
        "plugin:./lib%26x.so?iodepth=2&timeout=0.25&window=8192&manifests=/m%3F&path=/d%26#s",
        "exec:python3 a.py", "exec:iodepth=2 timeout=1.5 \"manifests=/m m\" a \"b c\" --d=e #s"}) {
    EXPECT_EQ(Spec(text).ToString(), text);
    EXPECT_EQ(Spec(Spec(text).ToString()), Spec(text));
  }
}

TEST(StoreSpecTest, APluginHasItsOwnOptionsBesidesKvbeds) {
  const StoreSpec spec =
      Spec("plugin:./lib%26x.so?timeout=2.5&path=/data%3Fx&iodepth=4&direct=on&window=5000#s");
  EXPECT_EQ(spec.kind, StoreKind::kPlugin);
  EXPECT_EQ(spec.path, "./lib&x.so");
  EXPECT_EQ(spec.timeout_ms, 2500u);
  EXPECT_EQ(spec.iodepth, 4u);
  EXPECT_EQ(spec.window_bytes, 8192u);
  EXPECT_EQ(spec.plugin_options, (std::vector<std::pair<std::string, std::string>>{
                                     {"path", "/data?x"}, {"direct", "on"}}));
  EXPECT_EQ(spec.snapshot, "s");
}

TEST(StoreSpecTest, ACommandLineFollowsItsOptions) {
  const StoreSpec spec =
      Spec("exec:timeout=5 'manifests=/m m' python3 'my store.py' --x=1 a#b #s-1");
  EXPECT_EQ(spec.kind, StoreKind::kExec);
  EXPECT_EQ(spec.path, "python3 \"my store.py\" --x=1 \"a#b\"");
  EXPECT_EQ(spec.timeout_ms, 5000u);
  EXPECT_EQ(spec.manifests, "/m m");
  EXPECT_EQ(spec.snapshot, "s-1");
  EXPECT_EQ(Spec("exec:store '#no'").snapshot, "");
  EXPECT_EQ(Spec("exec:/usr/bin/env A=1 store").path, "/usr/bin/env A=1 store");
}

TEST(StoreSpecTest, WhatIsWrongIsNamedWithTheNearestRightName) {
  const std::pair<const char*, const char*> cases[] = {
      {"slap:/kv", "did you mean 'slab'?"},
      {"mem:", "did you mean 'memory'?"},
      {"zzz:/kv", "not one of slab, rocksdb, files, memory, plugin, exec"},
      {"/data/kv", "it has no kind"},
      {"./a:b", "it has no kind"},
      {"", "it has no kind"},
      {"slab:", "names no folder"},
      {"slab:?direct=off", "names no folder"},
      {"slab:/kv?", "not key=value"},
      {"slab:/kv?direct", "not key=value"},
      {"slab:/kv?io_depth=4", "did you mean 'iodepth'?"},
      {"slab:/kv?direct=of", "did you mean 'off'?"},
      {"slab:/kv?sync=yes", "not one of full, none"},
      {"slab:/kv?sync=block", "one of a slab store's: full, none"},
      {"files:/kv?layout=blob", "option of a files store"},
      {"rocksdb:/kv?sync=none", "option of a rocksdb store"},
      {"rocksdb:/kv?layout=blobs", "did you mean 'blob'?"},
      {"rocksdb:/kv?wal=1", "not one of off, on"},
      {"slab:/kv?ioengine=libaio", "libaio"},
      {"slab:/kv?iodepth=0", "1 to 4096"},
      {"slab:/kv?iodepth=4097", "1 to 4096"},
      {"slab:/kv?iodepth=-1", "1 to 4096"},
      {"slab:/kv?iodepth=4x", "1 to 4096"},
      {"slab:/kv?iodepth=4&iodepth=5", "given twice"},
      {"slab:/kv?capacity=lots", "KiB"},
      {"plugin:?path=/x", "names no library"},
      {"plugin:./a.so?timeout=0", "0.001"},
      {"plugin:./a.so?timeout=fast", "0.001"},
      {"plugin:./a.so?window=0", "1 byte to 1 TiB"},
      {"plugin:./a.so?manifests=", "names no folder"},
      {"plugin:./a.so?x=1&x=2", "given twice"},
      {"plugin:./a.so?=1", "not one of iodepth"},
      {"exec:", "names no command"},
      {"exec:timeout=3", "names no command"},
      {"exec:tiemout=3 a", "did you mean 'timeout'?"},
      {"exec:a 'b", "isn't closed"},
      {"exec:a #b/c", "snapshot name"},
      {"slab:/kv#", "snapshot name"},
      {"slab:/kv#a/b", "snapshot name"},
      {"slab:/kv#../x", "snapshot name"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_TRUE(FailsWith(StatusOf(ParseStoreSpec(text)), StatusCode::kInvalidArgument, part))
        << text;
    // The whole spec is in the message.
    EXPECT_NE(StatusOf(ParseStoreSpec(text)).message().find(text), std::string::npos);
  }
}

TEST(StoreSpecTest, ASpecWinsOverTheCommandsOptions) {
  const StoreSettings command = {.iodepth = 8,
                                 .ioengine = IoEngine::kPsync,
                                 .direct = DirectMode::kOff,
                                 .capacity_bytes = 5,
                                 .sync = SyncMode::kNone};
  EXPECT_EQ(EffectiveSettings(Spec("slab:/kv"), command), command);
  const StoreSettings spec = EffectiveSettings(
      Spec("slab:/kv?iodepth=1&ioengine=io_uring&direct=required&capacity=9&sync=full"), command);
  EXPECT_EQ(spec, (StoreSettings{.iodepth = 1,
                                 .ioengine = IoEngine::kIoUring,
                                 .direct = DirectMode::kRequired,
                                 .capacity_bytes = 9,
                                 .sync = SyncMode::kFull}));
}

}  // namespace
}  // namespace kvbed
