#include "backends/rocksdb/catalog.h"

#include <fmt/format.h>

#include <algorithm>

#include "offload/bytes.h"

namespace kvbed {
namespace {

constexpr size_t kIdEntryBytes = 32;

}  // namespace

std::string EncodeIdEntry(const IdEntry& entry) {
  std::string bytes(kIdEntryBytes, '\0');
  const MutableBytes out{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  std::copy(entry.digest.bytes.begin(), entry.digest.bytes.end(), out.begin());
  StoreLe<uint64_t>(out, 16, entry.record_bytes);
  StoreLe<uint64_t>(out, 24, entry.place);
  return bytes;
}

Result<IdEntry> DecodeIdEntry(std::string_view bytes) {
  if (bytes.size() != kIdEntryBytes) {
    return Status::Corruption(
        fmt::format("an id's value has {} bytes, this one {}", kIdEntryBytes, bytes.size()));
  }
  const Bytes in = AsBytes(bytes);
  IdEntry entry;
  std::copy_n(in.begin(), entry.digest.bytes.size(), entry.digest.bytes.begin());
  entry.record_bytes = LoadLe<uint64_t>(in, 16);
  entry.place = LoadLe<uint64_t>(in, 24);
  return entry;
}

std::string KeyOf(const RecordId& id) {
  std::string key(kRecordIdBytes, '\0');
  id.Encode({reinterpret_cast<std::byte*>(key.data()), key.size()});
  return key;
}

Result<std::vector<std::string>> Catalog::Names() const {
  Status status;
  std::vector<std::string> names = database_->Keys(DbFamily::kManifests, status);
  KVBED_RETURN_IF_ERROR(status.WithContext("the snapshots can't be listed"));
  return names;
}

Result<Manifest> Catalog::Read(const std::string& name) const {
  const auto bytes = database_->Get(DbFamily::kManifests, name);
  if (!bytes.ok() && bytes.status().code() == StatusCode::kNotFound) {
    return Status::NotFound(fmt::format("there is no snapshot {}", name));
  }
  KVBED_RETURN_IF_ERROR(bytes.status());
  auto manifest = DecodeManifest(AsBytes(*bytes));
  if (!manifest.ok()) return manifest.status().WithContext(fmt::format("manifest {}", name));
  return CheckManifestIdentity(std::move(*manifest), name, uuid_, fmt::format("manifest {}", name));
}

FolderChange Catalog::Publish(const Manifest& manifest) {
  rocksdb::WriteBatch batch;
  batch.Put(database_->family(DbFamily::kManifests), manifest.name, EncodeManifest(manifest));
  return Apply(batch);
}

FolderChange Catalog::Remove(const std::string& name) {
  database_->MakeRoom();
  rocksdb::WriteBatch batch;
  batch.Delete(database_->family(DbFamily::kManifests), name);
  return Apply(batch);
}

// What was written and could not be made durable may be there after a power cut.
FolderChange Catalog::Apply(rocksdb::WriteBatch& batch) {
  FolderChange change;
  change.status = database_->Write(batch, true);
  change.settled = change.status.ok() || !database_->wal();
  if (!change.status.ok() || database_->wal()) return change;
  change.status = database_->MakeDurable({DbFamily::kManifests});
  change.settled = change.status.ok();
  return change;
}

Status Catalog::ListOrphans(const RecordIndex& index, const std::string& where,
                            Leftovers& leftovers) const {
  KVBED_ASSIGN_OR_RETURN(const std::vector<RecordId> ids, Ids());
  for (const RecordId& id : ids) {
    if (index.Find(id) != nullptr) continue;
    const auto value = database_->Get(DbFamily::kIds, KeyOf(id));
    if (!value.ok() && value.status().code() == StatusCode::kNotFound) continue;
    KVBED_RETURN_IF_ERROR(value.status());
    KVBED_ASSIGN_OR_RETURN(const IdEntry entry, DecodeIdEntry(*value));
    leftovers.Add(
        {.kind = LeftoverKind::kRecord, .path = where, .size_bytes = entry.record_bytes, .id = id});
  }
  return Status::Ok();
}

Result<std::vector<RecordId>> Catalog::Ids() const {
  Status status;
  std::vector<RecordId> ids;
  for (const std::string& key : database_->Keys(DbFamily::kIds, status)) {
    if (key.size() == kRecordIdBytes) ids.push_back(RecordId::Decode(AsBytes(key)));
  }
  KVBED_RETURN_IF_ERROR(status.WithContext("the records can't be listed"));
  return ids;
}

}  // namespace kvbed
