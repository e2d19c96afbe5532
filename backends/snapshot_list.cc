#include "backends/snapshot_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/record_index.h"

namespace kvbed {

ManifestSummary SummaryOf(const Manifest& manifest) {
  return {.name = manifest.name,
          .created_ns = manifest.created_ns,
          .cached_tokens = manifest.cached_tokens,
          .blocks = manifest.blocks.size(),
          .stored_bytes = manifest.stored_bytes(),
          .model_name = manifest.model_name,
          .status = Status::Ok()};
}

Status SnapshotList::Load(const ManifestFolder& folder,
                          const std::function<Status(const Manifest&)>& add) {
  KVBED_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder.List());
  Load(
      names, [&](const std::string& name) { return folder.Read(name); }, add);
  return Status::Ok();
}

void SnapshotList::Load(const std::vector<std::string>& names,
                        const std::function<Result<Manifest>(const std::string&)>& read,
                        const std::function<Status(const Manifest&)>& add) {
  std::vector<Manifest> manifests;
  const auto keep_unreadable = [this](const std::string& name, const Status& why) {
    Snapshot& snapshot = snapshots_[name];
    snapshot.summary.name = name;
    snapshot.summary.status = why;
  };
  for (const std::string& name : names) {
    auto manifest = read(name);
    if (manifest.ok()) {
      manifest->token_ids = {};
      manifests.push_back(std::move(*manifest));
    } else {
      keep_unreadable(name, manifest.status());
    }
  }
  std::stable_sort(manifests.begin(), manifests.end(), [](const Manifest& a, const Manifest& b) {
    return a.created_ns > b.created_ns;
  });
  for (const Manifest& manifest : manifests) {
    if (Status added = add(manifest); added.ok()) {
      Put(manifest);
    } else {
      keep_unreadable(manifest.name, added);
    }
  }
}

Status SnapshotList::CheckName(const std::string& name, CommitMode mode) const {
  if (!snapshots_.contains(name)) return Status::Ok();
  if (mode == CommitMode::kReplace) return CheckRemovable(name);
  return Status::InvalidArgument(
      fmt::format("a snapshot named {} is there already: replace it or choose another name", name));
}

Status SnapshotList::CheckRemovable(const std::string& name) const {
  const Status status = CheckReadable(name);
  if (status.ok() || status.code() == StatusCode::kCorruption ||
      status.code() == StatusCode::kNotFound) {
    return snapshots_.contains(name) ? Status::Ok() : status;
  }
  return {status.code(),
          fmt::format("snapshot {} may be whole for another kvbed and is left as it is: {}", name,
                      status.message())};
}

Status SnapshotList::CheckReadable(const std::string& name) const {
  const auto found = snapshots_.find(name);
  if (found != snapshots_.end()) return found->second.summary.status;
  return Status::NotFound(fmt::format("there is no snapshot named {}", name));
}

bool SnapshotList::Has(const Manifest& manifest) const {
  const auto found = snapshots_.find(manifest.name);
  return found != snapshots_.end() && found->second.summary.status.ok() &&
         found->second.summary.created_ns == manifest.created_ns &&
         found->second.ids == IdsOf(manifest);
}

std::vector<RecordId> SnapshotList::Put(const Manifest& manifest) {
  Snapshot& snapshot = snapshots_[manifest.name];
  snapshot.summary = SummaryOf(manifest);
  return std::exchange(snapshot.ids, IdsOf(manifest));
}

std::vector<RecordId> SnapshotList::Remove(const std::string& name) {
  const auto found = snapshots_.find(name);
  std::vector<RecordId> ids = std::move(found->second.ids);
  snapshots_.erase(found);
  return ids;
}

bool SnapshotList::HasUnreadable() const {
  return std::any_of(snapshots_.begin(), snapshots_.end(),
                     [](const auto& snapshot) { return !snapshot.second.summary.status.ok(); });
}

std::vector<ManifestSummary> SnapshotList::Summaries() const {
  std::vector<ManifestSummary> summaries;
  for (const auto& [name, snapshot] : snapshots_) summaries.push_back(snapshot.summary);
  return summaries;
}

}  // namespace kvbed
