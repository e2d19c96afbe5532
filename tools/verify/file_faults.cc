// Faults of a store's files at rest, done by hand between close and reopen: bits flipped, records
// swapped, files cut, grown, removed, replaced, without permission, manifests with any byte
// changed.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tools/interrupt.h"
#include "tools/store_access.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/fault_tally.h"
#include "tools/verify/file_damage.h"
#include "tools/verify/own_stores.h"
#include "tools/verify/seeded_kv.h"
#include "tools/verify/snapshot_trial.h"

namespace kvbed {
namespace {

enum class FileFault {
  kFlipHeader,
  kFlipPayload,
  kFlipPadding,
  kZeroSector,
  kZeroRecord,
  kShift,
  kSwap,
  kDuplicate,
  kStaleGeneration,
  kTruncateInRecord,
  kTruncateAnywhere,
  kGrow,
  kRemove,
  kReplaceByNoise,
  kReplaceByNothing,
  kReplaceByFolder,
  kLosePermission,
  kManifestByte,
  kAnyByte,
};

struct NamedFileFault {
  std::string_view name;
  FileFault fault;
  bool changes_records = false;  // it must show in an unverified restore
  uint64_t rounds = 8;           // in minutes
};

constexpr NamedFileFault kFileFaults[] = {
    {"bit_flip_header", FileFault::kFlipHeader, true},
    {"bit_flip_payload", FileFault::kFlipPayload, true},
    {"bit_flip_padding", FileFault::kFlipPadding, true},
    {"zeroed_sector", FileFault::kZeroSector},
    {"zeroed_record", FileFault::kZeroRecord, true},
    {"shifted_record", FileFault::kShift, true},
    {"swapped_records", FileFault::kSwap, true},
    {"duplicated_record", FileFault::kDuplicate, true},
    {"stale_generation", FileFault::kStaleGeneration, true},
    {"truncated_in_record", FileFault::kTruncateInRecord, true},
    {"truncated_anywhere", FileFault::kTruncateAnywhere},
    {"grown", FileFault::kGrow},
    {"removed", FileFault::kRemove},
    {"replaced_by_noise", FileFault::kReplaceByNoise},
    {"replaced_by_nothing", FileFault::kReplaceByNothing},
    {"replaced_by_folder", FileFault::kReplaceByFolder},
    {"permission_lost", FileFault::kLosePermission},
    {"manifest_byte", FileFault::kManifestByte, false, 0},  // each of them
    {"any_byte", FileFault::kAnyByte, false, 40},
};

class FileCase {
 public:
  FileCase(const OwnStore& store, const NamedFileFault& fault, std::string folder,
           CaseResult& result)
      : store_(store),
        fault_(fault),
        folder_(std::move(folder)),
        result_(result),
        tally_(result),
        random_(result.seed) {}

  Status Run(uint64_t times) {
    KVBED_RETURN_IF_ERROR(MakeStore());
    uint64_t rounds = fault_.rounds * times;
    if (fault_.fault == FileFault::kManifestByte) {
      KVBED_RETURN_IF_ERROR(FindManifest());
      // Every byte where the manifest is a file; RocksDB's block is checked as a whole.
      rounds = store_.kind == StoreKind::kRocksDb ? std::min<uint64_t>(manifest_bytes_, 60 * times)
                                                  : manifest_bytes_;
    }
    for (uint64_t round = 0; round < rounds && Goes(); ++round) {
      KVBED_RETURN_IF_ERROR(Round(round));
    }
    if (Interrupted()) return InterruptedStatus();
    if (result_.status == CaseStatus::kSkip) return Status::Ok();
    tally_.End();
    // The damage was all that was found: undone, there is none.
    const GotSnapshot got = Restored(true);
    if (!got.whole())
      tally_.Fail("with all damage undone the snapshot is not whole: " + got.Text());
    return Status::Ok();
  }

 private:
  bool Goes() const {
    return !tally_.failed() && result_.status != CaseStatus::kSkip && !Interrupted();
  }
  void Skip(std::string reason) {
    result_.status = CaseStatus::kSkip;
    result_.reason = std::move(reason);
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  std::string StoreFolder() const { return folder_ + "/store"; }

  Result<std::unique_ptr<BlockStore>> Open(StoreAccess access) {
    return OpenOver(quiet_, SpecOf(store_, StoreFolder()), access);
  }

  // A snapshot of a sequence, and of the same one grown, which is the one that is restored.
  Status MakeStore() {
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store, Open(StoreAccess::kCreate));
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, random_() | 1, kTrialGrownTokens));
    KVBED_ASSIGN_OR_RETURN(const PutSnapshot older, PutSeeded(*store, kv, {.name = "older"}));
    KVBED_ASSIGN_OR_RETURN(newer_,
                           PutSeeded(*store, kv, {.name = "newer", .tokens = kTrialGrownTokens}));
    for (const ManifestBlock& block : newer_.manifest.blocks) {
      KVBED_ASSIGN_OR_RETURN(RecordLocation at, store->Locate(block.id, block.place));
      blocks_.push_back(std::move(at));
    }
    const ManifestBlock& tail = older.manifest.blocks.back();
    KVBED_ASSIGN_OR_RETURN(older_tail_, store->Locate(tail.id, tail.place));
    tail_ = older.manifest.blocks.size() - 1;
    return Status::Ok();
  }

  // Where the manifest's bytes are: a file of its own, or inside one of RocksDB's.
  Status FindManifest() {
    for (const std::string& path : FilesBelow(StoreFolder())) {
      KVBED_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(path, 0, SizeOfFile(path)));
      if (path.ends_with("/newer")) {
        manifest_path_ = path;
        manifest_at_ = 0;
        manifest_bytes_ = bytes.size();
        return Status::Ok();
      }
      const std::string encoded = EncodeManifest(newer_.manifest);
      if (const size_t at = bytes.find(encoded); at != std::string::npos) {
        manifest_path_ = path;
        manifest_at_ = at;
        manifest_bytes_ = encoded.size();
      }
    }
    if (manifest_bytes_ == 0) Skip("the manifest is in no file as it is");
    return Status::Ok();
  }

  GotSnapshot Restored(bool verify) {
    GotSnapshot got;
    const auto store = Open(StoreAccess::kRead);
    if (store.ok()) return GetSeeded(**store, newer_, {.verify = verify});
    got.status = store.status();
    return got;
  }

  Status Round(uint64_t round) {
    if (fault_.fault == FileFault::kLosePermission) return LosePermission();
    FileDamage damage(folder_);
    KVBED_RETURN_IF_ERROR(Do(damage, round));
    if (result_.status == CaseStatus::kSkip) return Status::Ok();
    const GotSnapshot got = Restored(true);
    const GotSnapshot canary = Restored(false);
    KVBED_RETURN_IF_ERROR(damage.Undo());
    const bool manifest_file =
        fault_.fault == FileFault::kManifestByte && store_.kind != StoreKind::kRocksDb;
    if ((fault_.changes_records || manifest_file) && canary.whole()) {
      tally_.Fail("unverified, the damage changes nothing: it was not done");
      return Status::Ok();
    }
    const bool flips = fault_.fault == FileFault::kFlipHeader ||
                       fault_.fault == FileFault::kFlipPayload ||
                       fault_.fault == FileFault::kFlipPadding;
    if (const std::string why = WhyFindingIsWrong(got, canary); flips && !why.empty()) {
      tally_.Undetected(0, why);
      return Status::Ok();
    }
    if (fault_.fault == FileFault::kStaleGeneration && !IsFoundAsGeneration(got)) {
      tally_.Undetected(0, "it should be found as an older generation: " + got.Text());
      return Status::Ok();
    }
    // Damage beside what is read is harmless, and then the right bytes must come.
    tally_.Judge(got, canary.whole(), true);
    return Status::Ok();
  }

  // RocksDB's own check comes first.
  bool IsFoundAsGeneration(const GotSnapshot& got) const {
    if (got.report.findings.empty()) return false;
    const Check check = got.report.findings.front().check;
    return check == Check::kGeneration || check == Check::kStore;
  }

  Status LosePermission() {
    const std::vector<std::string> files = FilesBelow(StoreFolder());
    const std::string& path = files[Below(files.size())];
    GotSnapshot got;
    {
      const auto lost = LostPermission::Take(StoreFolder(), path);
      if (!lost.ok()) {
        Skip(lost.status().message());
        return Status::Ok();
      }
      got = Restored(true);
    }
    // A file that a restore doesn't open is no loss.
    tally_.Judge(got, true, true);
    return Status::Ok();
  }

  Result<std::string> RecordAt(const RecordLocation& at) const {
    return ReadBytes(at.path, at.offset, at.size_bytes);
  }
  std::string Noise(uint64_t size_bytes) {
    std::string noise(size_bytes, '\0');
    for (char& byte : noise) byte = static_cast<char>(random_());
    return noise;
  }
  const RecordLocation& AnyBlock() { return blocks_[Below(blocks_.size())]; }

  Status FlipIn(FileDamage& damage, RecordPart part) {
    const RecordLocation& at = AnyBlock();
    return damage.FlipBit(at.path, at.offset + ChooseByte(part, random_),
                          static_cast<uint32_t>(Below(8)));
  }

  // Two different blocks.
  std::pair<const RecordLocation*, const RecordLocation*> TwoBlocks() {
    const uint64_t one = Below(blocks_.size());
    const uint64_t other = (one + 1 + Below(blocks_.size() - 1)) % blocks_.size();
    return {&blocks_[one], &blocks_[other]};
  }

  // A file with bytes in it. A lock file has none.
  std::string AnyFile() {
    std::vector<std::string> files;
    for (const std::string& path : FilesBelow(StoreFolder())) {
      if (SizeOfFile(path) > 0) files.push_back(path);
    }
    return files[Below(files.size())];
  }

  Status Do(FileDamage& damage, uint64_t round) {
    switch (fault_.fault) {
      case FileFault::kFlipHeader: return FlipIn(damage, RecordPart::kHeader);
      case FileFault::kFlipPayload: return FlipIn(damage, RecordPart::kPayload);
      case FileFault::kFlipPadding: return FlipIn(damage, RecordPart::kPadding);
      case FileFault::kZeroSector: {
        const RecordLocation& at = AnyBlock();
        const uint64_t sector = Below(at.size_bytes / kSectorBytes);
        return damage.Overwrite(at.path, at.offset + sector * kSectorBytes,
                                std::string(kSectorBytes, '\0'));
      }
      case FileFault::kZeroRecord: {
        const RecordLocation& at = AnyBlock();
        return damage.Overwrite(at.path, at.offset, std::string(at.size_bytes, '\0'));
      }
      case FileFault::kShift: {
        const RecordLocation& at = AnyBlock();
        KVBED_ASSIGN_OR_RETURN(const std::string record, RecordAt(at));
        const uint64_t shift = kSectorBytes * (1 + Below(8));
        return damage.Overwrite(at.path, at.offset,
                                std::string(shift, '\0') + record.substr(0, record.size() - shift));
      }
      case FileFault::kSwap:
      case FileFault::kDuplicate: {
        const auto [one, other] = TwoBlocks();
        KVBED_ASSIGN_OR_RETURN(const std::string first, RecordAt(*one));
        KVBED_ASSIGN_OR_RETURN(const std::string second, RecordAt(*other));
        KVBED_RETURN_IF_ERROR(damage.Overwrite(other->path, other->offset, first));
        if (fault_.fault == FileFault::kDuplicate) return Status::Ok();
        return damage.Overwrite(one->path, one->offset, second);
      }
      case FileFault::kStaleGeneration: {
        KVBED_ASSIGN_OR_RETURN(const std::string older, RecordAt(older_tail_));
        return damage.Overwrite(blocks_[tail_].path, blocks_[tail_].offset, older);
      }
      case FileFault::kTruncateInRecord: {
        const RecordLocation& at = AnyBlock();
        return damage.Truncate(at.path, at.offset + Below(at.size_bytes));
      }
      case FileFault::kTruncateAnywhere: {
        const std::string path = AnyFile();
        return damage.Truncate(path, Below(SizeOfFile(path)));
      }
      case FileFault::kGrow: return damage.Append(AnyFile(), Noise(1 + Below(8192)));
      case FileFault::kRemove: return damage.Remove(FileOf(round));
      case FileFault::kReplaceByNoise: {
        const std::string path = FileOf(round);
        return damage.ReplaceByFile(path, Noise(std::min<uint64_t>(SizeOfFile(path), 64 << 10)));
      }
      case FileFault::kReplaceByNothing: return damage.ReplaceByFile(FileOf(round), "");
      case FileFault::kReplaceByFolder: return damage.ReplaceByFolder(FileOf(round));
      case FileFault::kManifestByte: {
        const uint64_t step = std::max<uint64_t>(1, manifest_bytes_ / 60);
        const uint64_t byte =
            store_.kind == StoreKind::kRocksDb ? round * step % manifest_bytes_ : round;
        KVBED_ASSIGN_OR_RETURN(std::string old, ReadBytes(manifest_path_, manifest_at_ + byte, 1));
        old[0] = static_cast<char>(old[0] ^ static_cast<char>(1 + Below(255)));
        return damage.Overwrite(manifest_path_, manifest_at_ + byte, old);
      }
      case FileFault::kAnyByte: {
        const std::string path = AnyFile();
        return damage.FlipBit(path, Below(SizeOfFile(path)), static_cast<uint32_t>(Below(8)));
      }
      case FileFault::kLosePermission: break;
    }
    return Status::Ok();
  }

  // Each file in turn.
  std::string FileOf(uint64_t round) const {
    const std::vector<std::string> files = FilesBelow(StoreFolder());
    return files[round % files.size()];
  }

  const OwnStore& store_;
  const NamedFileFault& fault_;
  const std::string folder_;
  CaseResult& result_;
  FaultTally tally_;
  std::mt19937_64 random_;
  FaultDevice quiet_{{}, kModelled};
  PutSnapshot newer_;
  std::vector<RecordLocation> blocks_;  // of newer
  RecordLocation older_tail_;
  size_t tail_ = 0;  // the block that both snapshots have in different states
  std::string manifest_path_;
  uint64_t manifest_at_ = 0;
  uint64_t manifest_bytes_ = 0;
};

}  // namespace

Status RunFileFaults(const CampaignOptions& options, CaseLog& log) {
  const uint64_t times = options.profile == VerifyProfile::kFull ? 10 : 1;
  for (const OwnStore& store : OwnStores()) {
    if (store.kind == StoreKind::kMemory || store.wal) continue;
    for (const NamedFileFault& fault : kFileFaults) {
      const std::string name = fmt::format("fault/file/{}/{}", store.name, fault.name);
      if (log.stopped()) return InterruptedStatus();
      if (!log.Wants(name)) continue;
      CaseResult result = log.Start(name, CaseKind::kFault);
      KVBED_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                             TemporaryFolder::CreateIn(options.work_folder));
      KVBED_RETURN_IF_ERROR(
          TakeStatus(result, FileCase(store, fault, folder.path(), result).Run(times)));
      log.Finish(std::move(result));
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
