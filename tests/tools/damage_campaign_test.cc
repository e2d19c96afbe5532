// Damage from outside: which folders it keeps away from, that each damage changes a byte and is
// undone, and that a store which returns wrong bytes is told apart from one that notices.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/random_bytes.h"
#include "tests/tools/campaign_testing.h"
#include "tools/verify/damage_folder.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

void WriteText(const std::string& path, std::string_view text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Checks its records, as a store of a user's may.
class VerifiesWhatItReads : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

 protected:
  void OnCompleted(StoreRequest& request) override {
    if (request.op != StoreRequest::Op::kGet || !request.status.ok()) return;
    if (!IsSeededRecord(request.id, request.record)) {
      request.status = Status::Corruption("the checksum of the record differs");
    }
  }
};

class DamageCampaignTest : public CampaignTest {
 protected:
  DamageCampaignTest() { options_.damage_folder = store_path(); }
};

TEST_F(DamageCampaignTest, FoldersThatAreNotTheStoresAloneAreRefused) {
  EXPECT_OK(CheckDamageFolder(dir_ / "not-there-yet"));
  fs::create_directories(dir_ / "empty");
  EXPECT_OK(CheckDamageFolder(dir_ / "empty"));
  WriteText(dir_ / "file", "x");
  WriteText(dir_ / "used/deep/file", "x");
  const auto refused = [](const std::string& path, std::string_view why) {
    return FailsWith(CheckDamageFolder(path), StatusCode::kInvalidArgument, why);
  };
  EXPECT_TRUE(refused(dir_ / "file", "isn't a folder"));
  EXPECT_TRUE(refused(dir_ / "used", "has files already (deep)"));
  EXPECT_TRUE(refused("/", "root"));
  EXPECT_TRUE(refused("/usr/..", "root"));
  EXPECT_TRUE(refused("", "isn't a folder"));
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  if (!home.empty() && home != "/") EXPECT_TRUE(refused(home + "/.", "home"));
}

TEST_F(DamageCampaignTest, OnlyWhatTheStoreWroteIsDamagedAndAllIsPutBack) {
  const std::string folder = dir_ / "kept";
  WriteText(folder + "/before", "a file of the user's");
  WriteText(dir_ / "outside", std::string(9000, 'o'));
  const auto before = ListFolder(folder);
  ASSERT_OK(before);
  const auto data = RandomBytes(40'000, 3);
  WriteText(folder + "/a/one", AsText(data));
  WriteText(folder + "/two", std::string(9000, 't') + std::string(9000, 'u'));
  fs::create_symlink(dir_ / "outside", folder + "/link");
  fs::create_hard_link(dir_ / "outside", folder + "/hard");
  ASSERT_OK_AND_ASSIGN(const DamageFolder damaged,
                       DamageFolder::Keep(folder, *before, dir_ / "backup"));
  EXPECT_EQ(damaged.files(), (std::vector<std::string>{"a/one", "two"}));
  const std::string one = TextOf(folder + "/a/one"), two = TextOf(folder + "/two");
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    const DamageKind kind = kDamageKinds[i % std::size(kDamageKinds)];
    SCOPED_TRACE(DamageKindName(kind));
    ASSERT_OK(damaged.Damage(kind, {}, random));
    const bool changed = TextOf(folder + "/a/one") != one || TextOf(folder + "/two") != two;
    EXPECT_TRUE(changed);
    EXPECT_EQ(TextOf(folder + "/before"), "a file of the user's");
    EXPECT_EQ(TextOf(dir_ / "outside"), std::string(9000, 'o'));
    WriteText(folder + "/came/later", "x");
    ASSERT_OK(damaged.PutBack());
    EXPECT_EQ(TextOf(folder + "/a/one"), one);
    EXPECT_EQ(TextOf(folder + "/two"), two);
    EXPECT_FALSE(fs::exists(folder + "/came/later"));
  }
  // Damage that would change nothing isn't done.
  WriteText(dir_ / "zero/z", std::string(8192, '\0'));
  ASSERT_OK_AND_ASSIGN(const DamageFolder zero,
                       DamageFolder::Keep(dir_ / "zero", {}, dir_ / "backup-zero"));
  EXPECT_FALSE(zero.Damage(DamageKind::kZero, {}, random).ok());
}

TEST_F(DamageCampaignTest, AStoreThatVerifiesIsNeverTakenForOneThatServesWrong) {
  UseBroken<VerifiesWhatItReads>("files:{}?direct=optional");
  const auto cases = Run(RunStoreDamage);
  ExpectPassed(cases);
  const CaseTotals totals = TotalsOf(cases);
  EXPECT_EQ(totals.faults_injected, 50u);
  EXPECT_GT(totals.faults_found, 30u);
  // A pass says what the store answered.
  EXPECT_TRUE(std::ranges::any_of(cases, [](const CaseResult& one) {
    return one.status == CaseStatus::kPass && one.finding &&
           one.finding->message.find("refused") != std::string::npos;
  }));
}

TEST_F(DamageCampaignTest, AStoreThatReturnsWrongBytesFailsWithTheFinding) {
  // The stores in the tree leave verification to kvbed.
  for (const char* spec : {"files:{}?direct=optional", "slab:{}?direct=optional"}) {
    SCOPED_TRACE(spec);
    Use(spec);
    const auto cases = Run(RunStoreDamage, "store/damage/flip");
    ExpectReported(cases, "wrong bytes");
    EXPECT_GT(Wrong(cases), 0u);
    EXPECT_TRUE(std::ranges::any_of(cases, [](const CaseResult& one) {
      return one.finding && one.finding->check == Check::kPayload;
    }));
    for (const CaseResult& one : cases) EXPECT_EQ(one.faults_injected, 1u) << one.name;
    fs::remove_all(store_path());
  }
}

TEST_F(DamageCampaignTest, TheSameSeedDoesTheSameDamage) {
  UseBroken<VerifiesWhatItReads>("files:{}?direct=optional");
  const auto all = Run(RunStoreDamage, "store/damage/truncate");
  fs::remove_all(store_path());
  const auto again = Run(RunStoreDamage, "store/damage/truncate/3");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].seed, all[3].seed);
  ASSERT_TRUE(again[0].finding && all[3].finding);
  EXPECT_EQ(again[0].finding->message, all[3].finding->message);
}

TEST_F(DamageCampaignTest, WithoutAFolderOrFilesItIsSkippedByName) {
  Use("files:{}?direct=optional");
  options_.damage_folder = std::nullopt;
  EXPECT_EQ(Run(RunStoreDamage).front().status, CaseStatus::kSkip);
  options_.damage_folder = dir_ / "elsewhere";
  EXPECT_NE(Run(RunStoreDamage).front().reason.find("wrote no file"), std::string::npos);
}

TEST_F(DamageCampaignTest, AStoreThatIsWrongWithoutDamageFailsBeforeAnyIsDone) {
  UseBroken<FlipsABit>("files:{}?direct=optional");
  const auto cases = Run(RunStoreDamage);
  ASSERT_EQ(cases.size(), 1u);
  ExpectReported(cases, "nothing was damaged");
}

}  // namespace
}  // namespace kvbed
