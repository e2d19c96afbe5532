// A store's specification as users write it: KIND:PATH[?key=value&...][#SNAPSHOT], or
// exec:[key=value ...] COMMAND LINE [#SNAPSHOT]. It names a store and its options and opens
// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/io.h"
#include "offload/status.h"

namespace kvbed {

enum class StoreKind : uint8_t { kSlab, kRocksDb, kFiles, kMemory, kPlugin, kExec };

// Whether its records are kept by something that isn't kvbed: external_store.h.
constexpr bool IsExternal(StoreKind kind) {
  return kind == StoreKind::kPlugin || kind == StoreKind::kExec;
}

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

std::string_view StoreKindName(StoreKind kind);    // "slab", "rocksdb", "files", "memory", ...
std::string_view DirectModeName(DirectMode mode);  // "required", "optional", "off"
std::string_view SyncModeName(SyncMode mode);      // "full", "none", "commit", "block"
std::string_view RecordLayoutName(RecordLayout layout);  // "blob", "index"
Result<DirectMode> ParseDirectMode(std::string_view name);
Result<SyncMode> ParseSyncMode(std::string_view name);

struct StoreSpec {
  StoreKind kind = StoreKind::kSlab;
  std::string path;  // decoded; empty for memory; exec: the command line

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
  std::optional<uint64_t> timeout_ms;
  std::optional<uint64_t> window_bytes;
  std::optional<std::string> manifests;
  // plugin: the other keys and their values, decoded as the path is, for the plug-in.
  std::vector<std::pair<std::string, std::string>> plugin_options;

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
  // Of plugin: and exec: stores.
  uint64_t timeout_ms = 30'000;      // for each call
  uint64_t window_bytes = 64 << 20;  // shared with the store; more where one record needs it
  std::string manifests;             // the folder of a store's manifests that keeps none itself
  bool operator==(const StoreSettings&) const = default;
};

StoreSettings EffectiveSettings(const StoreSpec& spec, const StoreSettings& defaults);

// Invalid argument for settings that the kind doesn't have, whether the spec or the command gave
// them.
Status CheckSettings(StoreKind kind, const StoreSettings& settings);

// In the path and a plug-in's values, and nowhere else, %XX stands for a byte; `?`, `#`, `&` and
// `%` must be written so. A command line is split as split_command.h says; words key=value before
// it are options, and a last word #NAME is the snapshot. An unknown kind, option or value is an
// invalid argument that names the nearest right one.
Result<StoreSpec> ParseStoreSpec(std::string_view text);

}  // namespace kvbed
