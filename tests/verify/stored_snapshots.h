// Snapshots of sealed records in stores of every kind that keeps them, and damage done to their
// files by hand. It doesn't know what looks for the damage.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "backends/open_store.h"
#include "offload/block_pool.h"
#include "offload/offloader.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {

// A record of 8,192 bytes, most of it padding, and one of 28,672.
inline KvGeometry PaddedGeometry() {
  return {.layers = 3, .kv_heads = 2, .head_dim = 4, .block_tokens = 16};
}
inline KvGeometry WideGeometry() {
  return {.layers = 3, .kv_heads = 2, .head_dim = 64, .block_tokens = 16};
}

// A sequence that is offloaded to a store, and grows between snapshots.
class GrowingSequence {
 public:
  GrowingSequence(const KvGeometry& geometry, uint64_t sequence_id)
      : pool_(BlockPool::Create(geometry, 16).value()),
        sequence_(*pool_, {ModelDigests{}.Fingerprint(), 5, sequence_id}) {}

  void Grow(uint64_t tokens) {
    const KvGeometry& g = pool_->geometry();
    ASSERT_OK(sequence_.Reserve(sequence_.cached_tokens() + tokens));
    const uint64_t row_bytes = g.head_dim * g.element_bytes();
    for (uint64_t i = 0; i < tokens; ++i, sequence_.Advance(1)) {
      const uint64_t position = sequence_.cached_tokens();
      const MutableBytes payload = sequence_.payload(position / g.block_tokens);
      for (uint64_t head = 0; head < g.payload_bytes(); head += g.head_bytes()) {
        std::mt19937_64 random(position * 1000 + head + sequence_.identity().sequence_id * 7919);
        for (std::byte& b :
             payload.subspan(head + position % g.block_tokens * row_bytes, row_bytes)) {
          b = static_cast<std::byte>(1 + random() % 255);
        }
      }
    }
  }

  // K and V that are zero, for records of which only the size matters.
  void GrowByZeroes(uint64_t tokens) {
    ASSERT_OK(sequence_.Reserve(sequence_.cached_tokens() + tokens));
    sequence_.Advance(tokens);
  }

  void Snapshot(BlockStore& store, const std::string& name) {
    Manifest manifest;
    manifest.name = name;
    manifest.token_ids.resize(sequence_.cached_tokens());
    auto channel = store.OpenChannel({.iodepth = 4, .memory = pool_->memory()});
    ASSERT_OK(channel);
    ASSERT_OK(Offload(store, *channel, sequence_, manifest, {}));
  }

 private:
  std::unique_ptr<BlockPool> pool_;
  Sequence sequence_;
};

struct KeptStore {
  const char* name;
  const char* spec;  // {} is the folder
  bool manifests_are_files;
  bool slots;      // records lie in slots
  bool own_check;  // the store finds damage by itself
};

inline std::ostream& operator<<(std::ostream& out, const KeptStore& store) {
  return out << store.name;
}

inline const std::vector<KeptStore>& KeptStores() {
  static const std::vector<KeptStore> stores = {
      {"Slab", "slab:{}", true, true, false},
      {"SlabPsync", "slab:{}?ioengine=psync", true, true, false},
      {"Files", "files:{}", true, false, false},
#ifdef KVBED_HAS_ROCKSDB
      {"RocksDbBlob", "rocksdb:{}", false, false, true},
      {"RocksDbIndex", "rocksdb:{}?layout=index", false, true, false},
#endif
  };
  return stores;
}

// What a folder holds, down to times of change.
inline std::map<std::string, std::string> ImageOf(const std::string& folder) {
  std::map<std::string, std::string> image;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::ostringstream text;
    text << entry.last_write_time().time_since_epoch().count() << ' '
         << static_cast<unsigned>(entry.status().permissions()) << ' ';
    if (entry.is_regular_file()) text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    image[entry.path().string()] = text.str();
  }
  return image;
}

// A store with snapshots "a" of three blocks, "b", which has grown from it to four and shares two
// of them, and "wide" of two larger records.
class StoredSnapshots : public testing::TestWithParam<KeptStore> {
 protected:
  void SetUp() override {
    const auto store = Open(StoreAccess::kCreate);
    ASSERT_NE(store, nullptr);
    GrowingSequence first(PaddedGeometry(), 77);
    first.Grow(40);
    first.Snapshot(*store, "a");
    first.Grow(20);
    first.Snapshot(*store, "b");
    GrowingSequence second(WideGeometry(), 78);
    second.Grow(32);
    second.Snapshot(*store, "wide");
  }

  std::unique_ptr<BlockStore> Open(StoreAccess access = StoreAccess::kRead) const {
    std::string text = GetParam().spec;
    text.replace(text.find("{}"), 2, folder_);
    auto store = OpenStore(ParseStoreSpec(text).value(), {.access = access});
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }

  RecordLocation Where(const std::string& snapshot, uint64_t block) const {
    const auto store = Open();
    const Manifest manifest = store->ReadManifest(snapshot).value();
    const ManifestBlock& one = manifest.blocks.at(block);
    const auto place = store->Locate(one.id, one.place);
    EXPECT_OK(place);
    return place.ok() ? *place : RecordLocation{};
  }
  static std::string ReadAt(const std::string& path, uint64_t offset, uint64_t size) {
    std::string bytes(size, '\0');
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    return bytes;
  }
  static void WriteAt(const std::string& path, uint64_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file) << path;
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }
  static void Flip(const std::string& path, uint64_t offset) {
    std::string byte = ReadAt(path, offset, 1);
    byte[0] = static_cast<char>(byte[0] ^ 1);
    WriteAt(path, offset, byte);
  }
  void FlipInRecord(const std::string& snapshot, uint64_t block, uint64_t offset) const {
    const RecordLocation place = Where(snapshot, block);
    Flip(place.path, place.offset + offset);
  }
  std::string ManifestFile(const std::string& name) const {
    return folder_ + "/manifests/" + name + ".manifest";
  }
  std::string BytesOf(const std::string& snapshot, uint64_t block) const {
    const RecordLocation place = Where(snapshot, block);
    return ReadAt(place.path, place.offset, place.size_bytes);
  }

  TempDir dir_;
  const std::string folder_ = dir_ / "store";
};

}  // namespace kvbed
