// snapshot and resume in two processes: ledger, incremental snapshots, removal, damage by hand at
// FORMAT.md's offsets, and the refusal of another model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/engine.h"
#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

const char* const kToy = "toy:8m?kv_heads=2";

class SnapshotResume : public testing::Test {
 protected:
  std::string Store(const std::string& name = "") const {
    return "slab:" + (folder_ / "kv") + (name.empty() ? "" : "#" + name);
  }
  std::string Ledger(const std::string& name) const { return folder_ / (name + ".json"); }

  CommandRun Snapshot(const std::string& name, const std::string& model = kToy,
                      std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{
        "snapshot",
        "-m",
        model,
        "--prompt-ids",
        "5,70,31,300,12,9,200,41,8,77,250,3,19,101,55,60,61,62,63,64",
        "-n",
        "8",
        "--store",
        Store(),
        "--name",
        name,
        "--ledger",
        Ledger(name),
        "--expect",
        "12",
        "-o",
        "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }
  CommandRun Resume(const std::string& name, std::vector<std::string> more = {},
                    const std::string& model = kToy) const {
    std::vector<std::string> arguments{"resume", "-m", model, "--store", Store(name),
                                       "-n",     "12", "-o",  "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunKvbed(arguments);
  }
  void ExpectEqualToLedger(const std::string& name, const std::string& ledger) const {
    const CommandRun run = Resume(name, {"--ledger", Ledger(ledger)});
    ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
    const auto verdict = run.Json().at("verdict");
    for (const char* part : {"bytes", "logits", "tokens"}) {
      EXPECT_EQ(verdict.at(part).at("status"), "equal") << part;
    }
    EXPECT_EQ(verdict.at("logits").at("steps"), 12);
  }
  // Where the records lie, as `store info` tells.
  nlohmann::json Blocks(const std::string& name) const {
    return RunKvbed({"store", "info", Store(name), "-o", "json"})
        .Json()
        .at("snapshots")
        .at(0)
        .at("blocks");
  }

  TempDir folder_;
};

TEST_F(SnapshotResume, EqualsTheLedgerInAnotherProcess) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  ExpectEqualToLedger("s1", "s1");
}

TEST_F(SnapshotResume, ALedgerNeverTakesThePlaceOfSomethingElse) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const auto refuses = [&](const std::string& ledger, int exit_code) {
    const CommandRun run = RunKvbed({"snapshot", "-m", kToy, "--prompt-ids", "5,70", "--store",
                                     Store(), "--name", "s2", "--ledger", ledger});
    EXPECT_EQ(run.exit_code, exit_code) << ledger;
    EXPECT_NE(run.err.find("--ledger " + ledger), std::string::npos) << run.err;
  };
  refuses(folder_ / "kv/STORE", 2);
  refuses(folder_ / "kv/manifests/new.json", 2);
  refuses("/dev/null", 2);
  refuses(folder_ / "no/such/folder.json", 4);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(RunKvbed({"store", "info", Store("s2")}).exit_code, 4);
  EXPECT_EQ(Resume("s1").exit_code, 0);
}

TEST_F(SnapshotResume, WithoutALedgerJudgesTheBytesAlone) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const CommandRun run = Resume("s1");
  EXPECT_EQ(run.exit_code, 0);
  const auto verdict = run.Json().at("verdict");
  EXPECT_EQ(verdict.at("bytes").at("status"), "equal");
  EXPECT_EQ(verdict.at("logits").at("status"), "not_assessable");
  EXPECT_EQ(verdict.at("tokens").at("status"), "not_assessable");
}

// The native kernels give the same bits on any number of threads and in chunks of any size.
TEST_F(SnapshotResume, OtherThreadsAndChunksAreAssessedOnTheNativeKernels) {
  if (!HasNativeArithmetic(DType::kBf16, "portable")) GTEST_SKIP() << "no native kernels here";
  ASSERT_EQ(Snapshot("s1", kToy, {"--threads", "2", "--prefill-chunk", "8", "--kernels", "native"})
                .exit_code,
            0);
  const CommandRun run = Resume("s1", {"--ledger", Ledger("s1"), "--threads", "1",
                                       "--prefill-chunk", "16", "--kernels", "native"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto verdict = run.Json().at("verdict");
  for (const char* what : {"bytes", "logits", "tokens"}) {
    EXPECT_EQ(verdict.at(what).at("status"), "equal") << verdict;
  }
}

#ifdef KVBED_HAS_TORCH
TEST_F(SnapshotResume, OtherThreadsAndChunksAreNotAssessableOnTorchAndStayZero) {
  ASSERT_EQ(Snapshot("s1", kToy, {"--threads", "2", "--prefill-chunk", "8", "--kernels", "torch"})
                .exit_code,
            0);
  for (const auto& [threads, chunk, says] :
       {std::tuple("1", "8", "threads"), {"2", "16", "chunk"}}) {
    const CommandRun run = Resume("s1", {"--ledger", Ledger("s1"), "--threads", threads,
                                         "--prefill-chunk", chunk, "--kernels", "torch"});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    const auto verdict = run.Json().at("verdict");
    EXPECT_EQ(verdict.at("bytes").at("status"), "equal");
    EXPECT_EQ(verdict.at("logits").at("status"), "not_assessable");
    EXPECT_NE(verdict.at("logits").at("reason").get<std::string>().find(says), std::string::npos);
  }
}

// libtorch's kernels for another CPU: the bytes are judged all the same.
TEST_F(SnapshotResume, OtherInstructionsMakeLogitsNotAssessable) {
  ASSERT_EQ(Snapshot("s1", kToy, {"--kernels", "torch"}).exit_code, 0);
  const CommandRun run =
      RunShell("ATEN_CPU_CAPABILITY=default KVBED resume -m '" + std::string(kToy) + "' --store '" +
               Store("s1") + "' -n 12 -o json --ledger '" + Ledger("s1") + "'");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto verdict = run.Json().at("verdict");
  EXPECT_EQ(verdict.at("bytes").at("status"), "equal");
  EXPECT_EQ(verdict.at("logits").at("status"), "not_assessable");
}

TEST_F(SnapshotResume, OtherKernelsJudgeTheBytesAndSayWhyNotTheLogits) {
  for (const auto& [made, resumed] :
       {std::pair<std::string, std::string>{"native", "torch"}, {"torch", "native"}}) {
    ASSERT_EQ(Snapshot(made, kToy, {"--kernels", made}).exit_code, 0);
    const CommandRun run = Resume(made, {"--ledger", Ledger(made), "--kernels", resumed});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    const auto json = run.Json();
    EXPECT_EQ(json.at("numeric_environment").at("kernel_set"), resumed);
    const auto& verdict = json.at("verdict");
    EXPECT_EQ(verdict.at("bytes").at("status"), "equal");
    EXPECT_EQ(verdict.at("bytes").at("differing_bits"), 0);
    EXPECT_EQ(verdict.at("logits").at("status"), "not_assessable");
    const auto reason = verdict.at("logits").at("reason").get<std::string>();
    EXPECT_NE(reason.find("kernel set was " + made + ", here " + resumed), std::string::npos)
        << reason;
    EXPECT_NE(verdict.at("tokens").at("status"), "differs");
    // Without the option the snapshot's own are taken.
    ExpectEqualToLedger(made, made);
  }
}
#endif

TEST_F(SnapshotResume, TakesTheSnapshotsArithmeticWhateverIsFastestHere) {
  // All instruction sets but those with bf16 products of their own compute the same bits.
  const CommandRun snapshot = Snapshot("s1", kToy, {"--isa", "avx2"});
  if (snapshot.exit_code == 2) GTEST_SKIP() << snapshot.err;  // not x86
  ASSERT_EQ(snapshot.exit_code, 0) << snapshot.err;
  EXPECT_EQ(snapshot.Json().at("numeric_environment").at("isa"), "portable");
  const CommandRun run = Resume("s1", {"--ledger", Ledger("s1")});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(run.Json().at("numeric_environment").at("isa"), "portable");
  ExpectEqualToLedger("s1", "s1");
}

TEST_F(SnapshotResume, SavesWhatChangedAndEachSnapshotOutlivesTheOther) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const CommandRun saved = Resume("s1", {"--ledger", Ledger("s1"), "--save", "s2"});
  ASSERT_EQ(saved.exit_code, 0) << saved.out << saved.err;
  const auto report = saved.Json().at("saved");
  // 27 cached tokens grew to 39 in blocks of 16: the first block is named again, two are written.
  EXPECT_EQ(report.at("blocks"), 3);
  EXPECT_EQ(report.at("blocks_written"), 2);

  ASSERT_EQ(RunKvbed({"store", "rm", Store("s2")}).exit_code, 0);
  ExpectEqualToLedger("s1", "s1");

  ASSERT_EQ(Resume("s1", {"--save", "s3"}).exit_code, 0);
  const auto before = Resume("s3").Json().at("resumed").at("ids");
  ASSERT_EQ(RunKvbed({"store", "rm", Store("s1")}).exit_code, 0);
  const CommandRun after = Resume("s3");
  EXPECT_EQ(after.exit_code, 0) << after.out << after.err;
  EXPECT_EQ(after.Json().at("resumed").at("ids"), before);
  EXPECT_EQ(Resume("s1").exit_code, 4);
}

TEST_F(SnapshotResume, SampledRunsGoOnWithTheSameRandomNumbers) {
  const std::vector<std::string> sampling{"--temperature", "0.8", "--top-p", "0.95", "--seed", "7"};
  ASSERT_EQ(Snapshot("s1", kToy, sampling).exit_code, 0);
  ExpectEqualToLedger("s1", "s1");
}

TEST_F(SnapshotResume, ATakenNameIsAUsageErrorUnlessReplaced) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const CommandRun again = Snapshot("s1");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--replace"), std::string::npos);
  EXPECT_EQ(Snapshot("s1", kToy, {"--replace"}).exit_code, 0);
  ExpectEqualToLedger("s1", "s1");
}

TEST_F(SnapshotResume, SaysHowMuchOfTheLedgerWasCompared) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const auto text = [&](const char* tokens) {
    const CommandRun run = RunKvbed(
        {"resume", "-m", kToy, "--store", Store("s1"), "-n", tokens, "--ledger", Ledger("s1")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  EXPECT_NE(text("2").find("2 of 2 steps equal; the ledger has 12"), std::string::npos);
  EXPECT_NE(text("14").find("nothing is there to compare the 2 after them"), std::string::npos);
}

TEST_F(SnapshotResume, ALedgerOfAnotherSequenceJudgesNothing) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  ASSERT_EQ(Snapshot("s2").exit_code, 0);
  const CommandRun run = Resume("s1", {"--ledger", Ledger("s2")});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.err.find("another sequence"), std::string::npos) << run.err;
}

TEST_F(SnapshotResume, AMissingSnapshotIsAnErrorThatNamesTheOthers) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  for (const CommandRun& run : {Resume("s9"), RunKvbed({"store", "info", Store("s9")}),
                                RunKvbed({"store", "rm", Store("s9")})}) {
    EXPECT_EQ(run.exit_code, 4);
    EXPECT_NE(run.err.find("no snapshot s9; its snapshots are: s1"), std::string::npos) << run.err;
  }
}

TEST_F(SnapshotResume, AFailedRestoreComparesNothingAndSavesNothing) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const auto block = Blocks("s1").at(1);
  std::fstream(block.at("path").get<std::string>(), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(block.at("offset").get<uint64_t>() + 5000))
      << "damage";
  const CommandRun run = Resume("s1", {"--ledger", Ledger("s1"), "--save", "s2"});
  EXPECT_EQ(run.exit_code, 1);
  const auto json = run.Json();
  EXPECT_TRUE(json.at("verdict").at("bytes").at("differing_bits").is_null());
  EXPECT_EQ(json.at("verdict").at("bytes").at("differing_bits_reason"), "nothing was compared");
  EXPECT_TRUE(json.at("saved").is_null());
  EXPECT_EQ(json.at("reasons").size(), 1);
  const CommandRun text = RunKvbed(
      {"resume", "-m", kToy, "--store", Store("s1"), "--ledger", Ledger("s1"), "--save", "s2"});
  EXPECT_NE(text.out.find("KV        not compared"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("Not saved"), std::string::npos) << text.out;
}

class Manifests : public SnapshotResume {
 protected:
  void Flip(const std::string& name, std::streamoff offset) const {
    std::fstream file(folder_ / ("kv/manifests/" + name + ".manifest"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const int byte = file.get();
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ 1));
  }
};

TEST_F(Manifests, ADamagedOneIsAFailedCheckAndIsListed) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  ASSERT_EQ(Snapshot("s2").exit_code, 0);
  Flip("s2", 70);
  EXPECT_EQ(Resume("s1").exit_code, 0);
  const CommandRun resumed = Resume("s2");
  EXPECT_EQ(resumed.exit_code, 1);
  EXPECT_NE(resumed.err.find("snapshot s2 is damaged"), std::string::npos) << resumed.err;
  for (const char* command : {"ls", "info"}) {
    const CommandRun run = RunKvbed({"store", command, Store()});
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_NE(run.out.find("unreadable"), std::string::npos) << run.out;
    const auto json = RunKvbed({"store", command, Store(), "-o", "json"}).Json();
    EXPECT_EQ(json.at("status"), "failed");
    EXPECT_EQ(json.at("reasons").size(), 1);
  }
  EXPECT_EQ(RunKvbed({"store", "info", Store("s2")}).exit_code, 1);
  const CommandRun third = Snapshot("s3");
  ASSERT_EQ(third.exit_code, 0);
  EXPECT_EQ(third.Json().at("warnings").size(), 1);
  EXPECT_EQ(RunKvbed({"store", "rm", Store("s2")}).exit_code, 0);
  EXPECT_EQ(RunKvbed({"store", "ls", Store()}).exit_code, 0);
}

TEST_F(Manifests, ANewerVersionsIsLeftAsItIs) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  Flip("s1", 9);
  EXPECT_EQ(Resume("s1").exit_code, 4);
  EXPECT_EQ(RunKvbed({"store", "ls", Store()}).exit_code, 4);
  EXPECT_EQ(RunKvbed({"store", "rm", Store("s1")}).exit_code, 4);
  Flip("s1", 9);
  EXPECT_EQ(Resume("s1").exit_code, 0);
}

TEST_F(SnapshotResume, AQuoteInThePathIsSafeToPaste) {
  const std::string folder = folder_ / "it's";
  const CommandRun run = RunKvbed({"run", "-m", kToy, "-n", "4", "--store", "slab:" + folder});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const size_t at = run.out.find("--store 'slab:");
  ASSERT_NE(at, std::string::npos) << run.out;
  const std::string spec = run.out.substr(at + 9, run.out.find('\'', at + 9) - at - 9);
  EXPECT_EQ(RunKvbed({"resume", "-m", kToy, "--store", spec}).exit_code, 0) << spec;
}

// Damage by hand: bytes at offsets that FORMAT.md gives.
struct HandDamage {
  const char* name;
  uint64_t offset;  // in the record
  std::string bytes;
  const char* check;
};

void PrintTo(const HandDamage& damage, std::ostream* out) { *out << damage.check; }

class DamageByHand : public SnapshotResume, public testing::WithParamInterface<HandDamage> {};

TEST_P(DamageByHand, IsFoundByResumeWithTheRightCheck) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const auto block = Blocks("s1").at(1);
  {
    std::fstream file(block.at("path").get<std::string>(),
                      std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file);
    file.seekp(static_cast<std::streamoff>(block.at("offset").get<uint64_t>() + GetParam().offset));
    file << GetParam().bytes;
  }
  const CommandRun run = Resume("s1", {"--ledger", Ledger("s1")});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const auto finding = run.Json().at("verdict").at("bytes").at("findings").at(0);
  EXPECT_EQ(finding.at("check"), GetParam().check);
  EXPECT_EQ(finding.at("first_token"), 16);
  EXPECT_EQ(Resume("s1").exit_code, 1) << "without a ledger";
}

INSTANTIATE_TEST_SUITE_P(
    Offsets, DamageByHand,
    testing::Values(HandDamage{"Magic", 0, "X", "magic"},
                    HandDamage{"Version", 8, std::string("\x07"), "version"},
                    HandDamage{"Generation", 64, std::string("\x01\x02\x03"), "header_checksum"},
                    HandDamage{"Checksum", 144, "abc", "header_checksum"},
                    HandDamage{"Digest", 160, "abc", "header_checksum"},
                    HandDamage{"FirstElement", 4096, std::string("\x55\xaa\x55"), "payload"},
                    HandDamage{"UnusedRow", 4096 + 15 * 128, std::string("\x01"), "payload"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(SnapshotResume, RecomputesWhatWasLostWhenAsked) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const auto block = Blocks("s1").at(0);
  fs::resize_file(block.at("path").get<std::string>(), block.at("offset").get<uint64_t>() + 5000);
  const CommandRun stopped = Resume("s1");
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_EQ(stopped.Json().at("verdict").at("bytes").at("findings").at(0).at("check"), "short");
  const CommandRun run = Resume("s1", {"--on-miss", "recompute"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.Json().at("restore").at("prefill_tokens_after_restore"), 27);
  EXPECT_EQ(run.Json().at("resumed").at("ids").size(), 12);
}

// More rows of FORMAT.md's table, with a shell's tools.
class DamageByShell : public SnapshotResume {
 protected:
  // `command` with FILE, and A and B for the first bytes of the records of blocks 0 and 1.
  std::string CheckAfter(std::string command, std::vector<std::string> more = {}) {
    EXPECT_EQ(Snapshot("s1", kToy, std::move(more)).exit_code, 0);
    const auto blocks = Blocks("s1");
    const auto replace = [&](const std::string& word, const std::string& by) {
      for (size_t at; (at = command.find(word)) != std::string::npos;) {
        command.replace(at, word.size(), by);
      }
    };
    replace("FILE", "'" + blocks.at(0).at("path").get<std::string>() + "'");
    replace("AT_0", std::to_string(blocks.at(0).at("offset").get<uint64_t>()));
    replace("AT_1", std::to_string(blocks.at(1).at("offset").get<uint64_t>()));
    replace("SIZE", std::to_string(blocks.at(0).at("size_bytes").get<uint64_t>()));
    const CommandRun shell = RunCommand("sh", {"-c", command});
    EXPECT_EQ(shell.exit_code, 0) << command << shell.err;
    const CommandRun run = Resume("s1");
    EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
    return run.Json().at("verdict").at("bytes").at("findings").at(0).at("check");
  }
};

TEST_F(DamageByShell, AHole) {
  EXPECT_EQ(CheckAfter("dd if=/dev/zero of=FILE bs=4096 count=1 oflag=seek_bytes seek=AT_1 "
                       "conv=notrunc"),
            "magic");
}

TEST_F(DamageByShell, RecordsSwapped) {
  EXPECT_EQ(CheckAfter("cp FILE FILE.copy && for pair in AT_0:AT_1 AT_1:AT_0; do "
                       "from=${pair%:*} to=${pair#*:}; dd if=FILE.copy of=FILE bs=SIZE count=1 "
                       "iflag=skip_bytes skip=$from oflag=seek_bytes seek=$to conv=notrunc; done; "
                       "rm FILE.copy"),
            "key");
}

TEST_F(DamageByShell, AByteOfThePadding) {
  // Blocks of 5 tokens: 4 layers of K and V of 2 heads, 64 dims, 2 bytes are 10,240 bytes, and the
  // record has 12,288 behind its header.
  EXPECT_EQ(CheckAfter("printf x | dd of=FILE bs=1 seek=$((AT_0 + 4096 + 11000)) conv=notrunc",
                       {"--block-tokens", "5"}),
            "padding");
}

TEST_F(DamageByShell, TheFileCut) {
  EXPECT_EQ(CheckAfter("truncate -s $((AT_1 + SIZE / 2)) FILE"), "short");
}

TEST_F(SnapshotResume, ARecordOfAnotherSnapshotInItsPlaceIsFound) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  ASSERT_EQ(Snapshot("s2").exit_code, 0);
  const auto to = Blocks("s1").at(0), from = Blocks("s2").at(0);
  std::string record(from.at("size_bytes").get<size_t>(), '\0');
  {
    std::fstream file(from.at("path").get<std::string>(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(from.at("offset").get<uint64_t>()));
    file.read(record.data(), static_cast<std::streamsize>(record.size()));
    file.seekp(static_cast<std::streamoff>(to.at("offset").get<uint64_t>()));
    file.write(record.data(), static_cast<std::streamsize>(record.size()));
  }
  const CommandRun run = Resume("s1");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.Json().at("verdict").at("bytes").at("findings").at(0).at("check"), "key");
  EXPECT_EQ(Resume("s2").exit_code, 0);
}

// A copy of a model with one thing changed.
class OtherModel : public SnapshotResume {
 protected:
  void SetUp() override {
    fs::copy(KVBED_GOLDEN_DIR "/model/gqa_8_2", model_, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(model_)) {
      fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    }
    ASSERT_EQ(Snapshot("s1", model_).exit_code, 0);
    ASSERT_EQ(Resume("s1", {}, model_).exit_code, 0);
  }
  void Replace(const std::string& file, const std::string& from, const std::string& to) {
    std::ifstream in(model_ + "/" + file);
    std::string text(std::istreambuf_iterator<char>(in), {});
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(model_ + "/" + file) << text;
  }
  void ExpectRefused(const std::string& what, std::vector<std::string> more = {}) {
    const CommandRun run = Resume("s1", std::move(more), model_);
    EXPECT_EQ(run.exit_code, 3) << run.out;
    EXPECT_NE(run.err.find(what), std::string::npos) << run.err;
  }
  const std::string model_ = folder_ / "model";
};

TEST_F(OtherModel, OneWeightByte) {
  std::fstream file(model_ + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x3e');
  file.close();
  ExpectRefused("weights");
}

TEST_F(OtherModel, RopeTheta) {
  Replace("config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 20000.0");
  ExpectRefused("RoPE");
}

TEST_F(OtherModel, Dtype) { ExpectRefused("dtype", {"--dtype", "fp32"}); }

TEST_F(OtherModel, BlockTokens) { ExpectRefused("block tokens", {"--block-tokens", "32"}); }

TEST_F(OtherModel, Tokenizer) {
  Replace("tokenizer.json", "\"h e\",\"i n\"", "\"i n\",\"h e\"");
  ExpectRefused("tokenizer");
}

TEST_F(SnapshotResume, AMissingFolderIsAnErrorThatNamesIt) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  fs::remove_all(folder_ / "kv");
  const CommandRun run = Resume("s1");
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_NE(run.err.find(folder_ / "kv"), std::string::npos) << run.err;
}

TEST_F(SnapshotResume, RemoveWithoutANameListsTheNames) {
  ASSERT_EQ(Snapshot("s1").exit_code, 0);
  const CommandRun run = RunKvbed({"store", "rm", Store()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("s1"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvbed
