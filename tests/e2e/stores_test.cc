// The main job over every kind of store, and what damage to its files is found as.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

struct KindOfStore {
  const char* name;
  const char* kind;
  const char* options;
  const char* design;  // a part of what it says of itself
};

std::ostream& operator<<(std::ostream& out, const KindOfStore& one) { return out << one.name; }

const KindOfStore kStores[] = {
    {"Files", "files", "", "a file for each block, direct I/O"},
    {"FilesSyncedEach", "files", "?sync=block", "each synced by itself"},
    {"FilesAsManyDo", "files", "?direct=off&sync=none", "as many serving stacks do"},
#ifdef KVBED_HAS_ROCKSDB
    {"RocksDbBlob", "rocksdb", "", "blob files over kvbed's seam, direct I/O"},
    {"RocksDbBlobWal", "rocksdb", "?wal=on", "blob files over kvbed's seam"},
    {"RocksDbStock", "rocksdb", "?fs=posix&crc=stock", "as it writes them itself"},
    {"RocksDbIndex", "rocksdb", "?layout=index", "RocksDB is the index only"},
    {"RocksDbIndexWal", "rocksdb", "?layout=index&wal=on", "RocksDB is the index only"},
#endif
};

class EveryStore : public testing::TestWithParam<KindOfStore> {
 protected:
  std::string Spec(const std::string& more = "") const {
    return std::string(GetParam().kind) + ":" + (folder_ / "store") + GetParam().options + more;
  }
  CommandRun Run(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"run", "-m", "toy:8m?kv_heads=2", "-o",  "json", "-c", "46",
                                       "-n",  "9",  "--store",           Spec()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }

  const TempDir folder_;
};

TEST_P(EveryStore, RestoresBitForBitInTheSameAndInAFreshProcess) {
  for (const char* how : {"", "--fresh-process"}) {
    std::vector<std::string> more;
    if (*how != '\0') more = {how, "--replace"};
    const CommandRun run = Run(more);
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
    const auto json = run.Json();
    for (const char* part : {"control", "bytes", "logits", "tokens"}) {
      EXPECT_EQ(json.at("verdict").at(part).at("status"), "equal") << part;
    }
    EXPECT_EQ(json.at("verdict").at("bytes").at("differing_bits"), 0);
    EXPECT_EQ(json.at("restore").at("prefill_tokens_after_restore"), 0);
    EXPECT_EQ(json.at("store").at("kind"), GetParam().kind);
    const auto design = json.at("store").at("design").get<std::string>();
    EXPECT_NE(design.find(GetParam().design), std::string::npos) << design;
  }
}

TEST_P(EveryStore, DamageToItsFilesFailsTheVerdict) {
  for (const char* kind : {"flip", "swap", "stale", "truncate", "shift"}) {
    std::filesystem::remove_all(folder_ / "store");
    const CommandRun run = Run({"--inject", kind});
    EXPECT_EQ(run.exit_code, 1) << kind << run.out << run.err;
    if (run.exit_code != 1) continue;
    const auto json = run.Json();
    EXPECT_FALSE(json.at("verdict").at("bytes").at("findings").empty()) << kind;
  }
}

TEST_P(EveryStore, IsLookedIntoAndGivesSpaceBack) {
  const CommandRun run = Run({"--name", "s1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto snapshot = run.Json().at("snapshot");
  const CommandRun ls = RunKvbed({"store", "ls", Spec()});
  EXPECT_EQ(ls.exit_code, 0);
  EXPECT_EQ(ls.out.substr(0, 2), "s1") << ls.out;
  const CommandRun info = RunKvbed({"store", "info", Spec("#s1"), "-o", "json"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const auto blocks = info.Json().at("snapshots").at(0).at("blocks");
  EXPECT_EQ(blocks.size(), snapshot.at("blocks"));
  for (const auto& block : blocks) {
    EXPECT_TRUE(std::filesystem::exists(block.at("path").get<std::string>())) << block;
  }
  const CommandRun rm = RunKvbed({"store", "rm", Spec("#s1"), "-o", "json"});
  ASSERT_EQ(rm.exit_code, 0) << rm.err;
  EXPECT_EQ(rm.Json().at("freed_records"), snapshot.at("blocks"));
  EXPECT_EQ(rm.Json().at("records"), 0);
  const bool slots = std::string(GetParam().design).find("index only") != std::string::npos;
  if (!slots) {
    EXPECT_GE(rm.Json().at("filesystem_bytes_back"), snapshot.at("stored_bytes"));
  }
  EXPECT_EQ(RunKvbed({"store", "rm", Spec("#s1")}).exit_code, 4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryStore, testing::ValuesIn(kStores),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(RocksDbCommand, SaysWhatIsInEffectOrThatThisBuildHasNone) {
  const TempDir folder;
  const std::string spec = "rocksdb:" + (folder / "store");
  const CommandRun made =
      RunKvbed({"run", "-m", "toy:8m", "-c", "20", "-n", "3", "--store", spec, "-o", "json"});
#ifdef KVBED_HAS_ROCKSDB
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const CommandRun info = RunKvbed({"store", "info", spec, "-o", "json"});
  const auto details = info.Json().at("store").at("details");
  for (const char* name : {"rocksdb_version", "layout", "wal", "fs", "crc32c", "blob_files",
                           "write_buffer_bytes", "gc_runs"}) {
    EXPECT_TRUE(details.contains(name)) << name;
  }
  // A layout is for good.
  const CommandRun other = RunKvbed({"store", "info", spec + "?layout=index"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("has layout=blob"), std::string::npos) << other.err;
#else
  EXPECT_EQ(made.exit_code, 4);
  EXPECT_NE(made.err.find("this build has no rocksdb"), std::string::npos) << made.err;
#endif
}

}  // namespace
}  // namespace kvbed
