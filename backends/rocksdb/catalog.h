// What a RocksDB store knows besides its records: manifests by name, and of each record's id its
// digest, size and place. It doesn't know where records are.
#pragma once

#include <rocksdb/write_batch.h>

#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest_folder.h"
#include "backends/record_index.h"
#include "backends/rocksdb/database.h"
#include "offload/digest.h"
#include "offload/leftovers.h"
#include "offload/manifest.h"
#include "offload/record_id.h"

namespace kvbed {

// The value under an id, 32 bytes: digest 16, record bytes 8, place 8, little-endian.
struct IdEntry {
  Digest128 digest;
  uint64_t record_bytes = 0;
  uint64_t place = 0;
};
std::string EncodeIdEntry(const IdEntry& entry);
Result<IdEntry> DecodeIdEntry(std::string_view bytes);

// A record's key.
std::string KeyOf(const RecordId& id);

class Catalog {
 public:
  // `database` must outlive it. `uuid` is the store's, which its manifests carry.
  Catalog(Database& database, const Digest128& uuid) : database_(&database), uuid_(uuid) {}

  Result<std::vector<std::string>> Names() const;
  Result<Manifest> Read(const std::string& name) const;
  // Durable on return.
  FolderChange Publish(const Manifest& manifest);
  FolderChange Remove(const std::string& name);

  // The records that it has and `index` hasn't. `where` is named as their place.
  Status ListOrphans(const RecordIndex& index, const std::string& where,
                     Leftovers& leftovers) const;

  // The ids that it has, whether a manifest names them or not.
  Result<std::vector<RecordId>> Ids() const;

 private:
  FolderChange Apply(rocksdb::WriteBatch& batch);

  Database* database_;
  Digest128 uuid_;
};

}  // namespace kvbed
