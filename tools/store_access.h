// Opening stores as the command line names them, and the temporary folder of a run that names none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/open_store.h"
#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/common_options.h"

namespace kvbed {

// A store named by a spec, with the command's options where the spec has none.
struct NamedStore {
  StoreSpec spec;
  StoreSettings settings;  // in effect
};
Result<NamedStore> NameStore(const StoreOptions& options);

Result<std::unique_ptr<BlockStore>> OpenNamed(const NamedStore& store, StoreAccess access,
                                              uint64_t record_bytes);

// A folder of its own under /var/tmp (or, failing that, under the current folder), removed with all
// that is in it at the end of its life.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Create();
  static Result<TemporaryFolder> CreateIn(const std::string& parent);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Before any work, of a command that stores a snapshot for another opening of the store, and proves
// it bit for bit: refuses a store outside kvbed that would lose the manifest, or that is lossy.
Status CheckHoldsSnapshots(const BlockStore& store);

// "bench measures a disk...": invalid argument for a store outside kvbed.
Status CheckIsOurs(const StoreSpec& spec, const std::string& command);

// Before any work: a name that is none, or that is taken when nothing is to be replaced.
Status CheckNameIsFree(BlockStore& store, const std::string& name, bool replace);

// A warning for each snapshot whose manifest can't be read: while there is one, no slot that it may
// name is used again, so that the store only grows.
void WarnOfUnreadable(BlockStore& store, std::vector<std::string>& warnings);

// Before any work: out of space when the store has no room for so many new records.
Status CheckRoom(const BlockStore& store, uint64_t records, uint64_t record_bytes);

// Not found names the snapshots that there are.
Result<Manifest> ReadSnapshot(BlockStore& store, const std::string& name);

// The exit code for a snapshot that can't be read: a damaged manifest has failed a check.
int ExitCodeForSnapshot(const Status& status);

// "its snapshots are: s1, s2", for a message about one that isn't named or isn't there.
std::string SnapshotNames(BlockStore& store);

// The folder of a spec's text, for asking about its filesystem; empty for memory, and where only
// the store knows.
std::string PathOfSpec(const std::string& spec);

// "io_uring, depth 16 (16 reached), O_DIRECT on ext4, registered buffers and files, SINGLE_ISSUER"
std::string DescribeIo(const StoreInfo& info);

}  // namespace kvbed
