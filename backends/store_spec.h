// A store's specification as users write it: KIND:PATH[?key=value&...][#SNAPSHOT].
// It names a store and its options and opens nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

enum class StoreKind : uint8_t { kSlab, kRocksDb, kFiles, kMemory };

enum class DirectMode : uint8_t {
  kRequired,  // an error where direct I/O can't be had
  kOptional,  // buffered with a reason where it can't
  kOff,       // buffered
};

enum class SyncMode : uint8_t {
  kFull,    // D1 waits until the data are durable
  kNone,    // D1 waits for nothing: for measuring only, a power cut may take committed data
  kCommit,  // what kFull means where each block is a file: they are synced before the manifest
  kBlock,   // there too: each file is durable before its put completes
};

// The following are RocksDB's.
enum class RecordLayout : uint8_t {
  kBlob,   // records are values in its blob files
  kIndex,  // records are in a slab, it holds where each one is
};
enum class WalMode : uint8_t {
  kOff,  // durable when memtables are flushed
  kOn,   // durable when the log is synced
};
enum class DbFileSystem : uint8_t {
  kSeam,   // kvbed's, over the seam
  kPosix,  // RocksDB's own, buffered
};
enum class DbChecksum : uint8_t {
  kFast,   // CRC32C with the CPU's instructions
  kStock,  // as RocksDB's library computes it
};

std::string_view StoreKindName(StoreKind kind);          // "slab", "rocksdb", "files", "memory"
std::string_view DirectModeName(DirectMode mode);        // "required", "optional", "off"
std::string_view SyncModeName(SyncMode mode);            // "full", "none", "commit", "block"
std::string_view RecordLayoutName(RecordLayout layout);  // "blob", "index"
Result<DirectMode> ParseDirectMode(std::string_view name);
Result<SyncMode> ParseSyncMode(std::string_view name);

struct StoreSpec {
  StoreKind kind = StoreKind::kSlab;
  std::string path;  // decoded; empty for memory

  // Set when the spec says so; then they win over the command's.
  std::optional<uint32_t> iodepth;
  std::optional<IoEngine> ioengine;
  std::optional<DirectMode> direct;
  std::optional<uint64_t> capacity_bytes;
  std::optional<SyncMode> sync;
  std::optional<RecordLayout> layout;
  std::optional<WalMode> wal;
  std::optional<DbFileSystem> fs;
  std::optional<DbChecksum> crc;

  std::string snapshot;  // empty for none

  // Parses to an equal spec.
  std::string ToString() const;
  bool operator==(const StoreSpec&) const = default;
};

// What a store is opened with: the command's values where the spec has none of its own.
struct StoreSettings {
  uint32_t iodepth = 16;
  IoEngine ioengine = IoEngine::kAuto;
  DirectMode direct = DirectMode::kRequired;
  uint64_t capacity_bytes = 0;  // 0: the free space less a reserve
  SyncMode sync = SyncMode::kFull;
  std::optional<RecordLayout> layout;  // none: the store's, or kBlob for a new one
  WalMode wal = WalMode::kOff;
  DbFileSystem fs = DbFileSystem::kSeam;
  DbChecksum crc = DbChecksum::kFast;
  bool operator==(const StoreSettings&) const = default;
};

StoreSettings EffectiveSettings(const StoreSpec& spec, const StoreSettings& defaults);

// Invalid argument for settings that the kind doesn't have, whether the spec or the command gave
// them.
Status CheckSettings(StoreKind kind, const StoreSettings& settings);

// In the path, and nowhere else, %XX stands for a byte; `?`, `#`, `&` and `%` must be written so.
// An unknown kind, option or value is an invalid argument that names the nearest right one.
Result<StoreSpec> ParseStoreSpec(std::string_view text);

}  // namespace kvbed
