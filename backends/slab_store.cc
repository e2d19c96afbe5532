#include "backends/slab_store.h"

#include <utility>

#include "backends/slab_store_with.h"

namespace kvbed {
namespace {

// Manifests are files of a folder, and the index is the store's own.
class FolderKeeper {
 public:
  FolderKeeper(Io& io, const StoreFolder& folder)
      : manifests_(io, folder.contents_path(), folder.uuid()) {}

  Result<std::vector<std::string>> Names() { return manifests_.List(); }
  Result<Manifest> Read(const std::string& name) { return manifests_.Read(name); }
  FolderChange Publish(const Manifest& manifest, CommitMode mode) {
    return manifests_.Publish(
        manifest, mode == CommitMode::kNew ? RenameMode::kNoReplace : RenameMode::kReplace);
  }
  FolderChange Remove(const std::string& name) { return manifests_.Remove(name); }

  Status KeepOnly(const RecordIndex&) { return Status::Ok(); }
  Status Ready() { return Status::Ok(); }
  void NotePut(const RecordId&, const IndexEntry&) {}
  void NoteFreed(const std::vector<FreedRecord>&) {}
  Status MakePutsDurable() { return Status::Ok(); }
  std::vector<Result<uint64_t>> FindPlaces(std::span<StoreRequest* const>) { return {}; }
  Status ListLeftovers(Io& io, const StoreFolder& folder, Leftovers& leftovers) {
    return ListFolderLeftovers(io, folder.contents_path(), IsManifestEntry, leftovers);
  }
  void Describe(StoreInfo&) {}

 private:
  ManifestFolder manifests_;
};

}  // namespace

Result<std::unique_ptr<BlockStore>> OpenSlabStore(std::unique_ptr<Io> io,
                                                  const SlabStoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(StoreFolder folder,
                         StoreFolder::Open(*io, options.path, {.name = "slab"}, options.access));
  KVBED_ASSIGN_OR_RETURN(DirectSupport direct,
                         FindDirectSupport(*io, folder.path(), options.settings.direct,
                                           options.access != StoreAccess::kRead));
  auto keeper = std::make_unique<FolderKeeper>(*io, folder);
  auto store = std::make_unique<SlabStoreWith<FolderKeeper>>(
      std::move(io), options, std::move(folder), std::move(direct), std::move(keeper));
  KVBED_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace kvbed
