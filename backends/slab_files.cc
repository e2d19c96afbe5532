#include "backends/slab_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "backends/disk_space.h"
#include "offload/aligned_buffer.h"
#include "offload/bytes.h"

namespace kvbed {
namespace {

constexpr std::string_view kSlabPrefix = "slab-";
constexpr std::string_view kSlabSuffix = ".dat";
constexpr uint64_t kExtentBytesMin = uint64_t{16} << 20;
constexpr uint64_t kExtentBytesDoubling = uint64_t{256} << 20;

}  // namespace

std::optional<uint64_t> SlabRecordBytes(std::string_view name) {
  if (!name.starts_with(kSlabPrefix) || !name.ends_with(kSlabSuffix)) return std::nullopt;
  uint64_t record_bytes = 0;
  const char* const begin = name.data() + kSlabPrefix.size();
  const char* const end = name.data() + name.size() - kSlabSuffix.size();
  if (begin > end) return std::nullopt;
  const auto parsed = std::from_chars(begin, end, record_bytes);
  const bool valid = parsed.ec == std::errc() && parsed.ptr == end && record_bytes > kPageBytes &&
                     record_bytes % kPageBytes == 0 && SlabFileName(record_bytes) == name;
  return valid ? std::optional(record_bytes) : std::nullopt;
}

std::string SlabFileName(uint64_t record_bytes) {
  return fmt::format("{}{}{}", kSlabPrefix, record_bytes, kSlabSuffix);
}

uint64_t ExtentBytes(uint64_t size_bytes, uint64_t record_bytes) {
  const uint64_t most = std::max(kExtentBytesDoubling, size_bytes / 8);
  const uint64_t bytes = std::clamp(size_bytes, kExtentBytesMin, most);
  return std::max(bytes / record_bytes, uint64_t{1}) * record_bytes;
}

SlabFile& SlabFiles::Expect(uint64_t record_bytes) {
  SlabFile& slab = slabs_[record_bytes];
  if (slab.path.empty()) {
    slab.path = options_.directory + "/" + SlabFileName(record_bytes);
    slab.record_bytes = record_bytes;
    slab.open_status = Status::NotFound(fmt::format("{} is missing", slab.path));
  }
  return slab;
}

Status SlabFiles::OpenAll() {
  KVBED_ASSIGN_OR_RETURN(const auto entries, io_->List(options_.directory));
  for (const DirectoryEntry& entry : entries) {
    const auto record_bytes = SlabRecordBytes(entry.name);
    if (!record_bytes) continue;
    SlabFile& slab = Expect(*record_bytes);
    if (entry.is_directory) {
      slab.open_status =
          Status::IoError(fmt::format("{} is a folder, where a file has to be", slab.path));
      continue;
    }
    auto file = io_->Open(slab.path, {.write = options_.write, .direct = options_.direct});
    if (!file.ok()) {
      // Other record sizes stay usable.
      slab.open_status = file.status();
      continue;
    }
    KVBED_ASSIGN_OR_RETURN(const uint64_t size_bytes, io_->FileSize(*file));
    // A reservation has blocks. What is a hole at the end is no room: counting its slots would take
    // memory by a length that costs nothing to write.
    slab.size_bytes = std::min(size_bytes, RoundUp(AllocatedBytes(slab.path), slab.record_bytes));
    slab.file = std::move(*file);
    slab.open_status = Status::Ok();
    slab.slots.Grow(slab.size_bytes / slab.record_bytes);
    // Direct writes of a process that was killed may still be on their way to slots that are free
    // now. A reservation waits for them (ext4_fallocate: "Wait all existing dio workers"); it
    // changes nothing, so that where it fails nothing is lost.
    if (options_.write) io_->Preallocate(slab.file, slab.size_bytes).IgnoreError();
  }
  return Status::Ok();
}

SlabFile* SlabFiles::Find(uint64_t record_bytes) {
  const auto found = slabs_.find(record_bytes);
  return found == slabs_.end() ? nullptr : &found->second;
}

Result<SlabFile*> SlabFiles::ForWriting(uint64_t record_bytes) {
  SlabFile& slab = Expect(record_bytes);
  if (slab.file.is_open()) return &slab;
  if (slab.open_status.code() != StatusCode::kNotFound) return slab.open_status;
  KVBED_ASSIGN_OR_RETURN(
      File file, io_->Open(slab.path, {.write = true, .create = true, .direct = options_.direct}));
  if (Status synced = io_->SyncDirectory(options_.directory); !synced.ok()) {
    name_sync_failed_ = true;
    return synced;
  }
  slab.file = std::move(file);
  slab.open_status = Status::Ok();
  return &slab;
}

Result<uint64_t> SlabFiles::TakeSlot(SlabFile& slab) {
  if (const auto slot = slab.slots.Take()) return *slot;
  // Growing may only bring slots that manifests name already, when the file had been cut.
  while (slab.slots.free_slots() == 0) KVBED_RETURN_IF_ERROR(Grow(slab));
  return *slab.slots.Take();
}

uint64_t SlabFiles::SizeBytes() const {
  uint64_t bytes = 0;
  for (const auto& [record_bytes, slab] : slabs_) bytes += slab.size_bytes;
  return bytes;
}

uint64_t SlabFiles::GrowableBytes() const {
  const uint64_t size_bytes = SizeBytes();
  const auto available = AvailableBytes(options_.directory);
  const uint64_t available_bytes = available.ok() ? *available : 0;
  if (options_.capacity_bytes == 0) {
    return available_bytes - std::min(available_bytes, ReserveBytes(options_.directory));
  }
  const uint64_t below_capacity =
      options_.capacity_bytes - std::min(options_.capacity_bytes, size_bytes);
  return std::min(below_capacity, available_bytes);
}

uint64_t SlabFiles::FreeBytes() const {
  uint64_t bytes = GrowableBytes();
  for (const auto& [record_bytes, slab] : slabs_) bytes += slab.slots.free_slots() * record_bytes;
  return bytes;
}

uint64_t SlabFiles::CapacityBytes() const {
  return options_.capacity_bytes != 0 ? options_.capacity_bytes : SizeBytes() + GrowableBytes();
}

Status SlabFiles::Grow(SlabFile& slab) {
  const uint64_t growable_bytes = GrowableBytes();
  uint64_t grow_bytes = ExtentBytes(slab.size_bytes, slab.record_bytes);
  grow_bytes = std::min(grow_bytes, growable_bytes / slab.record_bytes * slab.record_bytes);
  Status status;
  while (grow_bytes > 0) {
    const uint64_t size_bytes =
        slab.size_bytes / slab.record_bytes * slab.record_bytes + grow_bytes;
    status = io_->Preallocate(slab.file, size_bytes);
    if (status.ok()) {
      slab.size_bytes = size_bytes;
      slab.slots.Grow(size_bytes / slab.record_bytes);
      return status;
    }
    if (status.code() != StatusCode::kOutOfSpace) return status;
    grow_bytes = grow_bytes / slab.record_bytes / 2 * slab.record_bytes;
  }
  return NoSpace(slab, status);
}

void SlabFiles::WithholdUnnamedSlots() {
  for (auto& [record_bytes, slab] : slabs_) slab.slots.WithholdBelow(slab.slots.slots());
}

void SlabFiles::StopWithholding() {
  for (auto& [record_bytes, slab] : slabs_) slab.slots.StopWithholding();
}

Status SlabFiles::NoSpace(const SlabFile& slab, const Status& cause) const {
  const auto available = AvailableBytes(options_.directory);
  const uint64_t available_bytes = available.ok() ? *available : 0;
  std::string message = fmt::format(
      "{} has no free slot and can't grow by {} bytes: the filesystem has {} bytes "
      "free, ",
      slab.path, slab.record_bytes, available_bytes);
  if (options_.capacity_bytes != 0) {
    message += fmt::format("the store has {} bytes and a capacity of {}", SizeBytes(),
                           options_.capacity_bytes);
  } else {
    message += fmt::format("{} are kept in reserve (capacity= in the store's spec overrides it)",
                           ReserveBytes(options_.directory));
  }
  if (!cause.ok()) message += fmt::format("; {}", cause.message());
  return Status::OutOfSpace(std::move(message));
}

}  // namespace kvbed
