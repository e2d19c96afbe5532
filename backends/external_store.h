// A store outside kvbed: a plug-in (plugin:) or a program (exec:), in a child process that speaks
// docs/store-protocol.md. Nothing that the child does harms this process: it is waited for with a
// limit, killed and reaped. It knows no record's format and no verdict.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

struct ExternalStoreOptions {
  std::string kind;               // "plugin" or "exec"
  std::string program;            // looked up in PATH
  std::vector<std::string> argv;  // of the child, argv[0] included
  std::string spec;
  StoreAccess access = StoreAccess::kRead;
  uint32_t iodepth = 16;            // requests in one call, at most
  uint64_t timeout_ms = 30'000;     // for each call; above 0
  uint64_t window_bytes = 0;        // of the memory shared with the child, a multiple of 4096
  std::string manifests_directory;  // for a store that keeps none; empty: in memory
};

// An error names the child, what it was asked, and what it did: a child that can't be started or
// answers nothing is an I/O error, one of another version or without a required verb not supported.
Result<std::unique_ptr<BlockStore>> OpenExternalStore(std::unique_ptr<Io> io,
                                                      const ExternalStoreOptions& options);

// What a store can do beyond put, get and close.
struct ExternalCapabilities {
  bool flush = false;      // without it every put counts as durable when it is answered
  bool exists = false;     // ExternalExists
  bool remove = false;     // without it records stay when they are discarded
  bool list = false;       // ExternalList
  bool manifests = false;  // without it kvbed keeps them: see ExternalStoreState
  bool operator==(const ExternalCapabilities&) const = default;
};

struct ExternalStoreState {
  std::string name;  // what the store calls itself
  ExternalCapabilities capabilities;
  bool lossy = false;  // gets needn't give the bytes that were put: drift, not the bytes verdict
  // Where manifests are: the store's, in a folder, or in this BlockStore, to be lost with it (but
  // kept through RestartExternalStore).
  enum class Manifests : uint8_t { kStore, kFolder, kMemory } manifests = Manifests::kStore;
  int pid = 0;     // of the child; 0 when it has ended
  Status failure;  // ok while the child is in use; else the first cause, which every request gets
  uint64_t calls = 0;  // answered, of all children
  uint64_t restarts = 0;
};

// Nothing for a store that isn't external.
std::optional<ExternalStoreState> StateOfExternalStore(const BlockStore& store);

// The following are for external stores only (an assertion). Any thread may call them.

enum class ChildEnd : uint8_t {
  kClose,  // the close verb, then its end is waited for
  kKill,   // SIGKILL
};

// SIGKILLs the child's process group now, also while a call waits for it, which then fails. Does
// nothing when it has ended. Its pid can't be another process's meanwhile.
void KillExternalStore(BlockStore& store);

// Ends the child and starts another, after a failure too; open channels stay. What was put and not
// committed is forgotten, whatever the store has of it; manifests are read again, those in memory
// stay. An error: it couldn't be started, or closing failed (then the new one is in use all the
// same).
Status RestartExternalStore(BlockStore& store, ChildEnd end);

// What the store itself says, past kvbed's index. Not supported without the capability.
Result<std::vector<bool>> ExternalExists(BlockStore& store, std::span<const RecordId> ids);
// Ascending. Corruption when the store's answer isn't.
Result<std::vector<RecordId>> ExternalList(BlockStore& store);

// A get past kvbed's index, of ids that it may know nothing about: e.g. what wasn't committed
// before a restart. Statuses are in the requests.
void ExternalGet(BlockStore& store, std::span<StoreRequest* const> requests);

}  // namespace kvbed
