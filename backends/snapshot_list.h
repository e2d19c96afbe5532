// The snapshots of a store as they were loaded and changed since: which there are, which records
// each names, and which can't be read. It doesn't know files. Not thread-safe; its owner locks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/manifest_folder.h"
#include "offload/block_store.h"
#include "offload/manifest.h"
#include "offload/status.h"

namespace kvbed {

class SnapshotList {
 public:
  // Reads the manifest of every name and gives it to `add`, the newest first: where two contradict
  // each other, the bytes are those that were written last. One that can't be read, or that `add`
  // refuses, is kept as unreadable with its error.
  void Load(const std::vector<std::string>& names,
            const std::function<Result<Manifest>(const std::string&)>& read,
            const std::function<Status(const Manifest&)>& add);
  Status Load(const ManifestFolder& folder, const std::function<Status(const Manifest&)>& add);

  // Invalid argument when the name is taken and may not be replaced; as CheckRemovable otherwise.
  Status CheckName(const std::string& name, CommitMode mode) const;
  // Not found, or the error of a manifest that may be whole for somebody else: a newer version's,
  // or one that can't be read here. A damaged one is nobody's and may go.
  Status CheckRemovable(const std::string& name) const;
  Status CheckReadable(const std::string& name) const;  // not found, or why it can't be read

  // Whether this very manifest is listed and readable.
  bool Has(const Manifest& manifest) const;

  // Both return the ids that the snapshot that is gone named.
  std::vector<RecordId> Put(const Manifest& manifest);
  std::vector<RecordId> Remove(const std::string& name);

  bool HasUnreadable() const;
  std::vector<ManifestSummary> Summaries() const;  // by name

 private:
  struct Snapshot {
    ManifestSummary summary;
    std::vector<RecordId> ids;
  };
  std::map<std::string, Snapshot> snapshots_;
};

ManifestSummary SummaryOf(const Manifest& manifest);

}  // namespace kvbed
