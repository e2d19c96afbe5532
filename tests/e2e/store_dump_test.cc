// `kvbed store dump` as a user runs it: what is written is what was stored, and damage is never
// written.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/model/mapped_file.h"
#include "engine/model/safetensors_file.h"
#include "tests/e2e/sample_snapshot.h"
#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_dump.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Where a record of the snapshot lies.
std::pair<std::string, uint64_t> PlaceOfRecord(const std::string& spec, size_t block) {
  const CommandRun info = RunKvbed({"store", "info", spec, "--direct", "optional", "-o", "json"});
  const auto json = info.Json();
  const auto& one = json.at("snapshots").at(0).at("blocks").at(block);
  return {one.at("path").get<std::string>(), one.at("offset").get<uint64_t>()};
}

void ChangeByte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

class StoreDump : public testing::TestWithParam<const char*> {
 protected:
  std::string Spec() const { return std::string(GetParam()) + ":" + (dir_ / "store"); }
  CommandRun Dump(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"store", "dump", Spec() + "#s1", "--direct", "optional"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }

  const TempDir dir_;
};

TEST_P(StoreDump, WritesWhatWasStored) {
  for (const KvElement element : {KvElement::kBf16, KvElement::kFp32}) {
    for (const uint32_t block_tokens : {1, 5, 16}) {
      fs::remove_all(dir_ / "store");
      const SampleKv kv = MakeSampleKv(element, 37);
      MakeSampleSnapshot(Spec(), "s1", kv, block_tokens);
      const std::string out = dir_ / "s1.safetensors";
      const CommandRun run = Dump({"--out", out});
      ASSERT_EQ(run.exit_code, kExitOk) << run.err;
      ASSERT_OK_AND_ASSIGN(const MappedFile file, MappedFile::Open(out));
      ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(file.bytes()));
      const auto expected = DynamicCacheTensors(kv);
      ASSERT_EQ(tensors.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(tensors[i].name, expected[i].name);
        EXPECT_EQ(tensors[i].shape, expected[i].shape);
        EXPECT_EQ(tensors[i].dtype, element == KvElement::kBf16 ? "BF16" : "F32");
        EXPECT_TRUE(AsText(tensors[i].data) == expected[i].bytes) << expected[i].name;
      }
      const auto header =
          nlohmann::json::parse(AsText(file.bytes().subspan(8, LoadLe<uint64_t>(file.bytes(), 0))));
      const auto metadata = header.at("__metadata__");
      EXPECT_EQ(metadata.at("tokens"), "37");
      EXPECT_EQ(metadata.at("format"), "pt");
      EXPECT_EQ(metadata.at("kvbed_format"), "kvbed-kv/1");
      EXPECT_EQ(metadata.at("model"), "sample");
      EXPECT_EQ(metadata.at("model_fingerprint").get<std::string>().size(), 32u);
      EXPECT_TRUE(metadata.at("token_ids").get<std::string>().starts_with("500,501,"));
    }
  }
}

TEST_P(StoreDump, OfADamagedRecordIsAFindingAndNoFile) {
  MakeSampleSnapshot(Spec(), "s1", MakeSampleKv(), 16);
  const std::string out = dir_ / "s1.safetensors", json_file = dir_ / "r.json";
  WriteDump(out, "what was there");
  ASSERT_EQ(Dump({"--hex"}).exit_code, kExitOk);
  const auto [path, offset] = PlaceOfRecord(Spec() + "#s1", 1);
  ChangeByte(path, offset + 4096 + 77);
  const CommandRun run = Dump({"--out", out, "--json", json_file});
  EXPECT_EQ(run.exit_code, kExitFailedCheck) << run.err;
  EXPECT_NE(run.out.find("FINDING"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("nothing was written"), std::string::npos) << run.out;
  EXPECT_EQ(ReadAll(out), "what was there");
  std::ifstream in(json_file);
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json.at("status"), "failed");
  ASSERT_EQ(json.at("findings").size(), 1u);
  EXPECT_EQ(json.at("findings").at(0).at("first_token"), 16);
  EXPECT_TRUE(json.at("dump").is_null());
  // Nothing but the store, the old file and the JSON is there.
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()), 3);
  if (std::string(GetParam()) == "slab") {
    const CommandRun hex = Dump({"--hex"});
    EXPECT_EQ(hex.exit_code, kExitFailedCheck);
    EXPECT_NE(hex.out.find("block 1: tokens 16 to 31; DAMAGED (payload)"), std::string::npos);
    EXPECT_EQ(json.at("findings").at(0).at("damage"), "bit");
  }
}

const char* const kDumpedStores[] = {
    "slab",
    "files",
#ifdef KVBED_HAS_ROCKSDB
    "rocksdb",
#endif
};
INSTANTIATE_TEST_SUITE_P(Kinds, StoreDump, testing::ValuesIn(kDumpedStores),
                         [](const auto& one) { return std::string(one.param); });

class StoreDumpSlab : public testing::Test {
 protected:
  CommandRun Dump(std::vector<std::string> more, const std::string& name = "#s1") const {
    std::vector<std::string> arguments = {"store", "dump", spec_ + name, "--direct", "optional"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }

  const TempDir dir_;
  const std::string spec_ = "slab:" + (dir_ / "store");
};

TEST_F(StoreDumpSlab, HexShowsFieldsAndRows) {
  SampleKv kv = MakeSampleKv(KvElement::kBf16, 20);
  kv.Set({2, KvPart::kV, 1, 18, 0}, uint16_t{0x1234});
  MakeSampleSnapshot(spec_, "s1", kv, 16);
  const CommandRun run = Dump({"--hex"});
  ASSERT_EQ(run.exit_code, kExitOk) << run.err;
  for (const char* says :
       {"block 0: tokens 0 to 15", "block 1: tokens 16 to 19", "4b56424544524543", "KVBEDREC",
        "tokens used        04000000", "head_dim           08000000", "record digest",
        "V of layer 2", "layer 2 V head 1 token 18  3412 "}) {
    EXPECT_NE(run.out.find(says), std::string::npos) << says;
  }
  EXPECT_EQ(run.out.find("token 20 "), std::string::npos);
  EXPECT_EQ(run.out.find("DAMAGED"), std::string::npos);
}

TEST_F(StoreDumpSlab, AShortFileAndADamagedManifestAreFound) {
  MakeSampleSnapshot(spec_, "s1", MakeSampleKv(), 16);
  const auto [path, offset] = PlaceOfRecord(spec_ + "#s1", 2);
  fs::resize_file(path, offset + 100);
  const CommandRun run = Dump({"--out", dir_ / "out", "-o", "json"});
  EXPECT_EQ(run.exit_code, kExitFailedCheck) << run.err;
  EXPECT_EQ(run.Json().at("findings").at(0).at("check"), "short");
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  ChangeByte(dir_ / "store/manifests/s1.manifest", 60);
  const CommandRun manifest = Dump({"--out", dir_ / "out"});
  EXPECT_EQ(manifest.exit_code, kExitFailedCheck);
  EXPECT_NE(manifest.err.find("is damaged"), std::string::npos) << manifest.err;
}

TEST_F(StoreDumpSlab, RefusesWhatCanNotBeWrittenBeforeItReads) {
  MakeSampleSnapshot(spec_, "s1", MakeSampleKv(), 16);
  const auto fails = [&](const CommandRun& run, int exit_code, const char* says) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  };
  fails(Dump({}), kExitUsage, "--out FILE");
  fails(Dump({"--out", dir_ / "no/such"}), kExitUnusable, "make it first");
  fails(Dump({"--out", dir_ / "store/x"}), kExitUsage, "which this command uses");
  fails(Dump({"--out", dir_ / "x", "--json", dir_ / "x"}), kExitUsage, "--json");
  fails(Dump({"--out", "/dev/null"}), kExitUsage, "no regular file");
  fails(Dump({"--hex", "-o", "json"}), kExitUsage, "--hex is text");
  fails(Dump({"--out", dir_ / "x"}, ""), kExitUsage, "its snapshots are: s1");
  fails(Dump({"--out", dir_ / "x"}, "#s2"), kExitUnusable, "has no snapshot s2");
  fails(RunKvbed({"store", "dump", "memory:#s1", "--hex"}), kExitUsage, "memory:");
  EXPECT_FALSE(fs::exists(dir_ / "x"));
}

TEST_F(StoreDumpSlab, HasTheNamesOfItsResult) {
  MakeSampleSnapshot(spec_, "s1", MakeSampleKv(), 16);
  const CommandRun run = Dump({"--out", dir_ / "x", "-o", "json"});
  const auto json = run.Json();
  EXPECT_EQ(json.at("schema"), "kvbed-store/1");
  EXPECT_TRUE(
      HasNames(json, {"kvbed_version", "argv", "seed", "started_at", "env", "model", "status",
                      "reasons", "snapshots", "records", "free_bytes", "findings", "dump"}));
  EXPECT_EQ(json.at("dump").at("size_bytes"), fs::file_size(dir_ / "x"));
  EXPECT_EQ(json.at("records"), 3);
}

}  // namespace
}  // namespace kvbed
