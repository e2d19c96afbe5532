// Controls: that a verification can fail at all. What is blinded or left out on purpose here must
// be noticed, and where nothing is wrong nothing may be found.
#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "backends/fault_device.h"
#include "backends/faulty_io.h"
#include "backends/faulty_store.h"
#include "backends/open_store.h"
#include "tools/interrupt.h"
#include "tools/store_access.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/own_stores.h"
#include "tools/verify/seeded_kv.h"
#include "tools/verify/snapshot_trial.h"
#include "verify/kv_image.h"

namespace kvbed {
namespace {

// One control over one store. Its text says why it failed; empty for a pass.
struct ControlRun {
  const OwnStore& store;
  std::string folder;
  std::mt19937_64 random;
  FaultDevice quiet{{}, kModelled};

  StoreSpec spec() const { return SpecOf(store, folder + "/store"); }
  Result<std::unique_ptr<BlockStore>> Open() {
    return OpenOver(quiet, spec(), StoreAccess::kCreate);
  }
  Result<SeededKv> NewKv() {
    return SeededKv::Create(kTrialGeometry, random() | 1, kTrialGrownTokens);
  }
};

using Control = Result<std::string> (*)(ControlRun& run);

// Decorators that have nothing to play: no fault strikes, and nothing is found.
Result<std::string> NoFalseAlarm(ControlRun& run) {
  StoreFaults faults;
  for (int round = 0; round < 10; ++round) {
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> base, run.Open());
    const std::unique_ptr<BlockStore> store = MakeFaultyStore(std::move(base), faults);
    KVBED_ASSIGN_OR_RETURN(SeededKv kv, run.NewKv());
    KVBED_ASSIGN_OR_RETURN(const PutSnapshot put,
                           PutSeeded(*store, kv, {.name = fmt::format("s{}", round)}));
    const GotSnapshot got = GetSeeded(*store, put);
    if (!got.whole()) return "something was found without a fault: " + got.Text();
  }
  if (faults.struck() + run.quiet.struck() > 0)
    return std::string("a fault struck that is in no plan");
  return std::string();
}

// With verification off a flipped bit of the payload comes through: the comparison sees bytes that
// no check has seen. With it on, it is found.
Result<std::string> Unverified(ControlRun& run) {
  KVBED_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> base, run.Open());
  StoreFaults faults;
  const std::unique_ptr<BlockStore> store = MakeFaultyStore(std::move(base), faults);
  KVBED_ASSIGN_OR_RETURN(SeededKv kv, run.NewKv());
  KVBED_ASSIGN_OR_RETURN(const PutSnapshot put, PutSeeded(*store, kv, {.name = "s"}));
  const uint64_t block = run.random() % put.manifest.blocks.size();
  const uint64_t byte = ChooseByte(RecordPart::kPayload, run.random);
  faults.Spoil(put.manifest.blocks[block].id, kTrialGeometry.record_bytes(), FaultKind::kBitFlip,
               byte * 8 + 1);
  const GotSnapshot blind = GetSeeded(*store, put, {.verify = false});
  if (blind.served_wrong != 1 || blind.wrong_block != block || blind.wrong_byte != byte) {
    return fmt::format("byte {} of block {} was flipped, and the unverified restore shows: {}",
                       byte, block, blind.whole() ? "nothing" : blind.Text());
  }
  const GotSnapshot seen = GetSeeded(*store, put);
  if (seen.report.findings.size() != 1) return "the verified restore shows: " + seen.Text();
  return WhyFindingIsWrong(seen, blind);
}

// A restore that copies nothing meets the poison in every block.
Result<std::string> CopySkipped(ControlRun& run) {
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<BlockStore> store, run.Open());
  KVBED_ASSIGN_OR_RETURN(SeededKv kv, run.NewKv());
  KVBED_ASSIGN_OR_RETURN(const PutSnapshot put, PutSeeded(*store, kv, {.name = "s"}));
  const GotSnapshot got = GetSeeded(*store, put, {.skip_copy = true});
  if (got.report.findings.size() == put.records.size()) return std::string();
  return fmt::format("a restore that copies nothing has {} findings in {} blocks",
                     got.report.findings.size(), put.records.size());
}

// Memory that isn't poison is seen as such, wherever it is.
Result<std::string> PoisonMissing(ControlRun& run) {
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<BlockPool> pool,
                         MakePoisonedPool(kTrialGeometry, kTrialTokens));
  if (!AllPoisoned(*pool)) return std::string("a poisoned pool isn't taken for one");
  for (int round = 0; round < 100; ++round) {
    const auto record = static_cast<uint32_t>(run.random() % pool->records());
    std::byte& byte = pool->record(record)[run.random() % kTrialGeometry.record_bytes()];
    byte ^= std::byte{1};
    if (AllPoisoned(*pool)) return std::string("a byte that isn't poison was not seen");
    byte ^= std::byte{1};
  }
  return std::string();
}

// The comparison with the run in memory sees any single bit, and says where it is.
Result<std::string> ComparedBit(ControlRun& run) {
  KVBED_ASSIGN_OR_RETURN(SeededKv kv, run.NewKv());
  KVBED_RETURN_IF_ERROR(kv.GrowTo(kTrialTokens));
  const KvImage image = KvImage::CopyOf(kv.sequence());
  for (int round = 0; round < 100; ++round) {
    const uint64_t block = run.random() % kv.sequence().blocks();
    const uint64_t offset = run.random() % kTrialGeometry.payload_bytes();
    const auto bit = std::byte{1} << static_cast<int>(run.random() % 8);
    std::byte& byte = kv.sequence().payload(block)[offset];
    byte ^= bit;
    const KvComparison compared = image.Compare(kv.sequence());
    byte ^= bit;
    const KvCoordinate at = kTrialGeometry.CoordinateAt(offset);
    const bool right = compared.differing_bits == 1 && compared.first &&
                       compared.first->layer == at.layer && compared.first->kv == at.part &&
                       compared.first->head == at.kv_head && compared.first->dim == at.dim;
    if (!right)
      return fmt::format("one bit differs in byte {} of block {}; not seen so", offset, block);
  }
  if (!image.Compare(kv.sequence()).equal()) return std::string("equal KV is told to differ");
  return std::string();
}

// A store that publishes without waiting for its data loses a committed snapshot to a power cut:
// the model of the cut sees a sync that was left out.
Result<std::string> SyncSkipped(ControlRun& run) {
  FaultDevice device({}, {.power_cuts = true, .syncs = false});
  PutSnapshot put;
  {
    KVBED_ASSIGN_OR_RETURN(std::unique_ptr<Io> io, OpenIo(IoEngine::kAuto));
    StoreSettings settings = SelfTestSettings();
    settings.sync = SyncMode::kNone;
    KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<BlockStore> store,
                           OpenStoreOver(MakeFaultyIo(std::move(io), device), run.spec(),
                                         {.access = StoreAccess::kCreate, .defaults = settings}));
    KVBED_ASSIGN_OR_RETURN(SeededKv kv, run.NewKv());
    KVBED_ASSIGN_OR_RETURN(put, PutSeeded(*store, kv, {.name = "s"}));
    device.PowerCut();
  }
  KVBED_RETURN_IF_ERROR(device.power_cut_status());
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<BlockStore> store, run.Open());
  const GotSnapshot got = GetSeeded(*store, put);
  if (got.served_wrong > 0) return "wrong bytes were served: " + got.Text();
  if (!got.whole()) return std::string();
  return std::string("without a sync all survived the power cut: it takes nothing back");
}

struct NamedControl {
  std::string_view name;
  Control run;
  bool of_synced = false;    // of stores whose syncs can be left out
  bool of_no_store = false;  // once
};
constexpr NamedControl kControls[] = {
    {"no_false_alarm", NoFalseAlarm},
    {"unverified", Unverified},
    {"copy_skipped", CopySkipped},
    {"sync_skipped", SyncSkipped, true, false},
    {"poison_missing", PoisonMissing, false, true},
    {"compared_bit", ComparedBit, false, true},
};

Status RunControl(const NamedControl& control, const OwnStore& store, std::string name,
                  const CampaignOptions& options, CaseLog& log) {
  if (log.stopped()) return InterruptedStatus();
  if (!log.Wants(name)) return Status::Ok();
  CaseResult result = log.Start(std::move(name), CaseKind::kControl);
  KVBED_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                         TemporaryFolder::CreateIn(options.work_folder));
  ControlRun run{.store = store, .folder = folder.path(), .random = std::mt19937_64(result.seed)};
  const Result<std::string> why = control.run(run);
  if (why.ok()) {
    result.reason = *why;
    if (!why->empty()) result.status = CaseStatus::kFail;
  } else if (why.status().code() == StatusCode::kNotSupported) {
    result.status = CaseStatus::kSkip;
    result.reason = why.status().message();
  } else {
    if (why.status().code() == StatusCode::kOutOfSpace) return why.status();
    result.status = CaseStatus::kFail;
    result.reason = why.status().message();
  }
  log.Finish(std::move(result));
  return Status::Ok();
}

}  // namespace

Status RunControls(const CampaignOptions& options, CaseLog& log) {
  for (const NamedControl& control : kControls) {
    for (const OwnStore& store : OwnStores()) {
      const bool memory = store.kind == StoreKind::kMemory;
      // RocksDB has no option that leaves the sync out.
      const bool syncs = store.kind == StoreKind::kSlab || store.kind == StoreKind::kFiles;
      if (control.of_synced && !syncs) continue;
      if (control.of_no_store && !memory) continue;
      const std::string name = control.of_no_store
                                   ? fmt::format("control/{}", control.name)
                                   : fmt::format("control/{}/{}", control.name, store.name);
      KVBED_RETURN_IF_ERROR(RunControl(control, store, name, options, log));
    }
  }
  return Status::Ok();
}

}  // namespace kvbed
