// Folders that somebody prepared: manifests with a checksum that fits and any contents, and things
// that are no files in the places of files. A store opens or says why not, serves no wrong record,
// and touches nothing outside its folder.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "backends/open_store.h"
#include "offload/digest.h"
#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

class HostileStore : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto store = TryOpen(StoreAccess::kCreate);
    ASSERT_OK(store);
    ASSERT_OK(TakeSnapshot(**store, s_));
    stored_ = StatusOf((*store)->ReadManifest("s")).ok() ? *(*store)->ReadManifest("s") : s_;
    std::ofstream(dir_ / "outside") << "mine";
  }
  void TearDown() override {
    std::ifstream file(dir_ / "outside");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "mine");
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"outside", "store"}));
  }

  Result<std::unique_ptr<BlockStore>> TryOpen(StoreAccess access) {
    return OpenStore(ParseStoreSpec(fmt::format("{}:{}/store?direct=optional&capacity=1M",
                                                GetParam(), dir_.path()))
                         .value(),
                     {.access = access});
  }
  std::string ManifestPath() const { return dir_ / "store/manifests/s.manifest"; }
  void Write(const std::string& bytes) { std::ofstream(ManifestPath(), std::ios::binary) << bytes; }
  static void MendChecksum(std::string& bytes) {
    const size_t body = bytes.size() - sizeof(Digest128);
    const Digest128 checksum = Xxh3_128(AsBytes(bytes).first(body));
    bytes.replace(body, sizeof(Digest128), AsText(checksum.bytes));
  }

  // Opens it for reading and for writing and reads all that it names. Which bytes come is for
  // their digests to tell, as for any forged manifest.
  void ReadAll() {
    for (const StoreAccess access : {StoreAccess::kRead, StoreAccess::kWrite}) {
      auto store = TryOpen(access);
      if (store.ok()) ReadAll(**store);
    }
  }
  static void ReadAll(BlockStore& store) {
    const auto listed = store.ListManifests();
    ASSERT_OK(listed);
    for (const ManifestSummary& summary : *listed) {
      const auto manifest = store.ReadManifest(summary.name);
      if (!manifest.ok() || manifest->geometry.record_bytes() > (1 << 20)) continue;
      TestRequests gets = GetsOf(*manifest);
      gets.RunOn(store);
      ReadRecords(store);
    }
  }
  static void ReadRecords(BlockStore& store) {
    const auto records = store.ListRecords();
    ASSERT_OK(records);
    for (const StoredRecord& record : *records) StatusOf(store.Locate(record.id, 0)).IgnoreError();
  }
  // Writes and removes beside what is there.
  void Change() {
    auto store = TryOpen(StoreAccess::kWrite);
    if (!store.ok()) return;
    const Manifest beside = MakeManifest("beside", kSmallRecord, 2, 77);
    if (TakeSnapshot(**store, beside).ok()) EXPECT_TRUE(IsWhole(**store, beside));
    (*store)->RemoveManifest("s").IgnoreError();
    (*store)->RemoveManifest("beside").IgnoreError();
  }

  TempDir dir_;
  const Manifest s_ = MakeManifest("s", kSmallRecord, 3, 1);
  Manifest stored_;  // as the store keeps it
};

TEST_P(HostileStore, ManifestsThatClaimAnythingUnderARightChecksumDoNoHarm) {
  const std::vector<std::function<void(Manifest&)>> claims = {
      [](Manifest& m) { m.name = "../../outside"; },
      [](Manifest& m) { m.name = ".."; },
      [](Manifest& m) { m.name = std::string("s\0x", 3); },
      [](Manifest& m) { m.name = "other"; },
      [](Manifest& m) { m.blocks[1].place = UINT64_MAX; },
      [](Manifest& m) { m.blocks[1].place = uint64_t{1} << 62; },
      [](Manifest& m) { m.blocks[1].place = uint64_t{1} << 51; },
      [](Manifest& m) { m.blocks[1].place = m.blocks[0].place; },
      [](Manifest& m) { m.blocks[1].place = 1000; },
      [](Manifest& m) { m.geometry.layers = 1 << 20; },
      [](Manifest& m) { m.geometry.head_dim = UINT32_MAX; },
      [](Manifest& m) { m.geometry = GeometryOf(uint64_t{1} << 29); },
      [](Manifest& m) { m.geometry = GeometryOf(2 * kSmallRecord); },
      [](Manifest& m) { m.cached_tokens = uint64_t{1} << 60; },
      [](Manifest& m) { m.blocks[2].id.generation = UINT64_MAX; },
      [](Manifest& m) { std::swap(m.blocks[0].digest, m.blocks[1].digest); },
      [](Manifest& m) { m.created_ns = UINT64_MAX; },
      [](Manifest& m) { m.store_uuid.bytes[0] ^= std::byte{1}; },
      [](Manifest& m) { m.model_name.assign(1 << 20, '\x1b'); },
  };
  for (size_t i = 0; i < claims.size(); ++i) {
    SCOPED_TRACE(i);
    Manifest forged = stored_;
    claims[i](forged);
    Write(EncodeManifest(forged));
    ReadAll();
    Change();
  }
  Write(EncodeManifest(stored_));
}

TEST_P(HostileStore, ForgedBytesUnderARightChecksumDoNoHarm) {
  const std::string intact = EncodeManifest(stored_);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    std::string bytes = intact;
    for (uint64_t i = 0; i <= seed % 4; ++i) {
      // Behind magic, version, flags and name.
      bytes[22 + random() % (bytes.size() - 38)] = static_cast<char>(random() % 3 ? random() : 255);
    }
    MendChecksum(bytes);
    Write(bytes);
    ReadAll();
    Change();
  }
}

TEST_P(HostileStore, WhatIsNoFileInThePlaceOfOneIsNamedAndNeverWaitedFor) {
  std::vector<std::string> files = {dir_ / "store/STORE", ManifestPath()};
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "store")) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".kv" || extension == ".dat") files.push_back(entry.path().string());
  }
  ASSERT_GT(files.size(), 2u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    fs::rename(file, file + ".aside");
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    ReadAll();
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    ReadAll();
    fs::remove(file);
    fs::create_directory(file);
    ReadAll();
    fs::remove(file);
    fs::rename(file + ".aside", file);
  }
  const auto store = TryOpen(StoreAccess::kRead);
  ASSERT_OK(store);
  EXPECT_TRUE(IsWhole(**store, s_));  // the control: with its files it is whole
}

INSTANTIATE_TEST_SUITE_P(All, HostileStore, testing::Values("slab", "files"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace kvbed
