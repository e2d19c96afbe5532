// `kvbed diff` as a user runs it: dumps of several engines and snapshots, equal and not, and what
// can't be compared.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/e2e/sample_snapshot.h"
#include "tests/support/command.h"
#include "tests/support/json_names.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_dump.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

class DiffCommand : public testing::Test {
 protected:
  void SetUp() override { a_ = Write("a.safetensors", SafetensorsFile(DynamicCacheTensors(kv_))); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    WriteDump(dir_ / name, bytes);
    return dir_ / name;
  }
  std::string WriteCache(const std::string& name, const SampleKv& kv,
                         const std::string& dtype = "BF16") const {
    return Write(name, SafetensorsFile(DynamicCacheTensors(kv), dtype));
  }
  static CommandRun Diff(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"diff", "--direct", "optional"});
    return RunKvbed(std::move(arguments));
  }
  // Equal; and with one bit of B changed, different.
  void Equal(const std::vector<std::string>& arguments, const std::string& b_file) const {
    const CommandRun run = Diff(arguments);
    EXPECT_EQ(run.exit_code, kExitOk) << run.out << run.err;
    EXPECT_NE(run.out.find("EQUAL"), std::string::npos) << run.out;
    std::fstream file(b_file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(byte);
    file.close();
    const CommandRun control = Diff(arguments);
    EXPECT_EQ(control.exit_code, kExitFailedCheck) << control.out << control.err;
    EXPECT_NE(control.out.find("bit: one bit differs"), std::string::npos) << control.out;
  }
  static void Fails(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& says) {
    const CommandRun run = Diff(arguments);
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }

  const TempDir dir_;
  SampleKv kv_ = MakeSampleKv();
  std::string a_;
};

TEST_F(DiffCommand, TwoDumpsOfDynamicCache) {
  const std::string b = WriteCache("b.safetensors", kv_);
  EXPECT_EQ(Diff({a_, a_}).exit_code, kExitOk);
  Equal({a_, b}, b);
}

TEST_F(DiffCommand, NamesTheFirstDifferenceAndEachLayer) {
  SampleKv other = kv_;
  kv_.Set({1, KvPart::kV, 1, 17, 5}, uint16_t{0x3f80});
  other.Set({1, KvPart::kV, 1, 17, 5}, uint16_t{0x3f83});
  other.Element({2, KvPart::kK, 0, 3, 0})[0] ^= std::byte{3};
  const std::string a = WriteCache("a.safetensors", kv_), b = WriteCache("b.safetensors", other);
  const std::string json_file = dir_ / "d.json";
  const CommandRun run = Diff({a, b, "--json", json_file});
  EXPECT_EQ(run.exit_code, kExitFailedCheck) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* says : {"V of layer 1, KV head 1, token 17, dim 5: A 0x3f80 (1), B 0x3f83",
                           "3,838 of 3,840 elements identical", "4 bits differ",
                           "1 other layer is identical", "prove none"}) {
    EXPECT_NE(run.out.find(says), std::string::npos) << says << "\n" << run.out;
  }
  std::ifstream in(json_file);
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json.at("schema"), "kvbed-diff/1");
  EXPECT_TRUE(HasNames(json, {"kvbed_version", "argv", "seed", "started_at", "env", "model",
                              "status", "reasons", "identical_pct", "first", "layers", "damage"}));
  EXPECT_EQ(json.at("status"), "failed");
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_NEAR(json.at("identical_pct").get<double>(), 100.0 * 3838 / 3840, 1e-9);
  const auto& first = json.at("first");
  EXPECT_EQ(first.at("layer"), 1);
  EXPECT_EQ(first.at("kv"), "V");
  EXPECT_EQ(first.at("head"), 1);
  EXPECT_EQ(first.at("token"), 17);
  EXPECT_EQ(first.at("dim"), 5);
  EXPECT_EQ(first.at("a"), "0x3f80");
  EXPECT_EQ(first.at("b"), "0x3f83");
  EXPECT_EQ(first.at("a_value"), 1.0);
  ASSERT_EQ(json.at("layers").size(), 3u);
  EXPECT_EQ(json.at("layers").at(0).at("v_identical_pct"), 100.0);
  EXPECT_EQ(json.at("layers").at(1).at("v_max_ulp"), 3);
  EXPECT_EQ(json.at("layers").at(1).at("v_max_abs"), 3 * 0x1p-7);
  EXPECT_TRUE(json.at("damage").is_null());
  EXPECT_TRUE(json.at("damage_reason").is_string());
}

TEST_F(DiffCommand, APagedCacheAgainstAContiguousOne) {
  const std::vector<uint64_t> table = {6, 1, 5, 0, 3};
  const std::string b = Write("b.safetensors", SafetensorsFile(PagedTensors(kv_, 8, table, 7)));
  const std::string list = Write("table.json", "[[6, 1, 5, 0, 3, -1]]");
  const auto with = [&](const std::string& table_option) {
    return std::vector<std::string>{a_,         b,       "--layout",      "",
                                    "--layout", "2NTHD", "--block-table", table_option};
  };
  EXPECT_EQ(Diff(with("6,1,5,0,3")).exit_code, kExitOk);
  EXPECT_EQ(Diff(with("6,1,5,0,3,-1")).exit_code, kExitOk);
  const CommandRun run = Diff(with(list));
  EXPECT_EQ(run.exit_code, kExitOk) << run.out << run.err;
  // Blocks in another order, and which.
  const CommandRun swapped = Diff(with("6,5,1,0,3"));
  EXPECT_EQ(swapped.exit_code, kExitFailedCheck);
  EXPECT_NE(swapped.out.find("equals_other: B's K of layer 0 from token 8 on is A's K of layer 0 "
                             "from token 16 on"),
            std::string::npos)
      << swapped.out;
  Fails(with("6,1,5,0,7"), kExitUnusable, "entry 4 of the block table is 7");
  Fails(with("6,1,5,0"), kExitNoVerdict, "--tokens 32 compares the first 32");
  Fails(with(dir_ / "none"), kExitUnusable, "none");
  // Rows beyond --tokens are ignored.
  auto fewer = with("6,1,5");
  fewer.insert(fewer.end(), {"--tokens", "20"});
  EXPECT_EQ(Diff(fewer).exit_code, kExitOk);
}

TEST_F(DiffCommand, RowsBeyondTheTokensAreIgnored) {
  SampleKv longer = MakeSampleKv(KvElement::kBf16, 64, 77);
  kv_.ForEach([&](const KvAt& at) {
    if (at.token < 33) std::ranges::copy(kv_.Element(at), longer.Element(at).begin());
  });
  const std::string b = WriteCache("b.safetensors", longer);
  EXPECT_EQ(Diff({a_, b, "--tokens", "33"}).exit_code, kExitOk);
  EXPECT_EQ(Diff({a_, b, "--tokens", "34"}).exit_code, kExitFailedCheck);
  Fails({a_, b}, kExitNoVerdict, "tokens 40 and 64 (--tokens 40");
  Fails({a_, b, "--tokens", "41"}, kExitNoVerdict, "fewer than --tokens 41");
}

TEST_F(DiffCommand, RawDumpsInTwoLayouts) {
  const PackedKv one = PackKv(kv_, "L2HTD"), other = PackKv(kv_, "L2THD");
  const std::string a = Write("a.bin", one.bytes), b = Write("b.bin", other.bytes);
  Equal({a, b, "--kv-shape", "3,2,2,40,8", "--kv-shape", "3x2x40x2x8", "--layout", "L2HTD",
         "--layout", "L2THD", "--kv-dtype", "bf16"},
        b);
  // A raw dump against safetensors, for which the shape isn't meant.
  const std::string raw = Write("raw.bin", one.bytes);
  Equal({a_, raw, "--kv-shape", "3,2,2,40,8"}, raw);
  Fails({a_, raw, "--kv-shape", "3,2,2,40"}, kExitUnusable, "takes 960");
  Fails({a_, raw, "--kv-shape", "3,2,,40"}, kExitUsage, "--kv-shape takes");
  Fails({a_, raw, "--kv-shape", "3,2,2,40,8", "--kv-dtype", "half"}, kExitUsage, "fp16");
  Fails({a_, raw}, kExitUnusable, "--kv-shape");
}

TEST_F(DiffCommand, SnapshotsWithDumpsAndEachOther) {
  const std::string store = "slab:" + (dir_ / "store");
  MakeSampleSnapshot(store, "s16", kv_, 16);
  MakeSampleSnapshot(store, "s5", kv_, 5);
  SampleKv changed = kv_;
  changed.ForEach([&](const KvAt& at) {
    if (at.token >= 30) changed.Set(at, uint16_t{0});
  });
  MakeSampleSnapshot(store, "torn", changed, 5);
  const std::string b = WriteCache("b.safetensors", kv_);
  Equal({store + "#s16", b}, b);
  EXPECT_EQ(Diff({a_, store + "#s5"}).exit_code, kExitOk);
  EXPECT_EQ(Diff({store + "#s16", store + "#s5"}).exit_code, kExitOk);
  const CommandRun torn = Diff({store + "#s16", store + "#torn", "-o", "json"});
  EXPECT_EQ(torn.exit_code, kExitFailedCheck) << torn.err;
  EXPECT_EQ(torn.Json().at("damage"), "torn");
  EXPECT_EQ(torn.Json().at("first").at("token"), 30);
  EXPECT_EQ(torn.Json().at("model").at("name"), "sample");
  // What store dump writes is what the snapshot holds.
  const std::string out = dir_ / "out.safetensors";
  ASSERT_EQ(
      RunKvbed({"store", "dump", store + "#s5", "--direct", "optional", "--out", out}).exit_code,
      kExitOk);
  Equal({store + "#s16", out}, out);
  Fails({a_, store}, kExitUsage, "its snapshots are: s16 s5 torn");
  Fails({a_, store + "#none"}, kExitUnusable, "has no snapshot none");
  Fails({a_, "memory:#s1"}, kExitUsage, "memory:");
  Fails({a_, "slab:" + (dir_ / "nothing") + "#s1"}, kExitUnusable, "nothing");
}

TEST_F(DiffCommand, ADamagedRecordIsNoDataToCompare) {
  const std::string store = "files:" + (dir_ / "store");
  MakeSampleSnapshot(store, "s1", kv_, 16);
  EXPECT_EQ(Diff({a_, store + "#s1"}).exit_code, kExitOk);
  std::string record;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "store/records")) {
    if (entry.is_regular_file()) record = entry.path().string();
  }
  std::filesystem::resize_file(record, 4096);
  Fails({a_, store + "#s1"}, kExitFailedCheck, "short");
  const CommandRun run = Diff({a_, store + "#s1", "-o", "json"});
  EXPECT_EQ(run.Json().at("findings").at(0).at("check"), "short");
  EXPECT_TRUE(run.Json().at("identical_pct").is_null());
  std::fstream manifest(dir_ / "store/manifests/s1.manifest",
                        std::ios::in | std::ios::out | std::ios::binary);
  manifest.seekp(60);
  manifest << "?";
  manifest.close();
  Fails({a_, store + "#s1"}, kExitFailedCheck, "snapshot s1");
}

TEST_F(DiffCommand, SaysWhatDiffersWhereNothingCanBeCompared) {
  const auto other = [&](const KvDumpShape& shape, KvElement element, const char* dtype) {
    return WriteCache("b.safetensors", MakeSampleKv(element, 40, 1, shape), dtype);
  };
  Fails({a_, other({4, 2, 8}, KvElement::kBf16, "BF16")}, kExitNoVerdict, "layers 3 and 4");
  Fails({a_, other({3, 4, 8}, KvElement::kBf16, "BF16")}, kExitNoVerdict, "KV heads 2 and 4");
  Fails({a_, other({3, 2, 16}, KvElement::kBf16, "BF16")}, kExitNoVerdict, "head_dim 8 and 16");
  Fails({a_, other({3, 2, 8}, KvElement::kFp16, "F16")}, kExitNoVerdict, "dtype bf16 and fp16");
  Fails({a_, other({4, 2, 8}, KvElement::kFp32, "F32")}, kExitNoVerdict,
        "layers 3 and 4; dtype bf16 and fp32");
  const CommandRun run = Diff({a_, other({4, 2, 8}, KvElement::kBf16, "BF16"), "-o", "json"});
  EXPECT_EQ(run.exit_code, kExitNoVerdict);
  EXPECT_EQ(run.Json().at("status"), "failed");
  EXPECT_TRUE(run.Json().at("identical_pct").is_null());
  EXPECT_TRUE(run.Json().at("identical_pct_reason").is_string());
}

TEST_F(DiffCommand, RefusesUnusableFilesAndOptions) {
  const std::string good = SafetensorsFile(DynamicCacheTensors(kv_));
  Fails({a_, Write("cut.safetensors", good.substr(0, good.size() - 2))}, kExitUnusable,
        "cut.safetensors");
  Fails({Write("cut.safetensors", good.substr(0, 7)), a_}, kExitUnusable, "cut.safetensors");
  Fails({a_, dir_ / "none.safetensors"}, kExitUnusable, "none.safetensors");
  Fails({a_, dir_.path()}, kExitUnusable, "directory");
  Fails({a_, "/dev/zero"}, kExitUnusable, "no regular file");
  Fails({a_, ""}, kExitUnusable, "open");
  auto tensors = DynamicCacheTensors(kv_);
  tensors.pop_back();
  Fails({a_, Write("b.safetensors", SafetensorsFile(tensors))}, kExitUnusable,
        "V of layer 2 is missing");
  tensors = DynamicCacheTensors(kv_);
  tensors.push_back({"layers.00.keys", tensors[0].shape, tensors[0].bytes});
  Fails({a_, Write("b.safetensors", SafetensorsFile(tensors))}, kExitUnusable, "both K of layer 0");
  Fails({a_, a_, "--key-pattern", "cache.{layer}.{k|v}"}, kExitUsage, "matches none");
  Fails({a_, a_, "--key-pattern", "cache.{layr}"}, kExitUsage, "{layr}");
  Fails({a_, a_, "--layout", "HTQ"}, kExitUsage, "'Q'");
  Fails({a_, a_, "--layout", "a", "--layout", "b", "--layout", "c"}, kExitUsage, "twice");
  Fails({a_, a_, "--tokens", "0"}, kExitUsage, "--tokens");
  Fails({a_, a_, "--tokens", "ten"}, kExitUsage, "--tokens");
  Fails({a_, a_, "--json", a_}, kExitUsage, "which this command uses");
  Fails({a_, a_, "-o", "csv"}, kExitUsage, "-o md and csv");
  Fails({a_, a_, "--layot", "HTD"}, kExitUsage, "--layout");
  Fails({a_}, kExitUsage, "B");
}

TEST_F(DiffCommand, TensorsThatAreNotComparedAreNamed) {
  auto tensors = DynamicCacheTensors(kv_);
  tensors.push_back({"seen_tokens", {1}, "ab"});
  const std::string b = Write("b.safetensors", SafetensorsFile(tensors));
  const CommandRun run = Diff({a_, b});
  EXPECT_EQ(run.exit_code, kExitOk) << run.err;
  EXPECT_NE(run.out.find("not compared: seen_tokens"), std::string::npos) << run.out;
}

// The peak of what isn't mapped from a file, as the kernel's limit on it sees it: files of hundreds
// of megabytes are compared with 100 MB beyond what the idle command takes.
TEST_F(DiffCommand, FilesAreMappedAndNotRead) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory hides the command's";
#endif
  const std::string size = "16,2,8,4096,128";  // 256 MiB of bf16
  for (const char* name : {"big-a.bin", "big-b.bin"}) {
    WriteDump(dir_ / name, "");
    std::filesystem::resize_file(dir_ / name, uint64_t{16} * 2 * 8 * 4096 * 128 * 2);
  }
  {
    std::fstream file(dir_ / "big-b.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(123'456'789);
    file << "a difference, so that both passes are made";
  }
  // RLIMIT_DATA counts private memory that can be written, mapped files don't. OpenBLAS, which
  // Debian 13's libtorch brings, takes more than that at its start and never gives up.
  if (RunShell("ulimit -d 100000; timeout 10 KVBED --version").exit_code != kExitOk) {
    GTEST_SKIP() << "the BLAS of this libtorch can't start with so little memory";
  }
  const std::string with = " '" + (dir_ / "big-a.bin") + "' '" + (dir_ / "big-b.bin") +
                           "' --kv-shape " + size + " --kv-dtype bf16";
  const CommandRun run = RunShell("ulimit -d 100000; KVBED diff" + with);
  EXPECT_EQ(run.exit_code, kExitFailedCheck) << run.err;
  EXPECT_NE(run.out.find("DIFFERS"), std::string::npos) << run.out << run.err;
}

TEST_F(DiffCommand, TeachesInItsHelp) {
  const CommandRun run = RunKvbed({"diff", "--help"});
  EXPECT_EQ(run.exit_code, kExitOk);
  for (const char* says : {"layers.{layer}.{keys|values}", "2NTHD", "Exit codes: 0 equal",
                           "docs/diff.md", "equals_other"}) {
    EXPECT_NE(run.out.find(says), std::string::npos) << says;
  }
}

}  // namespace
}  // namespace kvbed
