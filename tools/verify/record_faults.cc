// Faults of whole records, injected by a decorator over every store alike: a put that lies, a get
// that brings something else, an error of either, of a flush, a commit or a removal.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "backends/faulty_store.h"
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

// The put that the second snapshot begins with: the tail block as it was grown.
constexpr uint64_t kGrownTailPut = 4;

struct StoreFault {
  std::string_view name;
  FaultKind kind;
  FaultTarget target;
  RecordPart part = RecordPart::kAny;
  bool repaired = false;               // must be; else it must be found, or change nothing
  std::optional<uint64_t> first = {};  // which operation; none: any
  std::optional<Check> check = {};     // what it must be found as
};

constexpr StoreFault kStoreFaults[] = {
    {"put_bit_flip_header", FaultKind::kBitFlip, FaultTarget::kWrite, RecordPart::kHeader},
    {"put_bit_flip_payload", FaultKind::kBitFlip, FaultTarget::kWrite, RecordPart::kPayload},
    {"put_bit_flip_padding", FaultKind::kBitFlip, FaultTarget::kWrite, RecordPart::kPadding},
    {"put_short",
     FaultKind::kShortTransfer,
     FaultTarget::kWrite,
     RecordPart::kAny,
     false,
     {},
     Check::kShort},
    {"put_torn", FaultKind::kTornWrite, FaultTarget::kWrite},
    {"put_misdirected", FaultKind::kMisdirectedWrite, FaultTarget::kWrite},
    {"put_stale_generation", FaultKind::kStaleRecord, FaultTarget::kWrite, RecordPart::kAny, false,
     kGrownTailPut, Check::kGeneration},
    {"put_never_written", FaultKind::kStaleRecord, FaultTarget::kWrite, RecordPart::kAny, false, 0,
     Check::kMagic},
    {"put_lost",
     FaultKind::kLostWrites,
     FaultTarget::kWrite,
     RecordPart::kAny,
     false,
     {},
     Check::kMissing},
    {"put_reordered",
     FaultKind::kReorderedWrites,
     FaultTarget::kWrite,
     RecordPart::kAny,
     false,
     {},
     Check::kMissing},
    {"put_eio", FaultKind::kEio, FaultTarget::kWrite},
    {"put_enospc", FaultKind::kEnospc, FaultTarget::kWrite},
    {"put_eagain", FaultKind::kEagain, FaultTarget::kWrite},
    {"put_eintr", FaultKind::kEintr, FaultTarget::kWrite},
    {"put_delay", FaultKind::kDelay, FaultTarget::kWrite, RecordPart::kAny, true},
    {"get_bit_flip_header", FaultKind::kBitFlip, FaultTarget::kRead, RecordPart::kHeader},
    {"get_bit_flip_payload", FaultKind::kBitFlip, FaultTarget::kRead, RecordPart::kPayload},
    {"get_bit_flip_padding", FaultKind::kBitFlip, FaultTarget::kRead, RecordPart::kPadding},
    {"get_short",
     FaultKind::kShortTransfer,
     FaultTarget::kRead,
     RecordPart::kAny,
     false,
     {},
     Check::kShort},
    {"get_misdirected", FaultKind::kMisdirectedRead, FaultTarget::kRead},
    {"get_eio", FaultKind::kEio, FaultTarget::kRead},
    {"get_eagain", FaultKind::kEagain, FaultTarget::kRead},
    {"get_eintr", FaultKind::kEintr, FaultTarget::kRead},
    {"get_delay", FaultKind::kDelay, FaultTarget::kRead, RecordPart::kAny, true},
    {"failed_flush", FaultKind::kFailedSync, FaultTarget::kSync},
    {"commit_eio", FaultKind::kEio, FaultTarget::kRename},
    {"commit_enospc", FaultKind::kEnospc, FaultTarget::kRename},
    {"remove_eio", FaultKind::kEio, FaultTarget::kUnlink},
};

bool ChangesData(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBitFlip:
    case FaultKind::kShortTransfer:
    case FaultKind::kMisdirectedRead:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kStaleRecord:
    case FaultKind::kLostWrites:
    case FaultKind::kReorderedWrites: return true;
    default: return false;  // a torn write may end in the padding
  }
}

class RecordCase {
 public:
  RecordCase(const OwnStore& store, const StoreFault& fault, std::string folder, CaseResult& result)
      : store_(store),
        fault_(fault),
        folder_(std::move(folder)),
        tally_(result),
        random_(result.seed) {}

  Status Run(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds && !tally_.failed(); ++round) {
      if (Interrupted()) return InterruptedStatus();
      KVBED_RETURN_IF_ERROR(Round(round));
    }
    tally_.End();
    return Status::Ok();
  }

 private:
  bool on_gets() const { return fault_.target == FaultTarget::kRead; }

  Result<std::unique_ptr<BlockStore>> Open() {
    return OpenOver(quiet_, SpecOf(store_, folder_ + "/store"), StoreAccess::kCreate);
  }

  FaultPlan Plan(uint64_t round) {
    Fault fault{.kind = fault_.kind, .target = fault_.target};
    // Puts of both snapshots, or gets of the second; one flush and one commit of each.
    const uint64_t blocks = kTrialGeometry.BlocksFor(kTrialGrownTokens);
    uint64_t operations = 2;
    if (fault_.target == FaultTarget::kWrite) operations = blocks + 1;
    if (fault_.target == FaultTarget::kRead) operations = blocks;
    if (fault_.target == FaultTarget::kUnlink) operations = 1;
    fault.first = fault_.first.value_or(random_() % operations);
    const uint64_t sectors = kTrialGeometry.record_bytes() / kSectorBytes;
    if (fault_.kind == FaultKind::kBitFlip) {
      fault.amount = ChooseByte(fault_.part, random_) * 8 + random_() % 8 + 1;
    } else if (fault_.kind == FaultKind::kTornWrite || fault_.kind == FaultKind::kShortTransfer) {
      fault.amount = (1 + round % (sectors - 1)) * kSectorBytes;
    } else if (fault_.kind == FaultKind::kDelay) {
      fault.amount = 200 + random_() % 800;
    }
    FaultPlan plan{.seed = random_(), .faults = {fault}};
    if (on_gets()) {
      // Once for the canary, and again for the verified restore.
      // A short record is read once more, to be explained.
      fault.first += operations + (fault_.kind == FaultKind::kShortTransfer ? 1 : 0);
      plan.faults.push_back(fault);
    }
    return plan;
  }

  // Two snapshots: of a sequence, and of the same one grown.
  Status PutBoth(BlockStore& store) {
    older_.reset();
    newer_.reset();
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, random_() | 1, kTrialGrownTokens));
    auto older = PutSeeded(store, kv, {.name = "older"});
    if (!older.ok()) return older.status();
    older_ = std::move(*older);
    auto newer = PutSeeded(store, kv, {.name = "newer", .tokens = kTrialGrownTokens});
    if (!newer.ok()) return newer.status();
    newer_ = std::move(*newer);
    return Status::Ok();
  }

  Status Round(uint64_t round) {
    StoreFaults faults(Plan(round));
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store, Open());
    Status put;
    if (on_gets()) {
      put = PutBoth(*store);
      if (!put.ok()) return put;
      store = MakeFaultyStore(std::move(store), faults);
    } else {
      store = MakeFaultyStore(std::move(store), faults);
      put = PutBoth(*store);
    }
    if (put.code() == StatusCode::kOutOfSpace && faults.struck() == 0) return put;
    if (fault_.target == FaultTarget::kUnlink && put.ok()) {
      JudgeRemoval(*store);
    } else if (!put.ok()) {
      JudgeFailure(*store, put);
    } else {
      JudgeSuccess(*store);
    }
    const bool struck = faults.struck() >= (on_gets() ? 2 : 1);
    if (!struck) tally_.Fail("the fault did not strike");
    // What was put through the decorator is removed below it.
    store.reset();
    if (store_.kind == StoreKind::kMemory) return Status::Ok();
    KVBED_ASSIGN_OR_RETURN(store, Open());
    for (const char* name : {"older", "newer"}) store->RemoveManifest(name).IgnoreError();
    return Status::Ok();
  }

  void JudgeRemoval(BlockStore& store) {
    const Status removed = store.RemoveManifest("newer");
    if (removed.ok()) return tally_.Undetected(0, "a failed removal was reported as done");
    if (const GotSnapshot got = GetSeeded(store, *newer_); !got.whole()) {
      return tally_.Undetected(got.served_wrong, "after a failed removal: " + got.Text());
    }
    tally_.Found(removed.message());
  }

  // The store said no: nothing of the snapshot is there, and the one before is whole.
  void JudgeFailure(BlockStore& store, const Status& put) {
    if (fault_.repaired) return tally_.Undetected(0, "it should go well: " + put.message());
    const char* const name = older_ ? "newer" : "older";
    if (store.ReadManifest(name).status().code() != StatusCode::kNotFound) {
      return tally_.Undetected(0, "a snapshot that failed is there");
    }
    if (older_) {
      if (const GotSnapshot got = GetSeeded(store, *older_); !got.whole()) {
        return tally_.Undetected(got.served_wrong, "the snapshot before it: " + got.Text());
      }
    }
    tally_.Found(put.message());
  }

  void JudgeSuccess(BlockStore& store) {
    // The canary of a get comes first: the plan strikes both alike. What a put damaged stays.
    GotSnapshot canary, older_canary;
    if (on_gets()) canary = GetSeeded(store, *newer_, {.verify = false});
    const GotSnapshot got = GetSeeded(store, *newer_);
    const GotSnapshot older = on_gets() ? got : GetSeeded(store, *older_);
    if (!on_gets()) {
      canary = GetSeeded(store, *newer_, {.verify = false});
      older_canary = GetSeeded(store, *older_, {.verify = false});
    }
    if (older.served_wrong > 0) return tally_.Judge(older, false, false);
    const GotSnapshot& first = got.whole() ? older : got;
    if (fault_.repaired) return tally_.Judge(first, true, false);
    const bool changed = !canary.whole() || (!on_gets() && !older_canary.whole());
    if (ChangesData(fault_.kind) && !changed) {
      return tally_.Fail("unverified, the same fault changed nothing: it was not injected");
    }
    if (fault_.kind == FaultKind::kBitFlip) {
      const std::string why =
          got.whole() ? WhyFindingIsWrong(older, older_canary) : WhyFindingIsWrong(got, canary);
      if (!why.empty()) return tally_.Undetected(0, why);
    }
    if (fault_.check && !IsFoundAs(first, *fault_.check)) {
      return tally_.Undetected(0, fmt::format("it should be found as {}, not as {}",
                                              CheckName(*fault_.check), first.Text()));
    }
    tally_.Judge(first, !changed, true);
  }

  static bool IsFoundAs(const GotSnapshot& got, Check check) {
    return !got.report.findings.empty() && got.report.findings.front().check == check;
  }

  const OwnStore& store_;
  const StoreFault& fault_;
  const std::string folder_;
  FaultTally tally_;
  std::mt19937_64 random_;
  FaultDevice quiet_{{}, kModelled};
  std::optional<PutSnapshot> older_, newer_;
};

}  // namespace

Status RunRecordFaults(const CampaignOptions& options, CaseLog& log) {
  for (const OwnStore& store : OwnStores()) {
    const bool memory = store.kind == StoreKind::kMemory;
    if (options.brief && !memory) continue;
    // RocksDB takes longest to open and close.
    uint64_t rounds = memory ? 40 : store.kind == StoreKind::kRocksDb ? 3 : 6;
    if (options.profile == VerifyProfile::kFull) rounds *= 10;
    for (const StoreFault& fault : kStoreFaults) {
      const std::string name = fmt::format("fault/record/{}/{}", store.name, fault.name);
      if (log.stopped()) return InterruptedStatus();
      if (!log.Wants(name)) continue;
      CaseResult result = log.Start(name, CaseKind::kFault);
      KVBED_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                             TemporaryFolder::CreateIn(options.work_folder));
      KVBED_RETURN_IF_ERROR(
          TakeStatus(result, RecordCase(store, fault, folder.path(), result).Run(rounds)));
      log.Finish(std::move(result));
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
