#include "tools/diff/diff_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/exit_code.h"
#include "tools/store_access.h"

namespace kvbed {
namespace {

// Records of a snapshot that are in memory at once; two sides may have them.
constexpr uint64_t kWindowBytes = uint64_t{24} << 20;

}  // namespace

bool NamesAStore(const std::string& source) {
  for (const StoreKind kind :
       {StoreKind::kSlab, StoreKind::kRocksDb, StoreKind::kFiles, StoreKind::kMemory}) {
    if (source.starts_with(std::string(StoreKindName(kind)) + ":")) return true;
  }
  return false;
}

DiffSide::DiffSide(std::string source, std::variant<DumpFile, Snapshot> from)
    : source_(std::move(source)), from_(std::move(from)) {
  if (const auto* file = std::get_if<DumpFile>(&from_)) {
    shape_ = file->dump().shape;
    tokens_ = file->dump().end_token;
    block_tokens_ = file->dump().block_tokens;
    return;
  }
  const Manifest& manifest = std::get<Snapshot>(from_).reader.manifest();
  const KvGeometry& geometry = manifest.geometry;
  shape_ = {geometry.layers, geometry.kv_heads, geometry.head_dim, KvElementOf(geometry.dtype)};
  tokens_ = manifest.cached_tokens;
  block_tokens_ = geometry.block_tokens;
}

Result<DiffSide> DiffSide::Open(const std::string& source, const DumpOptions& dump,
                                StoreOptions store, bool& manifest_damage) {
  if (!NamesAStore(source)) {
    KVBED_ASSIGN_OR_RETURN(DumpFile file, DumpFile::Open(source, dump));
    return DiffSide(source, std::move(file));
  }
  store.spec = source;
  KVBED_ASSIGN_OR_RETURN(SnapshotStore opened, OpenSnapshotStore(store));
  auto manifest = ReadSnapshot(*opened.store, opened.snapshot);
  if (!manifest.ok()) {
    manifest_damage = ExitCodeForSnapshot(manifest.status()) == kExitFailedCheck;
    return manifest.status().WithContext("snapshot " + opened.snapshot);
  }
  KVBED_ASSIGN_OR_RETURN(
      SnapshotReader reader,
      SnapshotReader::Open(std::move(opened), std::move(manifest).value(), kWindowBytes));
  return DiffSide(source, Snapshot{std::move(reader), {}, {}});
}

const DumpDescription* DiffSide::description() const {
  const auto* file = std::get_if<DumpFile>(&from_);
  return file == nullptr ? nullptr : &file->description();
}

const Manifest* DiffSide::manifest() const {
  const auto* snapshot = std::get_if<Snapshot>(&from_);
  return snapshot == nullptr ? nullptr : &snapshot->reader.manifest();
}

Result<const KvDump*> DiffSide::At(uint64_t token) {
  if (const auto* file = std::get_if<DumpFile>(&from_)) return &file->dump();
  Snapshot& snapshot = std::get<Snapshot>(from_);
  const KvDump& window = snapshot.window;
  if (token < window.first_token || token >= window.end_token) {
    KVBED_RETURN_IF_ERROR(ReadWindow(snapshot, token));
  }
  return &snapshot.window;
}

// The records lie one behind the other, so that they are a paged cache whose blocks are records.
Status DiffSide::ReadWindow(Snapshot& snapshot, uint64_t token) {
  const Manifest& manifest = snapshot.reader.manifest();
  const KvGeometry& geometry = manifest.geometry;
  const uint64_t block = token / geometry.block_tokens;
  KvDump& window = snapshot.window;
  window.end_token = window.first_token;
  KVBED_ASSIGN_OR_RETURN(const std::vector<ReadRecord> records, snapshot.reader.ReadFrom(block));
  for (const ReadRecord& record : records) {
    if (!record.finding) continue;
    finding_ = record.finding;
    return Status::Corruption(fmt::format("{}: block {} failed a check", source_, record.block));
  }
  const Bytes first = records[0].bytes;
  const Bytes all(first.data(), records.size() * geometry.record_bytes());
  window.shape = shape_;
  window.first_token = block * geometry.block_tokens;
  window.end_token =
      std::min<uint64_t>(tokens_, window.first_token + records.size() * geometry.block_tokens);
  window.strides = {.head = geometry.head_bytes(),
                    .token = geometry.head_dim * geometry.element_bytes(),
                    .block = geometry.record_bytes(),
                    .dim = geometry.element_bytes()};
  window.parts.clear();
  for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
    for (const KvPart part : {KvPart::kK, KvPart::kV}) {
      window.parts.push_back(all.subspan(kPageBytes + geometry.PartOffset(layer, part)));
    }
  }
  snapshot.block_table.resize(records.size());
  for (size_t i = 0; i < records.size(); ++i) snapshot.block_table[i] = i;
  window.block_tokens = geometry.block_tokens;
  window.block_table = snapshot.block_table;
  return Status::Ok();
}

}  // namespace kvbed
