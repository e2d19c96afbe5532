// Faults at the seam to the operating system's files, below slab, files and RocksDB: each strikes
// one operation of a snapshot or of a restore, and must be repaired by trying again, or be found.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/fault_device.h"
#include "offload/record_layout.h"
#include "tools/interrupt.h"
#include "tools/store_access.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/fault_tally.h"
#include "tools/verify/own_stores.h"
#include "tools/verify/seeded_kv.h"
#include "tools/verify/snapshot_trial.h"

namespace kvbed {
namespace {

// Of a record's id: all but the generation.
constexpr size_t kRecordKeyBytes = kRecordIdBytes - sizeof(uint64_t);

enum class Aim {
  kAny,      // any operation of the fault's target
  kRecord,   // one that moves a record
  kHeader,   // a byte of a record's header page
  kPayload,  // of its payload
  kPadding,  // of its padding
};

enum class Outcome {
  kRepaired,  // the right bytes, or the case fails
  kEither,    // the right bytes, an error, or nothing; what was committed stays whole
  kLies,      // the device says that all went well: what it damaged must be found
};

struct SeamFault {
  std::string_view name;
  FaultKind kind;
  FaultTarget target;
  Aim aim = Aim::kAny;
  Outcome outcome = Outcome::kEither;
  bool endless = false;  // every operation from the one that is chosen on
};

constexpr SeamFault kReadFaults[] = {
    {"bit_flip_header", FaultKind::kBitFlip, FaultTarget::kRead, Aim::kHeader, Outcome::kLies},
    {"bit_flip_payload", FaultKind::kBitFlip, FaultTarget::kRead, Aim::kPayload, Outcome::kLies},
    {"bit_flip_padding", FaultKind::kBitFlip, FaultTarget::kRead, Aim::kPadding, Outcome::kLies},
    {"bit_flip", FaultKind::kBitFlip, FaultTarget::kRead, Aim::kAny, Outcome::kLies},
    {"short_read", FaultKind::kShortTransfer, FaultTarget::kRead, Aim::kAny, Outcome::kRepaired},
    {"misdirected_read", FaultKind::kMisdirectedRead, FaultTarget::kRead, Aim::kRecord,
     Outcome::kLies},
    {"eio", FaultKind::kEio, FaultTarget::kRead},
    {"eagain", FaultKind::kEagain, FaultTarget::kRead, Aim::kAny, Outcome::kRepaired},
    {"eintr", FaultKind::kEintr, FaultTarget::kRead, Aim::kAny, Outcome::kRepaired},
    {"endless_eagain", FaultKind::kEagain, FaultTarget::kRead, Aim::kAny, Outcome::kEither, true},
    {"delay", FaultKind::kDelay, FaultTarget::kRead, Aim::kAny, Outcome::kRepaired},
    {"open_eio", FaultKind::kEio, FaultTarget::kOpen},
};

constexpr SeamFault kWriteFaults[] = {
    {"bit_flip_header", FaultKind::kBitFlip, FaultTarget::kWrite, Aim::kHeader, Outcome::kLies},
    {"bit_flip_payload", FaultKind::kBitFlip, FaultTarget::kWrite, Aim::kPayload, Outcome::kLies},
    {"bit_flip_padding", FaultKind::kBitFlip, FaultTarget::kWrite, Aim::kPadding, Outcome::kLies},
    {"bit_flip", FaultKind::kBitFlip, FaultTarget::kWrite, Aim::kAny, Outcome::kLies},
    {"short_write", FaultKind::kShortTransfer, FaultTarget::kWrite, Aim::kAny, Outcome::kRepaired},
    {"torn_write", FaultKind::kTornWrite, FaultTarget::kWrite, Aim::kRecord, Outcome::kLies},
    {"misdirected_write", FaultKind::kMisdirectedWrite, FaultTarget::kWrite, Aim::kRecord,
     Outcome::kLies},
    {"stale_record", FaultKind::kStaleRecord, FaultTarget::kWrite, Aim::kRecord, Outcome::kLies},
    {"eio", FaultKind::kEio, FaultTarget::kWrite},
    {"enospc", FaultKind::kEnospc, FaultTarget::kWrite},
    {"eagain", FaultKind::kEagain, FaultTarget::kWrite, Aim::kAny, Outcome::kRepaired},
    {"eintr", FaultKind::kEintr, FaultTarget::kWrite, Aim::kAny, Outcome::kRepaired},
    {"endless_eagain", FaultKind::kEagain, FaultTarget::kWrite, Aim::kAny, Outcome::kEither, true},
    {"delay", FaultKind::kDelay, FaultTarget::kWrite, Aim::kAny, Outcome::kRepaired},
    {"failed_sync", FaultKind::kFailedSync, FaultTarget::kSync},
    {"sync_delay", FaultKind::kDelay, FaultTarget::kSync, Aim::kAny, Outcome::kRepaired},
    {"open_eio", FaultKind::kEio, FaultTarget::kOpen},
    {"rename_eio", FaultKind::kEio, FaultTarget::kRename},
    {"unlink_eio", FaultKind::kEio, FaultTarget::kUnlink},
    {"allocate_enospc", FaultKind::kEnospc, FaultTarget::kAllocate},
    {"lost_writes", FaultKind::kLostWrites, FaultTarget::kAny},
    {"reordered_writes", FaultKind::kReorderedWrites, FaultTarget::kAny},
};

RecordPart PartOf(Aim aim) {
  switch (aim) {
    case Aim::kHeader: return RecordPart::kHeader;
    case Aim::kPayload: return RecordPart::kPayload;
    case Aim::kPadding: return RecordPart::kPadding;
    default: return RecordPart::kAny;
  }
}

bool IsPowerCut(FaultKind kind) {
  return kind == FaultKind::kLostWrites || kind == FaultKind::kReorderedWrites;
}

// A transfer, or another operation that a fault may strike, as the device logged it.
struct LoggedOp {
  FaultTarget target = FaultTarget::kAny;
  std::string file;
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

std::optional<LoggedOp> ParseOp(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string_view verb = std::string_view(line).substr(0, space);
  constexpr std::array<std::pair<std::string_view, FaultTarget>, 11> kVerbs{{
      {"read", FaultTarget::kRead},
      {"write", FaultTarget::kWrite},
      {"fdatasync", FaultTarget::kSync},
      {"fsync", FaultTarget::kSync},
      {"sync_dir", FaultTarget::kSync},
      {"open", FaultTarget::kOpen},
      {"create", FaultTarget::kOpen},
      {"rename", FaultTarget::kRename},
      {"unlink", FaultTarget::kUnlink},
      {"preallocate", FaultTarget::kAllocate},
      {"truncate", FaultTarget::kAllocate},
  }};
  if (line.ends_with(" failed")) return std::nullopt;
  for (const auto& [name, target] : kVerbs) {
    if (name != verb) continue;
    LoggedOp op;
    op.target = target;
    const size_t plus = line.rfind('+');
    const size_t place = line.rfind(' ') + 1;
    if (target == FaultTarget::kRead || target == FaultTarget::kWrite) {
      if (plus == std::string::npos || plus < place || place <= space + 1) return std::nullopt;
      op.file = line.substr(space + 1, place - space - 2);
      std::from_chars(line.data() + place, line.data() + plus, op.offset);
      std::from_chars(line.data() + plus + 1, line.data() + line.size(), op.length_bytes);
    }
    return op;
  }
  return std::nullopt;
}

// The operations of one target in the order in which the device saw them.
std::vector<LoggedOp> OpsOf(const FaultDevice& device, FaultTarget target) {
  std::vector<LoggedOp> ops;
  for (const std::string& line : device.Trace()) {
    auto op = ParseOp(line);
    if (op && op->target == target) ops.push_back(std::move(*op));
  }
  return ops;
}

// One case: a fault, over one store.
class SeamCase {
 public:
  SeamCase(const OwnStore& store, const SeamFault& fault, std::string folder, uint64_t rounds,
           CaseResult& result)
      : store_(store),
        fault_(fault),
        folder_(std::move(folder)),
        rounds_(rounds),
        result_(result),
        tally_(result),
        random_(result.seed) {}

  Status RunOnReads() {
    KVBED_RETURN_IF_ERROR(MakeStore());
    KVBED_RETURN_IF_ERROR(RehearseRead());
    for (uint64_t round = 0; Goes(round); ++round) KVBED_RETURN_IF_ERROR(ReadRound());
    return End();
  }

  Status RunOnWrites() {
    KVBED_RETURN_IF_ERROR(MakeStore());
    KVBED_RETURN_IF_ERROR(RehearseWrite());
    for (uint64_t round = 0; Goes(round); ++round) KVBED_RETURN_IF_ERROR(WriteRound(round));
    return End();
  }

 private:
  bool Goes(uint64_t round) const {
    return round < rounds_ && !tally_.failed() && result_.status != CaseStatus::kSkip &&
           !Interrupted();
  }
  Status End() {
    if (Interrupted()) return InterruptedStatus();
    if (result_.status != CaseStatus::kSkip) tally_.End();
    return Status::Ok();
  }
  void Skip(std::string reason) {
    result_.status = CaseStatus::kSkip;
    result_.reason = std::move(reason);
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  StoreSpec spec() const { return SpecOf(store_, fmt::format("{}/{}", folder_, stores_)); }

  Result<std::unique_ptr<BlockStore>> Open(StoreAccess access) {
    return OpenOver(quiet_, spec(), access);
  }

  // A store with the snapshots "base" and "other", in a folder that wasn't used before.
  Status MakeStore() {
    ++stores_;
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store, Open(StoreAccess::kCreate));
    KVBED_ASSIGN_OR_RETURN(base_, PutNew(*store, "base"));
    return PutNew(*store, "other").status();
  }

  Result<PutSnapshot> PutNew(BlockStore& store, const std::string& name) {
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, random_() | 1, kTrialTokens));
    return PutSeeded(store, kv, {.name = name});
  }

  // ---- faults of reads

  struct ReadRun {
    GotSnapshot got;
    uint64_t struck = 0;
    std::vector<LoggedOp> ops;
    std::vector<RecordLocation> locations;  // of base's records, where the store opened
  };
  ReadRun ReadOver(const FaultPlan& plan, bool verify) const {
    ReadRun run;
    // Aimed at records, the plan begins when the store is open.
    const bool aimed = fault_.aim != Aim::kAny;
    FaultDevice device(aimed ? FaultPlan{} : plan, kModelled);
    {
      auto store = OpenOver(device, spec(), StoreAccess::kRead);
      if (store.ok()) {
        if (aimed) device.Play(plan);
        run.got = GetSeeded(**store, base_, {.verify = verify});
        // Locating reads too.
        run.struck = device.struck();
        run.ops = OpsOf(device, fault_.target);
        for (const ManifestBlock& block : base_.manifest.blocks) {
          if (auto at = (*store)->Locate(block.id, block.place); at.ok()) {
            run.locations.push_back(*at);
          }
        }
      } else {
        run.got.status = store.status();
        run.struck = device.struck();
      }
    }
    return run;
  }

  // Without a fault: what operations there are.
  Status RehearseRead() {
    const ReadRun run = ReadOver({}, true);
    if (!run.got.whole()) {
      tally_.Fail("without a fault the snapshot is not whole: " + run.got.Text());
      return Status::Ok();
    }
    ops_ = run.ops;
    locations_ = run.locations;
    if (ops_.empty()) Skip("a restore from this store has no such operation");
    return Status::Ok();
  }

  // What a round strikes: an operation by its number, a byte of a file, or a byte of a record
  // wherever that is written to.
  struct Target {
    uint64_t op = 0;
    uint64_t count = 1;
    std::optional<FaultPlace> place{};
    std::vector<std::byte> mark{};
    uint64_t bit_number = 0;  // as Fault::amount of a bit flip; 0: any
    bool replaced = false;    // a write of the record that the grown state takes the place of
  };
  std::optional<Target> ChooseTarget() {
    if (fault_.aim == Aim::kAny || locations_.empty()) {
      return Target{.op = Below(ops_.size())};
    }
    const RecordLocation& at = locations_[Below(locations_.size())];
    const std::string file = at.path.substr(at.path.rfind('/') + 1);
    if (fault_.kind == FaultKind::kBitFlip) {
      // As often as the byte is read: RocksDB looks at its files' ends before the records.
      return Target{.count = kForever,
                    .place = FaultPlace{file, at.offset + ChooseByte(PartOf(fault_.aim), random_)},
                    .bit_number = Below(8) + 1};
    }
    std::vector<Target> targets;
    for (size_t i = 0; i < ops_.size(); ++i) {
      const LoggedOp& op = ops_[i];
      // All of the record: a read of something beside it may take a part of it along.
      const bool whole =
          op.offset <= at.offset && op.offset + op.length_bytes >= at.offset + at.size_bytes;
      if (op.file == file && whole) targets.push_back({.op = i});
    }
    if (targets.empty()) return std::nullopt;
    return targets[Below(targets.size())];
  }

  FaultPlan PlanOf(const Target& target, uint64_t amount) {
    Fault fault{.kind = fault_.kind,
                .target = fault_.target,
                .first = target.op,
                .count = fault_.endless ? kForever : target.count,
                .place = target.place,
                .mark = target.mark};
    fault.amount = amount;
    if (fault_.kind == FaultKind::kBitFlip) fault.amount = target.bit_number;
    if (fault_.kind == FaultKind::kDelay) fault.amount = 200 + Below(800);
    return {.seed = random_(), .faults = {fault}};
  }

  bool keeps_blobs() const { return store_.kind == StoreKind::kRocksDb && !store_.layout; }
  Status ReadRound() {
    const auto target = ChooseTarget();
    if (!target) {
      Skip("this store reads no record in a way that can be aimed at");
      return Status::Ok();
    }
    const FaultPlan plan = PlanOf(*target, 0);
    const ReadRun verified = ReadOver(plan, true);
    if (verified.struck == 0) return Status::Ok();
    if (fault_.outcome != Outcome::kLies) {
      tally_.Judge(verified.got, true, fault_.outcome != Outcome::kRepaired);
      return Status::Ok();
    }
    // The canary: unverified, the same fault comes through, or the store itself refuses.
    const ReadRun unverified = ReadOver(plan, false);
    const bool comes_through = !unverified.got.whole();
    // Where a record has a file of its own, there is nothing beside it that could be read instead.
    const bool must = fault_.aim != Aim::kAny &&
                      (fault_.kind == FaultKind::kBitFlip || store_.kind == StoreKind::kSlab);
    if (must && !comes_through) {
      tally_.Fail("unverified, the same fault changed nothing: it was not injected");
      return Status::Ok();
    }
    CheckFinding(verified.got, unverified.got);
    // Two restores need not read in one order, unless they were aimed.
    tally_.Judge(verified.got, !must, true);
    return Status::Ok();
  }

  void CheckFinding(const GotSnapshot& verified, const GotSnapshot& canary) {
    if (fault_.kind != FaultKind::kBitFlip) return;
    if (std::string why = WhyFindingIsWrong(verified, canary); !why.empty()) tally_.Fail(why);
  }

  // ---- faults of writes

  // What the store may hold after the operations of a round: nothing, or one of its snapshots.
  struct WriteRun {
    std::optional<PutSnapshot> first, second;  // as far as they were committed
    Status status;                             // of the first that failed
    uint64_t struck = 0;
    Status power_cut;
    bool refuses_after = true;  // a later snapshot through the same handle fails
    std::vector<LoggedOp> ops;
    uint64_t operations = 0;
  };

  // Puts a snapshot, then its grown state in its place. `cut` takes the power once both are there.
  // The sequence is `sequence_id_`.
  WriteRun WriteOver(const FaultPlan& plan, bool cut) {
    WriteRun run;
    FaultDevice device(plan, {.power_cuts = IsPowerCut(fault_.kind), .syncs = false});
    {
      auto store = OpenOver(device, spec(), StoreAccess::kWrite);
      run.status = store.ok() ? PutBoth(**store, run) : store.status();
      if (store.ok() && !run.status.ok() && fault_.kind == FaultKind::kFailedSync) {
        run.refuses_after = !PutNew(**store, "after").ok();
      }
      if (cut && run.status.ok()) device.PowerCut(fault_.kind);
    }
    run.struck = device.struck() + (cut && run.status.ok() ? 1 : 0);
    run.power_cut = device.power_cut_status();
    run.ops = OpsOf(device, fault_.target);
    run.operations = device.operations();
    return run;
  }

  Status PutBoth(BlockStore& store, WriteRun& run) {
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, sequence_id_, kTrialGrownTokens));
    auto first = PutSeeded(store, kv, {.name = "round"});
    if (!first.ok()) return first.status();
    run.first = std::move(*first);
    auto second = PutSeeded(
        store, kv, {.name = "round", .tokens = kTrialGrownTokens, .mode = CommitMode::kReplace});
    if (!second.ok()) return second.status();
    run.second = std::move(*second);
    return Status::Ok();
  }

  Status RehearseWrite() {
    sequence_id_ = random_() | 1;
    const WriteRun run = WriteOver({}, false);
    if (!run.status.ok()) {
      if (run.status.code() == StatusCode::kOutOfSpace) return run.status;
      tally_.Fail("without a fault: " + run.status.message());
      return Status::Ok();
    }
    ops_ = run.ops;
    operations_ = run.operations;
    if (ops_.empty() && fault_.target != FaultTarget::kAny) {
      Skip("a snapshot to this store has no such operation");
    }
    return Clear();
  }

  // Removes what a round left, so that the next one starts alike.
  Status Clear() {
    if (std::exchange(damaged_, false)) return MakeStore();
    auto store = Open(StoreAccess::kWrite);
    if (!store.ok()) return MakeStore();
    for (const char* name : {"round", "after"}) {
      const StatusCode code = (*store)->RemoveManifest(name).code();
      if (code == StatusCode::kOk || code == StatusCode::kNotFound) continue;
      store->reset();
      return MakeStore();
    }
    return Status::Ok();
  }

  // A write of a record: that many bytes, aligned. The rehearsal's places are not the next round's.
  bool MovesRecord(const LoggedOp& op) const {
    if (keeps_blobs()) return op.file.ends_with(".blob");
    return op.length_bytes == kTrialGeometry.record_bytes();
  }

  // The beginning of a block's records in the round, up to the generation in their id, which is of
  // the clock: wherever RocksDB puts the first of them, it can be found in what is written.
  Result<std::vector<std::byte>> MarkOf(uint64_t block) const {
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, sequence_id_, kTrialTokens));
    KVBED_RETURN_IF_ERROR(kv.GrowTo(kTrialTokens));
    const Sequence& sequence = kv.sequence();
    const MutableBytes record = kv.pool().record(sequence.block_table()[block]);
    SealRecord(record, sequence.HeaderOf(block, sequence.LastGeneration(block) + 1));
    const Bytes mark = Bytes(record).first(record_layout::kIdAt + kRecordKeyBytes);
    return std::vector<std::byte>(mark.begin(), mark.end());
  }

  Result<std::optional<Target>> ChooseWrite() {
    if (fault_.target == FaultTarget::kAny) return std::optional(Target{.op = Below(operations_)});
    const uint64_t last_block = kTrialGeometry.BlocksFor(kTrialTokens) - 1;
    if (fault_.aim != Aim::kAny && fault_.kind == FaultKind::kBitFlip) {
      const uint64_t block = Below(last_block + 1);
      Target target{.bit_number = ChooseByte(PartOf(fault_.aim), random_) * 8 + Below(8) + 1,
                    .replaced = block == last_block};
      KVBED_ASSIGN_OR_RETURN(target.mark, MarkOf(block));
      return std::optional(std::move(target));
    }
    std::vector<uint64_t> ops;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (fault_.aim == Aim::kAny || MovesRecord(ops_[i])) ops.push_back(i);
    }
    if (ops.empty()) return std::optional<Target>();
    const uint64_t ordinal = Below(ops.size());
    return std::optional(Target{.op = ops[ordinal], .replaced = ordinal == last_block});
  }

  Status WriteRound(uint64_t round) {
    sequence_id_ = random_() | 1;
    KVBED_ASSIGN_OR_RETURN(const auto target, ChooseWrite());
    if (!target) {
      Skip("this store writes no record in a way that can be aimed at");
      return Status::Ok();
    }
    // Every fourth power cut comes after all was committed, and must take nothing.
    const bool cut = IsPowerCut(fault_.kind) && round % 4 == 3;
    const uint64_t sectors = kTrialGeometry.record_bytes() / kSectorBytes;
    const uint64_t amount =
        fault_.kind == FaultKind::kTornWrite ? (1 + round % (sectors - 1)) * kSectorBytes : 0;
    const WriteRun run =
        WriteOver(cut ? FaultPlan{.seed = random_()} : PlanOf(*target, amount), cut);
    KVBED_RETURN_IF_ERROR(run.power_cut);
    if (run.struck > 0) {
      replaced_ = target->replaced;
      JudgeWrite(run);
    } else if (!run.status.ok()) {
      tally_.Fail("no fault struck, and yet: " + run.status.message());
    }
    return Clear();
  }

  void JudgeWrite(const WriteRun& run) {
    const bool lies = fault_.outcome == Outcome::kLies;
    if (!run.status.ok() && fault_.outcome == Outcome::kRepaired) {
      return tally_.Undetected(0, "it should have been repaired: " + run.status.message());
    }
    if (!run.refuses_after) {
      return tally_.Undetected(0, "after a failed sync the store took another snapshot");
    }
    auto store = Open(StoreAccess::kWrite);
    if (!store.ok()) {
      if (lies) return tally_.Found(store.status().message());
      return tally_.Undetected(0, "the store can't be opened: " + store.status().message());
    }
    const GotSnapshot base = GetSeeded(**store, base_);
    if (base.served_wrong > 0 || base.manifest_differs) {
      return tally_.Undetected(base.served_wrong, "an older snapshot: " + base.Text());
    }
    if (!base.whole()) {
      store->reset();
      damaged_ = true;
      if (lies) return tally_.Found(base);
      return tally_.Undetected(0, "an older snapshot is damaged: " + base.Text());
    }
    JudgeRound(**store, run, lies);
  }

  void JudgeRound(BlockStore& store, const WriteRun& run, bool lies) {
    const auto manifest = store.ReadManifest("round");
    const bool absent = manifest.status().code() == StatusCode::kNotFound;
    if (!manifest.ok() && !absent) {
      if (lies) return tally_.Found(manifest.status().message());
      return tally_.Undetected(0, "the snapshot can't be read: " + manifest.status().message());
    }
    if (absent) {
      if (!run.first) return tally_.Found(run.status.message());
      if (lies) return tally_.Found("the snapshot is missing");
      return tally_.Undetected(0, "a committed snapshot is gone");
    }
    // Which state is there: it must be one that was, or was about to be, committed.
    const PutSnapshot* expected = nullptr;
    for (const auto* state : {&run.first, &run.second}) {
      if (*state && (*state)->manifest == *manifest) expected = &**state;
    }
    if (run.second && expected != &*run.second) {
      if (lies) return tally_.Found("an older state of the snapshot is there");
      return tally_.Undetected(0, "a replaced snapshot came back");
    }
    if (expected == nullptr) {
      // Its commit failed and may have happened all the same: then it is whole.
      return JudgeUnknown(store, *manifest, run);
    }
    JudgeKnown(store, *expected, run, lies);
  }

  void JudgeUnknown(BlockStore& store, const Manifest& manifest, const WriteRun& run) {
    if (run.status.ok())
      return tally_.Undetected(1, "a manifest that was never committed is there");
    PutSnapshot expected;
    expected.manifest = manifest;
    auto kv = SeededKv::Create(kTrialGeometry, manifest.sequence_id, manifest.cached_tokens);
    if (!kv.ok() || !kv->GrowTo(manifest.cached_tokens).ok()) {
      return tally_.Fail("no memory to judge by");
    }
    for (uint64_t block = 0; block < manifest.blocks.size(); ++block) {
      const uint64_t generation = manifest.blocks[block].id.generation;
      SealRecord(kv->pool().record(kv->sequence().block_table()[block]),
                 kv->sequence().HeaderOf(block, generation));
    }
    expected.records = kv->Records();
    const GotSnapshot got = GetSeeded(store, expected);
    if (got.whole()) return tally_.Found(run.status.message());
    tally_.Undetected(got.served_wrong, "a failed snapshot is there in part: " + got.Text());
  }

  void JudgeKnown(BlockStore& store, const PutSnapshot& expected, const WriteRun& run, bool lies) {
    const GotSnapshot got = GetSeeded(store, expected);
    if (!run.status.ok()) {
      if (got.whole()) return tally_.Found(run.status.message());
      return tally_.Undetected(got.served_wrong, "a committed snapshot is damaged: " + got.Text());
    }
    if (!lies) return tally_.Judge(got, true, false);
    const GotSnapshot canary = GetSeeded(store, expected, {.verify = false});
    // Only the record of a state that was replaced is never read.
    const bool must_change =
        fault_.kind == FaultKind::kBitFlip && fault_.aim != Aim::kAny && !replaced_;
    if (must_change && canary.whole()) {
      return tally_.Fail("unverified, the fault changed nothing: it was not injected");
    }
    CheckFinding(got, canary);
    tally_.Judge(got, canary.whole(), true);
  }

  const OwnStore& store_;
  const SeamFault& fault_;
  const std::string folder_;
  const uint64_t rounds_;
  CaseResult& result_;
  FaultTally tally_;
  std::mt19937_64 random_;
  FaultDevice quiet_{{}, kModelled};  // for what is done to the store between faults
  int stores_ = 0;
  bool damaged_ = false;   // the store holds no whole base any more
  bool replaced_ = false;  // the round's fault struck a record that was replaced
  PutSnapshot base_;
  std::vector<LoggedOp> ops_;
  uint64_t operations_ = 0;
  uint64_t sequence_id_ = 1;  // of the round's snapshot
  std::vector<RecordLocation> locations_;
};

}  // namespace

Status RunSeamFaults(const CampaignOptions& options, CaseLog& log) {
  for (const OwnStore& store : OwnStores()) {
    if (store.kind == StoreKind::kMemory || store.wal) continue;
    // RocksDB takes longest to open and close, and the index layout's records are in a slab.
    uint64_t rounds = store.layout ? 2 : store.kind == StoreKind::kRocksDb ? 5 : 12;
    if (options.profile == VerifyProfile::kFull) rounds *= 10;
    const auto run = [&](std::string_view side, const SeamFault& fault, auto method) -> Status {
      const std::string name = fmt::format("fault/seam/{}/{}_{}", store.name, side, fault.name);
      if (log.stopped()) return InterruptedStatus();
      if (!log.Wants(name)) return Status::Ok();
      CaseResult result = log.Start(name, CaseKind::kFault);
      KVBED_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                             TemporaryFolder::CreateIn(options.work_folder));
      // A write is torn at each sector of a record once.
      const bool torn = fault.kind == FaultKind::kTornWrite && !store.layout;
      // The tries of each operation take a quarter of a second together.
      const uint64_t most = fault.endless ? 2 : rounds;
      SeamCase one(store, fault, folder.path(), torn ? std::max<uint64_t>(rounds, 15) : most,
                   result);
      KVBED_RETURN_IF_ERROR(TakeStatus(result, (one.*method)()));
      log.Finish(std::move(result));
      return Status::Ok();
    };
    for (const SeamFault& fault : kReadFaults) {
      KVBED_RETURN_IF_ERROR(run("read", fault, &SeamCase::RunOnReads));
    }
    for (const SeamFault& fault : kWriteFaults) {
      KVBED_RETURN_IF_ERROR(run("write", fault, &SeamCase::RunOnWrites));
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
