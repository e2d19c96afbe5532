// A store's folder: made when it is missing, recognised by its STORE file, locked, and swept of
// what a crash left. It doesn't know how records are kept in it.
#pragma once

#include <string>
#include <string_view>

#include "backends/io.h"
#include "backends/store_identity.h"
#include "backends/store_lock.h"
#include "offload/status.h"

namespace kvbed {

enum class StoreAccess : uint8_t {
  kRead,    // the store must exist; several processes may read
  kWrite,   // the store must exist; nobody else may use it
  kCreate,  // as kWrite, and a missing store is made: parents of the folder too, an empty one taken
};

inline constexpr std::string_view kManifestsFolderName = "manifests";

class StoreFolder {
 public:
  // Not found when there is no store and access isn't kCreate. Invalid argument, naming the folder,
  // for one that holds another kind, or is no store and not empty; an I/O error for one that is in
  // use, corruption for a store without its STORE file. For a writer all names in it are durable on
  // return, and no temporary file is left.
  static Result<StoreFolder> Open(Io& io, const std::string& path, std::string_view kind,
                                  StoreAccess access);

  const std::string& path() const { return path_; }
  std::string manifests_path() const { return path_ + "/" + std::string(kManifestsFolderName); }
  const Digest128& uuid() const { return identity_.uuid; }

 private:
  std::string path_;
  StoreLock lock_;
  StoreIdentity identity_;
};

}  // namespace kvbed
