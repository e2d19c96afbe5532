// kvbed verify as a CI job runs it: exit codes, files, replays, and that it turns red.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

CommandRun Verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "verify");
  return RunKvbed(std::move(arguments));
}

nlohmann::json CasesOf(const nlohmann::json& result, const char* half = "self_test") {
  return result.at(half).at("cases");
}

void ExpectAllDetected(const nlohmann::json& totals) {
  EXPECT_EQ(totals.at("fail"), 0);
  EXPECT_EQ(totals.at("served_wrong"), 0);
  EXPECT_EQ(totals.at("faults_detected"), totals.at("faults_injected"));
  EXPECT_EQ(totals.at("faults_detected").get<int>(),
            totals.at("faults_repaired").get<int>() + totals.at("faults_found").get<int>());
}

TEST(Verify, WritesJsonWithTheNamesThatAreFixed) {
  const CommandRun run = Verify({"--case", "fault/record/memory", "-o", "json", "--seed", "5"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto json = run.Json();
  EXPECT_EQ(json.at("schema"), "kvbed-verify/1");
  EXPECT_EQ(json.at("status"), "ok");
  EXPECT_EQ(json.at("seed"), 5);
  EXPECT_TRUE(CasesOf(json, "store_under_test").empty());
  EXPECT_GT(CasesOf(json).size(), 20u);
  for (const auto& one : CasesOf(json)) {
    for (const char* name : {"name", "kind", "status", "reason", "seed", "replay", "finding"}) {
      EXPECT_TRUE(one.contains(name)) << name;
    }
    EXPECT_EQ(one.at("kind"), "fault");
  }
  ExpectAllDetected(json.at("totals"));
  ExpectAllDetected(json.at("self_test").at("totals"));
  EXPECT_GT(json.at("totals").at("faults_injected"), 1000);
  EXPECT_EQ(json.at("totals").at("cases"), CasesOf(json).size());
}

TEST(Verify, WritesJUnitThatAParserOfXmlReads) {
  const TempDir folder;
  const std::string file = folder / "out.xml";
  const CommandRun run = Verify({"--case", "control/", "--junit", file});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const CommandRun parsed = RunCommand(
      "python3", {"-c",
                  "import sys, xml.etree.ElementTree as t\n"
                  "root = t.parse(sys.argv[1]).getroot()\n"
                  "suites = {s.get('name'): s for s in root}\n"
                  "own = suites['self_test']\n"
                  "assert len(suites['store_under_test']) == 1, 'cases of no store'\n"
                  "cases = own.findall('testcase')\n"
                  "assert len(cases) == int(own.get('tests')) == int(root.get('tests')) > 10\n"
                  "assert own.get('failures') == '0'\n",
                  file});
  EXPECT_EQ(parsed.exit_code, 0) << parsed.err;
}

// The signal comes as soon as the first group of cases is told.
TEST(Verify, AnInterruptLeavesFilesThatSayWhatWasRunAndThatTheRestWasNot) {
  const TempDir folder;
  const std::string junit = folder / "out.xml", json = folder / "out.json", out = folder / "out";
  // A shell that isn't interactive starts background processes with SIGINT ignored; env sets it
  // back.
  const CommandRun run =
      RunShell("env --default-signal=INT KVBED verify --case fault/ --junit " + junit + " --json " +
               json + " > " + out + " & p=$!; for i in $(seq 3000); do test -s " + out +
               " && break; sleep 0.01; done; kill -INT $p; wait $p");
  EXPECT_EQ(run.exit_code, 128 + SIGINT) << run.err;
  std::ifstream in(json);
  const auto result = nlohmann::json::parse(in);
  EXPECT_EQ(result.at("status"), "failed");
  const auto cases = CasesOf(result);
  ASSERT_GT(cases.size(), 2u);
  EXPECT_EQ(cases.back().at("name"), "stopped");
  EXPECT_EQ(cases.back().at("status"), "fail");
  EXPECT_NE(cases.back().at("reason").get<std::string>().find("the rest was not run"),
            std::string::npos);
  std::ifstream xml(junit);
  const std::string text{std::istreambuf_iterator<char>(xml), {}};
  EXPECT_NE(text.find("name=\"stopped\""), std::string::npos) << text.substr(0, 400);
  EXPECT_NE(run.err.find("interrupted"), std::string::npos) << run.err;
}

TEST(Verify, ACaseIsReplayedAsItWas) {
  const auto first = Verify({"--case", "fault/record/memory/get_", "-o", "json", "--seed", "9"});
  const auto cases = CasesOf(first.Json());
  ASSERT_GT(cases.size(), 3u);
  const auto& one = cases[2];
  const std::string name = one.at("name");
  EXPECT_EQ(one.at("replay"), "kvbed verify --seed 9 --case " + name);
  const auto again =
      RunShell("KVBED" + one.at("replay").get<std::string>().substr(5) + " -o json").Json();
  ASSERT_EQ(CasesOf(again).size(), 1u);
  for (const char* same : {"name", "seed", "status", "faults_injected", "faults_found"}) {
    EXPECT_EQ(CasesOf(again)[0].at(same), one.at(same)) << same;
  }
}

TEST(Verify, RefusesWhatMakesNoSense) {
  const TempDir folder;
  std::ofstream(folder / "used") << "somebody's";
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"--case", "nonsense"}, "no case's name begins so"},
      {{"--profile", "quick"}, "ci"},
      {{"--damage-dir", folder.path()}, "--store"},
      {{"--store", "slab:" + (folder / "s"), "--damage-dir", folder.path()}, "has files already"},
      {{"--store", "slab:" + (folder / "s") + "#snapshot"}, "#NAME"},
      {{"--store", "slab:" + (folder / "s"), "--timeout", "3"}, "plugin: or exec:"},
      {{"--fail-above", "1"}, "--store"},
      {{"--fail-above", "much"}, "0.01"},
      {{"-o", "csv"}, "bench"},
      {{"--junit", folder.path()}, "--junit"},
      {{"--junit", folder / "a", "--json", folder / "a"}, "same file"},
  };
  for (const auto& [arguments, part] : refused) {
    const CommandRun run = Verify(arguments);
    EXPECT_EQ(run.exit_code, 2) << part << run.err;
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Verify, AStoreThatCanNotBeOpenedLeavesNoVerdict) {
  const CommandRun run =
      Verify({"--store", "exec:/nonexistent/adapter", "--case", "store/", "-o", "json"});
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  const auto cases = CasesOf(run.Json(), "store_under_test");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].at("status"), "skip");
  EXPECT_NE(cases[0].at("reason"), "");
}

TEST(Verify, TheStoresCasesAreOfAnotherHalfAndLeaveNothingInIt) {
  const TempDir folder;
  const std::string spec = "slab:" + (folder / "store");
  const CommandRun run = Verify(
      {"--store", spec, "--case", "store/roundtrip/records/same/gqa_8_2/bf16", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto json = run.Json();
  EXPECT_TRUE(CasesOf(json).empty());
  EXPECT_GT(CasesOf(json, "store_under_test").size(), 10u);
  const auto listed = RunKvbed({"store", "ls", spec, "-o", "json"}).Json();
  EXPECT_TRUE(listed.at("snapshots").empty());
}

TEST(Verify, APlugInThatReturnsOtherBytesTurnsItRed) {
  const TempDir folder;
  const std::string spec = std::string("plugin:" KVBED_TEST_PLUGIN "?path=") + (folder / "x");
  const std::string only = "store/roundtrip/records/same/mqa";
  EXPECT_EQ(Verify({"--store", spec, "--case", only}).exit_code, 0);
  const CommandRun run = Verify({"--store", spec + "&break=flip", "--case", only, "-o", "json"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(run.Json().at("status"), "failed");
  EXPECT_EQ(run.Json().at("self_test").at("totals").at("fail"), 0);
}

TEST(Verify, ALossyPlugInIsJudgedByHowFarItIsOff) {
  const TempDir folder;
  const std::vector<std::string> arguments{
      "--store",
      std::string("plugin:" KVBED_TEST_PLUGIN_LOSSY "?path=") + (folder / "lossy") + "&break=flip",
      "--case", "store/roundtrip/records/same/mqa"};
  EXPECT_EQ(Verify(arguments).exit_code, 0) << Verify(arguments).out;
  auto strict = arguments;
  strict.insert(strict.end(), {"--fail-above", "0"});
  EXPECT_EQ(Verify(strict).exit_code, 1);
}

TEST(Verify, EndsByTheSignalAndLeavesNoFolder) {
  const CommandRun run =
      RunShell("timeout --preserve-status -s INT 2 KVBED verify --case fault/seam --seed 77");
  EXPECT_EQ(run.exit_code, 130) << run.out << run.err;
  EXPECT_EQ(run.out.find("passed  (seed"), std::string::npos);
}

// Each line of the program that is left out turns the suite red, and the program itself passes.
struct Mutant {
  const char* name;
  const char* only;
};
std::ostream& operator<<(std::ostream& out, const Mutant& one) { return out << one.name; }

class VerifyMutants : public testing::TestWithParam<Mutant> {};

TEST_P(VerifyMutants, TurnTheSuiteRed) {
  const std::vector<std::string> arguments{"verify", "--case", GetParam().only};
  const CommandRun mutant = RunCommand(std::string(KVBED_MUTANTS) + GetParam().name, arguments);
  EXPECT_EQ(mutant.exit_code, 1) << mutant.out << mutant.err;
  EXPECT_NE(mutant.out.find("fail  "), std::string::npos) << mutant.out;
  EXPECT_EQ(RunKvbed(arguments).exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyMutants,
    testing::Values(Mutant{"copy_skipped", "roundtrip/records/memory/same/gqa_8_2"},
                    Mutant{"hash_unchecked", "fault/record/memory/put_bit_flip"},
                    Mutant{"poison_skipped", "roundtrip/records/memory/same/gqa_8_2"},
                    Mutant{"sync_skipped", "fault/seam/slab/write_lost_writes"}),
    [](const auto& mutant) { return std::string(mutant.param.name); });

// The whole of it, as a CI job runs it.
TEST(FullVerify, TheCiProfilePassesWithAsManyCasesAndFaultsAsItMust) {
  const CommandRun run = Verify({"--profile", "ci", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto json = run.Json();
  std::map<std::string, int> kinds;
  std::set<std::string> names;
  for (const auto& one : CasesOf(json)) {
    ++kinds[one.at("kind")];
    EXPECT_TRUE(names.insert(one.at("name")).second) << one.at("name");
  }
  EXPECT_GT(kinds["roundtrip"], 300);
  for (const char* kind : {"fault", "crash", "race", "control"}) EXPECT_GT(kinds[kind], 0) << kind;
  EXPECT_GT(json.at("totals").at("faults_injected"), 2000);
  ExpectAllDetected(json.at("totals"));
}

}  // namespace
}  // namespace kvbed
