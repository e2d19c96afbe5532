// A store's folder: made when it is missing, recognised by its STORE file, locked, and swept of
// what a crash left. It doesn't know how records are kept in it.
#pragma once

#include <string>
#include <string_view>

#include "backends/io.h"
#include "backends/store_identity.h"
#include "backends/store_lock.h"
#include "backends/writer_lock.h"
#include "offload/status.h"

namespace kvbed {

enum class StoreAccess : uint8_t {
  kRead,    // the store must exist; several processes may read
  kWrite,   // the store must exist; nobody else may use it, or write it, as its kind has it
  kCreate,  // as kWrite, and a missing store is made: parents of the folder too, an empty one taken
};

inline constexpr std::string_view kManifestsFolderName = "manifests";

// Who may use a store at once.
enum class Sharing : uint8_t {
  kReadersOrWriter,  // readers of several processes share it, a writer excludes them and others
  kManyWriters,      // readers take no lock, writers share it, removing excludes other writers
};

struct StoreFolderKind {
  std::string_view name;                             // "slab"
  std::string_view contents = kManifestsFolderName;  // the folder in it that every such store has
  Sharing sharing = Sharing::kReadersOrWriter;
};

class StoreFolder {
 public:
  // Not found when there is no store and access isn't kCreate. Invalid argument, naming the folder,
  // for one that holds another kind, or is no store and not empty; an I/O error for one that is in
  // use, corruption for a store without its STORE file. For a writer all names in it are durable on
  // return, and unless others write as well, no temporary file is left.
  static Result<StoreFolder> Open(Io& io, const std::string& path, const StoreFolderKind& kind,
                                  StoreAccess access);

  const std::string& path() const { return path_; }
  const std::string& contents_name() const { return contents_; }
  std::string contents_path() const { return path_ + "/" + contents_; }
  const Digest128& uuid() const { return identity_.uuid; }
  // Of a writer of a store that many write.
  WriterLock& writers() { return writers_; }

 private:
  std::string path_;
  std::string contents_;
  StoreLock lock_;
  WriterLock writers_;
  StoreIdentity identity_;
};

// Removes the temporary files in a folder that a killed writer left, and makes the names in it
// durable.
Status SweepFolder(Io& io, const std::string& directory);

}  // namespace kvbed
