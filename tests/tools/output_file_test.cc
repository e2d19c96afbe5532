#include "tools/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }
  Status Check(const std::string& path, OutputKind kind = OutputKind::kAny) const {
    return CheckOutputFile("--json", path, kind, {"", dir_ / "store"});
  }

  TempDir dir_;
};

TEST_F(OutputFileTest, NamesThatCanNotBeWrittenAreFoundBefore) {
  fs::create_directories(dir_ / "store");
  EXPECT_OK(Check(dir_ / "new.json"));
  EXPECT_TRUE(FailsWith(Check(""), StatusCode::kInvalidArgument, "--json needs a file's name"));
  EXPECT_TRUE(FailsWith(Check("-"), StatusCode::kInvalidArgument, "-o json"));
  EXPECT_TRUE(FailsWith(Check(dir_.path()), StatusCode::kInvalidArgument, "is a folder"));
  EXPECT_TRUE(FailsWith(Check(dir_ / "no/such.json"), StatusCode::kNotFound, "make it first"));
  EXPECT_FALSE(fs::exists(dir_ / "new.json"));
}

TEST_F(OutputFileTest, NothingIsWrittenIntoTheStore) {
  fs::create_directories(dir_ / "store/manifests");
  fs::create_directory_symlink(dir_ / "store", dir_ / "link");
  for (const char* inside : {"store/STORE", "store/manifests/x", "store/../store/x", "link/x"}) {
    EXPECT_TRUE(FailsWith(Check(dir_ / inside), StatusCode::kInvalidArgument, "is or lies in"))
        << inside;
  }
  EXPECT_OK(Check(dir_ / "store.json"));
}

TEST_F(OutputFileTest, NothingThatTheCommandUsesAndNoOtherStoreIsReplaced) {
  std::ofstream(dir_ / "model.gguf") << "weights";
  fs::create_symlink("model.gguf", dir_ / "alias");
  for (const char* name : {"model.gguf", "alias"}) {
    EXPECT_TRUE(
        FailsWith(CheckOutputFile("--json", dir_ / name, OutputKind::kAny, {dir_ / "model.gguf"}),
                  StatusCode::kInvalidArgument, "which this command uses"));
  }
  fs::create_directories(dir_ / "other/manifests");
  std::ofstream(dir_ / "other/STORE") << "x";
  for (const char* name : {"other/STORE", "other/new.json", "other/manifests/s.manifest"}) {
    EXPECT_TRUE(FailsWith(CheckOutputFile("--json", dir_ / name, OutputKind::kAny, {}),
                          StatusCode::kInvalidArgument, "inside a store"))
        << name;
  }
}

TEST_F(OutputFileTest, DevicesAreForResultsThatNobodyReadsAgain) {
  EXPECT_OK(Check("/dev/null"));
  EXPECT_TRUE(FailsWith(Check("/dev/null", OutputKind::kRegular), StatusCode::kInvalidArgument,
                        "no regular file"));
  EXPECT_OK(ReplaceFile("/dev/null", "text"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(ReplaceFile("/dev/full", "text").code(), StatusCode::kOutOfSpace);
}

TEST_F(OutputFileTest, AFileIsReplacedWholeAndNothingIsLeftBesideIt) {
  ASSERT_OK(ReplaceFile(dir_ / "one", "first, and longer"));
  ASSERT_OK(ReplaceFile(dir_ / "one", "second"));
  EXPECT_EQ(Read(dir_ / "one"), "second");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, AFileInPiecesTakesItsPlaceWhenItIsWhole) {
  std::ofstream(dir_ / "one") << "old";
  {
    ASSERT_OK_AND_ASSIGN(ReplacedFile file, ReplacedFile::Create(dir_ / "one", 8));
    ASSERT_OK(file.WriteAt(4, AsBytes("efgh")));
    EXPECT_EQ(Read(dir_ / "one"), "old");
    // Left without a commit.
  }
  EXPECT_EQ(Read(dir_ / "one"), "old");
  EXPECT_EQ(Files(), 1u);
  ASSERT_OK_AND_ASSIGN(ReplacedFile file, ReplacedFile::Create(dir_ / "one", 8));
  ASSERT_OK(file.WriteAt(4, AsBytes("efgh")));
  ASSERT_OK(file.WriteAt(0, AsBytes("abcd")));
  ASSERT_OK(file.Commit());
  EXPECT_EQ(Read(dir_ / "one"), "abcdefgh");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, RoomThatIsNotThereIsToldBeforeTheWork) {
  const auto file = ReplacedFile::Create(dir_ / "huge", uint64_t{1} << 60);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kOutOfSpace) << file.status().message();
  EXPECT_EQ(Files(), 0u);
  EXPECT_EQ(ReplacedFile::Create(dir_ / "no/such", 8).status().code(), StatusCode::kNotFound);
}

TEST_F(OutputFileTest, ALinkStaysALink) {
  ASSERT_OK(ReplaceFile(dir_ / "target", "old"));
  fs::create_symlink("target", dir_ / "link");
  ASSERT_OK(ReplaceFile(dir_ / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(dir_ / "link"));
  EXPECT_EQ(Read(dir_ / "target"), "new");
}

TEST_F(OutputFileTest, LinesAreAdded) {
  ASSERT_OK(AppendToFile(dir_ / "lines", "a\n"));
  ASSERT_OK(AppendToFile(dir_ / "lines", "b\n"));
  EXPECT_EQ(Read(dir_ / "lines"), "a\nb\n");
  EXPECT_EQ(AppendToFile("/dev/full", "a\n").code(), StatusCode::kOutOfSpace);
}

}  // namespace
}  // namespace kvbed
