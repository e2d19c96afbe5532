// What the store under test does and says by itself, verb by verb and past kvbed's index: ids are
// compared whole, the last put counts, and exists, list, remove, the manifests and the end are what
// it declares. A verb that it doesn't declare is skipped by name.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/external_store.h"
#include "offload/aligned_buffer.h"
#include "offload/digest.h"
#include "tools/interrupt.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_outcome.h"
#include "tools/verify/snapshot_trial.h"
#include "tools/verify/store_under_test.h"

namespace kvbed {
namespace {

constexpr uint64_t kVerbRecordBytes = 8192;

// Records of seeded bytes, each under an id.
class VerbRecords {
 public:
  VerbRecords(uint64_t seed, std::vector<RecordId> ids)
      : ids_(std::move(ids)),
        memory_(AlignedBuffer::Allocate(ids_.size() * kVerbRecordBytes).value()) {
    Fill(seed);
  }

  const std::vector<RecordId>& ids() const { return ids_; }
  void Fill(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (size_t at = 0; at < memory_.bytes().size(); at += sizeof(uint64_t)) {
      StoreLe<uint64_t>(memory_.bytes(), at, random());
    }
    kept_.assign(memory_.bytes().begin(), memory_.bytes().end());
  }

  Status Put(BlockStore& store) { return MoveThrough(store, StoreRequest::Op::kPut); }

  // Poisoned before. Empty, or what is wrong with the first that isn't as it was put.
  std::string Get(BlockStore& store) {
    std::ranges::fill(memory_.bytes(), kPoisonByte);
    if (const Status got = MoveThrough(store, StoreRequest::Op::kGet); !got.ok()) {
      return std::string(got.message());
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      const Bytes record = Bytes(memory_.bytes()).subspan(i * kVerbRecordBytes, kVerbRecordBytes);
      const Bytes put = Bytes(kept_).subspan(i * kVerbRecordBytes, kVerbRecordBytes);
      if (!std::ranges::equal(record, put)) return WhatCame(i, record);
    }
    return {};
  }

  // The statuses of gets past kvbed's index.
  std::vector<Status> GetFromChild(BlockStore& store) {
    std::vector<StoreRequest> requests = Requests(StoreRequest::Op::kGet);
    std::vector<StoreRequest*> pointers;
    for (StoreRequest& request : requests) pointers.push_back(&request);
    ExternalGet(store, pointers);
    std::vector<Status> statuses;
    for (const StoreRequest& request : requests) statuses.push_back(request.status);
    return statuses;
  }

 private:
  std::string WhatCame(size_t index, Bytes record) const {
    for (size_t other = 0; other < ids_.size(); ++other) {
      const Bytes put = Bytes(kept_).subspan(other * kVerbRecordBytes, kVerbRecordBytes);
      if (std::ranges::equal(record, put)) {
        return fmt::format("the bytes of {} came back for {}", ids_[other].ToHex(),
                           ids_[index].ToHex());
      }
    }
    return fmt::format("other bytes than were put last came back for {}", ids_[index].ToHex());
  }

  std::vector<StoreRequest> Requests(StoreRequest::Op op) {
    std::vector<StoreRequest> requests(ids_.size());
    for (size_t i = 0; i < ids_.size(); ++i) {
      requests[i].op = op;
      requests[i].id = ids_[i];
      requests[i].record = memory_.bytes().subspan(i * kVerbRecordBytes, kVerbRecordBytes);
      if (op == StoreRequest::Op::kPut) requests[i].digest = Xxh3_128(requests[i].record);
    }
    return requests;
  }

  Status MoveThrough(BlockStore& store, StoreRequest::Op op) {
    std::vector<StoreRequest> requests = Requests(op);
    std::vector<StoreRequest*> pointers, done;
    for (StoreRequest& request : requests) pointers.push_back(&request);
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel, store.OpenChannel({16, memory_.bytes()}));
    channel.Submit(pointers);
    KVBED_RETURN_IF_ERROR(channel.Reap(pointers.size(), done));
    for (const StoreRequest& request : requests) KVBED_RETURN_IF_ERROR(request.status);
    return Status::Ok();
  }

  std::vector<RecordId> ids_;
  AlignedBuffer memory_;
  std::vector<std::byte> kept_;
};

class VerbCases {
 public:
  VerbCases(const StoreUnderTest& under, CaseLog& log) : under_(under), log_(log) {}

  Status Run() {
    using Case = Status (VerbCases::*)(BlockStore&, CaseResult&);
    constexpr std::pair<const char*, Case> kCases[] = {
        {"whole_ids", &VerbCases::WholeIds},  {"last_put_counts", &VerbCases::LastPutCounts},
        {"exists", &VerbCases::Exists},       {"list", &VerbCases::List},
        {"remove", &VerbCases::Remove},       {"flush", &VerbCases::Flushes},
        {"manifests", &VerbCases::Manifests}, {"close", &VerbCases::Close}};
    for (const auto& [verb, run] : kCases) {
      const std::string name = fmt::format("store/verbs/{}", verb);
      if (log_.stopped()) return InterruptedStatus();
      if (!log_.Wants(name)) continue;
      CaseResult result = log_.Start(name, CaseKind::kRoundtrip);
      KVBED_RETURN_IF_ERROR(TakeStatus(result, OpenAndRun(run, result)));
      log_.Finish(std::move(result));
    }
    return Status::Ok();
  }

 private:
  template <class Case>
  Status OpenAndRun(Case run, CaseResult& result) {
    const CampaignOptions& options = under_.options;
    KVBED_ASSIGN_OR_RETURN(const auto store, options.open(nullptr, *options.store,
                                                          {.access = StoreAccess::kWrite,
                                                           .defaults = options.settings}));
    random_.seed(result.seed);
    if (const auto state = StateOfExternalStore(*store)) {
      can_ = state->capabilities;
      external_ = true;
    }
    return (this->*run)(*store, result);
  }

  // Never one of an earlier run, whose records may be there still.
  RecordId AnyId() {
    std::array<std::byte, kRecordIdBytes> bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    RecordId id = RecordId::Decode(bytes);
    id.key.sequence_id = RandomId();
    id.generation |= 1;
    return id;
  }

  // Whether the case goes on; else it is skipped by name.
  bool Declares(bool capability, const char* verb, const char* instead, CaseResult& result) const {
    if (!external_) SkipCase(result, "a store of kvbed's own has no such verb");
    if (external_ && !capability) {
      SkipCase(result, fmt::format("the store doesn't declare {}: {}", verb, instead));
    }
    return external_ && capability;
  }

  // Of lossy stores too: which record came is told by its bytes, and theirs may differ.
  bool KeepsBytes(CaseResult& result) const {
    if (!under_.skipped.empty()) SkipCase(result, under_.skipped);
    return under_.skipped.empty();
  }

  // Ids that differ in one byte each, at all of their places.
  Status WholeIds(BlockStore& store, CaseResult& result) {
    if (!KeepsBytes(result)) return Status::Ok();
    std::vector<RecordId> ids = {AnyId()};
    std::array<std::byte, kRecordIdBytes> bytes;
    for (size_t at = 0; at < kRecordIdBytes; ++at) {
      ids.front().Encode(bytes);
      bytes[at] ^= std::byte{0x10};
      ids.push_back(RecordId::Decode(bytes));
    }
    VerbRecords records(random_(), ids);
    KVBED_RETURN_IF_ERROR(records.Put(store));
    if (std::string wrong = records.Get(store); !wrong.empty()) {
      result.served_wrong = 1;
      FailCase(result, "ids that differ in one byte alone: " + wrong);
    }
    store.Discard(records.ids());
    return Status::Ok();
  }

  Status LastPutCounts(BlockStore& store, CaseResult& result) {
    if (!KeepsBytes(result)) return Status::Ok();
    VerbRecords records(random_(), {AnyId(), AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    store.Discard(records.ids());
    records.Fill(random_());
    KVBED_RETURN_IF_ERROR(records.Put(store));
    if (std::string wrong = records.Get(store); !wrong.empty()) {
      result.served_wrong = 1;
      FailCase(result, "ids that were put again with other bytes: " + wrong);
    }
    store.Discard(records.ids());
    return Status::Ok();
  }

  Status Exists(BlockStore& store, CaseResult& result) {
    if (!Declares(can_.exists, "exists", "kvbed doesn't ask it", result)) return Status::Ok();
    VerbRecords records(random_(), {AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    const RecordId asked[] = {records.ids()[0], AnyId()};
    KVBED_ASSIGN_OR_RETURN(const std::vector<bool> exist, ExternalExists(store, asked));
    if (!exist[0]) FailCase(result, "exists: it denies a record that was just put");
    if (exist[1]) FailCase(result, "exists: it claims a record that was never put");
    store.Discard(records.ids());
    return Status::Ok();
  }

  Status List(BlockStore& store, CaseResult& result) {
    if (!Declares(can_.list, "list", "kvbed can't see what else it holds", result)) {
      return Status::Ok();
    }
    KVBED_ASSIGN_OR_RETURN(const std::vector<RecordId> before, ExternalList(store));
    VerbRecords records(random_(), {AnyId(), AnyId(), AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    std::vector<RecordId> expected = before;
    expected.insert(expected.end(), records.ids().begin(), records.ids().end());
    std::ranges::sort(expected);
    KVBED_ASSIGN_OR_RETURN(std::vector<RecordId> listed, ExternalList(store));
    std::ranges::sort(listed);
    if (listed != expected) {
      FailCase(result, fmt::format("list: {} ids before three puts and {} after, and they aren't "
                                   "the old ones and those three",
                                   before.size(), listed.size()));
    }
    store.Discard(records.ids());
    KnowsWhatItLists(store, before, result);
    return Status::Ok();
  }

  // Of what was there before, the first and the last few ids: whatever their records' size is, they
  // must be found.
  void KnowsWhatItLists(BlockStore& store, const std::vector<RecordId>& before,
                        CaseResult& result) {
    constexpr size_t kAsked = 8;
    std::vector<RecordId> asked = before;
    if (before.size() > 2 * kAsked) {
      asked.erase(asked.begin() + kAsked, asked.end() - kAsked);
    }
    if (asked.empty()) return;
    VerbRecords records(random_(), asked);
    const std::vector<Status> statuses = records.GetFromChild(store);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (statuses[i].code() != StatusCode::kNotFound) continue;
      FailCase(result,
               fmt::format("list: it names {}, which a get doesn't find", asked[i].ToHex()));
    }
  }

  Status Remove(BlockStore& store, CaseResult& result) {
    if (!Declares(can_.remove, "remove", "its records stay for ever", result)) return Status::Ok();
    VerbRecords records(random_(), {AnyId(), AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    store.Discard(records.ids());
    for (const Status& status : records.GetFromChild(store)) {
      if (status.code() == StatusCode::kNotFound) continue;
      FailCase(result, status.ok() ? std::string("remove: it gives a record that was removed")
                                   : fmt::format("remove: a get of what was removed: {}",
                                                 status.message()));
    }
    return Status::Ok();
  }

  Status Flushes(BlockStore& store, CaseResult& result) {
    if (!Declares(can_.flush, "flush", "each put counts as durable", result)) return Status::Ok();
    VerbRecords records(random_(), {AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    KVBED_RETURN_IF_ERROR(store.Flush());
    store.Discard(records.ids());
    return Status::Ok();
  }

  Status Manifests(BlockStore& store, CaseResult& result) {
    if (!Declares(can_.manifests, "manifests", "kvbed keeps them", result)) return Status::Ok();
    const std::string name = fmt::format("kvbed-verify-verbs-{:016x}", random_());
    KVBED_ASSIGN_OR_RETURN(SeededKv kv,
                           SeededKv::Create(kTrialGeometry, random_() | 1, kTrialTokens));
    KVBED_ASSIGN_OR_RETURN(const PutSnapshot put, PutSeeded(store, kv, {.name = name}));
    KVBED_RETURN_IF_ERROR(RestartExternalStore(store, ChildEnd::kClose));
    KVBED_ASSIGN_OR_RETURN(const Manifest read, store.ReadManifest(name));
    if (read != put.manifest)
      FailCase(result, "manifests: another one came back than was committed");
    KVBED_RETURN_IF_ERROR(store.RemoveManifest(name));
    KVBED_RETURN_IF_ERROR(RestartExternalStore(store, ChildEnd::kClose));
    if (store.ReadManifest(name).ok()) {
      FailCase(result, "manifests: one that was removed is there again");
    }
    return Status::Ok();
  }

  Status Close(BlockStore& store, CaseResult& result) {
    if (!Declares(true, "close", "", result)) return Status::Ok();
    VerbRecords records(random_(), {AnyId()});
    KVBED_RETURN_IF_ERROR(records.Put(store));
    store.Discard(records.ids());
    return RestartExternalStore(store, ChildEnd::kClose);
  }

  const StoreUnderTest& under_;
  CaseLog& log_;
  std::mt19937_64 random_;
  bool external_ = false;
  ExternalCapabilities can_;
};

}  // namespace

Status RunStoreVerbs(const CampaignOptions& options, CaseLog& log) {
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(options));
  return VerbCases(under, log).Run();
}

}  // namespace kvbed
