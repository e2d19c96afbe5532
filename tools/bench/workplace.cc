#include "tools/bench/workplace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "offload/clock.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = "bench-unfinished";
constexpr std::string_view kKeptPrefix = "bench-";
constexpr std::string_view kFolderPrefix = "bench-files-";
constexpr std::string_view kKeptFolderPrefix = "bench-kept-files-";

bool IsEmptyOrMissing(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator it(folder, error);
  return error || it == fs::directory_iterator();
}

}  // namespace

Result<std::unique_ptr<Workplace>> Workplace::Open(const NamedStore& named, uint64_t record_bytes,
                                                   bool keep) {
  auto place = std::unique_ptr<Workplace>(new Workplace(named, keep));
  const std::string& path = named.spec.path;
  if (!path.empty()) {
    place->made_folder_of_store_ = !fs::exists(path);
    place->made_store_ = IsEmptyOrMissing(path);
  }
  auto store = OpenNamed(named, StoreAccess::kCreate, record_bytes);
  if (!store.ok()) {
    place->made_store_ = place->made_folder_of_store_ = false;
    return store.status();
  }
  place->store_ = std::move(*store);
  KVBED_RETURN_IF_ERROR(place->SweepLeftovers());
  place->snapshot_ = keep ? fmt::format("{}{}", kKeptPrefix, UnixNs()) : std::string(kUnfinished);
  if (path.empty()) return place;
  std::string folder = fmt::format("{}/{}XXXXXX", path, keep ? kKeptFolderPrefix : kFolderPrefix);
  if (::mkdtemp(folder.data()) == nullptr) {
    return StatusFromErrno(errno, fmt::format("make a folder in {}", path));
  }
  place->folder_ = folder;
  return place;
}

Workplace::~Workplace() {
  std::error_code ignored;
  if (!folder_.empty() && !keep_) fs::remove_all(folder_, ignored);
  if (store_ != nullptr && !keep_ && !made_store_) RemoveSnapshots(0, snapshots_).IgnoreError();
  store_.reset();
  if (keep_ || !made_store_) return;
  for (fs::directory_iterator it(named_.spec.path, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    fs::remove_all(it->path(), ignored);
  }
  if (made_folder_of_store_) fs::remove(named_.spec.path, ignored);
}

// The store is open for writing, so nobody else works in it.
Status Workplace::SweepLeftovers() {
  KVBED_ASSIGN_OR_RETURN(const auto manifests, store_->ListManifests());
  for (const ManifestSummary& manifest : manifests) {
    if (manifest.name.starts_with(kUnfinished)) {
      KVBED_RETURN_IF_ERROR(store_->RemoveManifest(manifest.name));
    }
  }
  if (named_.spec.path.empty()) return Status::Ok();
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(named_.spec.path, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename().string().starts_with(kFolderPrefix)) stale.push_back(it->path());
  }
  for (const fs::path& folder : stale) fs::remove_all(folder, error);
  return Status::Ok();
}

std::string Workplace::SnapshotName(uint64_t number) {
  snapshots_ = std::max(snapshots_, number + 1);
  return number == 0 ? snapshot_ : fmt::format("{}-{}", snapshot_, number);
}

Status Workplace::RemoveSnapshots(uint64_t first, uint64_t count) {
  for (uint64_t number = first; number < std::min(first + count, snapshots_); ++number) {
    const Status status = store_->RemoveManifest(SnapshotName(number));
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return Status::Ok();
}

}  // namespace kvbed
