// One of the two things that are compared: a dump in a file, or a snapshot in a store. It hands
// out K and V a stretch of tokens at a time, so that a snapshot is never whole in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "offload/finding.h"
#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/diff/dump_file.h"
#include "tools/snapshot_reader.h"
#include "verify/kv_dump.h"

namespace kvbed {

// A store's spec, such as slab:DIR#NAME, rather than a file's name.
bool NamesAStore(const std::string& source);

class DiffSide {
 public:
  // `source`: a file, read as `dump` says, or a store's spec, opened as `store` says. A damaged
  // manifest is an error too, with `manifest_damage` set.
  static Result<DiffSide> Open(const std::string& source, const DumpOptions& dump,
                               StoreOptions store, bool& manifest_damage);

  const std::string& source() const { return source_; }
  const KvDumpShape& shape() const { return shape_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t block_tokens() const { return block_tokens_; }  // 0: without blocks
  // Null for a snapshot, which has a manifest.
  const DumpDescription* description() const;
  const Manifest* manifest() const;

  // K and V of `token`, and of what else lies in memory with it; valid until the next call.
  // Corruption, with finding() set, for a record that fails its checks.
  Result<const KvDump*> At(uint64_t token);
  const std::optional<Finding>& finding() const { return finding_; }

 private:
  struct Snapshot {
    SnapshotReader reader;
    KvDump window;  // what was read last; holds no token at first
    std::vector<uint64_t> block_table;
  };

  DiffSide(std::string source, std::variant<DumpFile, Snapshot> from);
  Status ReadWindow(Snapshot& snapshot, uint64_t token);

  std::string source_;
  std::variant<DumpFile, Snapshot> from_;
  KvDumpShape shape_;
  uint64_t tokens_ = 0;
  uint64_t block_tokens_ = 0;
  std::optional<Finding> finding_;
};

}  // namespace kvbed
