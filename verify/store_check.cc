#include "verify/store_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "offload/block_pool.h"
#include "offload/clock.h"
#include "offload/damage.h"
#include "offload/record.h"

namespace kvbed {
namespace {

// What is spent on explaining bad records, and on finding out where they lie, which for some stores
// is a search.
constexpr uint64_t kExplainRecordsNs = 500'000'000;
constexpr uint64_t kLocateNs = 1'000'000'000;

std::optional<RecordId> NameRecord(Bytes header_page) {
  const auto header = DecodeRecordHeader(header_page);
  return header.ok() ? std::optional(header->id) : std::nullopt;
}

// A manifest that a read found damaged, and not one that another version may read.
bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound;
}

// One record to check: what it must be, and which snapshots say so.
struct RecordJob {
  RecordHeader expected;
  Digest128 digest;
  uint64_t place = 0;
  std::vector<uint32_t> snapshots;  // indices into the check's
};

// Snapshots of one sequence share records; those of one record size, memory.
struct SequenceGroup {
  uint64_t record_bytes = 0;
  RecordKey sequence;  // block index 0
  std::vector<uint32_t> snapshots;
};

// A place in the pool and the record that is read into it.
struct RecordRead {
  StoreRequest request;
  RecordJob job;
  std::optional<Finding> first;  // of the first read, while it is read again
  Digest128 first_bytes;
};

class StoreChecker {
 public:
  StoreChecker(BlockStore& store, const StoreCheckOptions& options)
      : store_(store), options_(options) {}

  Result<StoreCheck> Run() {
    KVBED_RETURN_IF_ERROR(FindSnapshots());
    KVBED_RETURN_IF_ERROR(FindSequences());
    const uint64_t start_ns = MonotonicNs();
    for (auto group = groups_.begin(); group != groups_.end();) {
      const auto end = std::find_if(group, groups_.end(), [&](const SequenceGroup& other) {
        return other.record_bytes != group->record_bytes;
      });
      KVBED_RETURN_IF_ERROR(CheckGroups({group, end}));
      group = end;
    }
    check_.wall_ns = MonotonicNs() - start_ns;
    ForgetChanged();
    for (CheckedSnapshot& snapshot : check_.snapshots) Judge(snapshot);
    std::sort(check_.findings.begin(), check_.findings.end(),
              [](const RecordFinding& a, const RecordFinding& b) {
                return std::tie(a.snapshots, a.finding.id) < std::tie(b.snapshots, b.finding.id);
              });
    if (options_.snapshot.empty()) {
      auto leftovers = store_.ListLeftovers(NameRecord);
      check_.leftovers_status = leftovers.status();
      if (leftovers.ok()) check_.leftovers = std::move(*leftovers);
    }
    return std::move(check_);
  }

 private:
  Status FindSnapshots() {
    KVBED_ASSIGN_OR_RETURN(const auto summaries, store_.ListManifests());
    for (const ManifestSummary& summary : summaries) {
      if (!options_.snapshot.empty() && summary.name != options_.snapshot) continue;
      check_.snapshots.emplace_back().summary = summary;
    }
    if (options_.snapshot.empty() || !check_.snapshots.empty()) return Status::Ok();
    return Status::NotFound(fmt::format("there is no snapshot {}", options_.snapshot));
  }

  // Manifests are read one at a time, here and once more when their records are: together they may
  // be large.
  Status FindSequences() {
    for (uint32_t i = 0; i < check_.snapshots.size(); ++i) {
      ManifestSummary& summary = check_.snapshots[i].summary;
      if (!summary.status.ok()) continue;
      const auto manifest = store_.ReadManifest(summary.name);
      if (!manifest.ok()) {
        summary.status = manifest.status();
        continue;
      }
      summary.created_ns = manifest->created_ns;
      groups_.push_back({manifest->geometry.record_bytes(),
                         {manifest->model.Fingerprint(), manifest->sequence_id, 0},
                         {i}});
      // Shared records are counted more than once here, and the bar then ends early.
      total_bytes_ += manifest->stored_bytes();
    }
    std::stable_sort(
        groups_.begin(), groups_.end(), [](const SequenceGroup& a, const SequenceGroup& b) {
          return std::tie(a.record_bytes, a.sequence) < std::tie(b.record_bytes, b.sequence);
        });
    std::vector<SequenceGroup> merged;
    for (SequenceGroup& one : groups_) {
      const bool same = !merged.empty() && merged.back().record_bytes == one.record_bytes &&
                        merged.back().sequence == one.sequence;
      if (same) {
        merged.back().snapshots.push_back(one.snapshots.front());
      } else {
        merged.push_back(std::move(one));
      }
    }
    groups_ = std::move(merged);
    return Status::Ok();
  }

  // The records of all snapshots of a sequence, each once.
  void LoadJobs(const SequenceGroup& group) {
    std::unordered_map<RecordId, size_t, RecordIdHash> known;
    for (const uint32_t index : group.snapshots) {
      ManifestSummary& summary = check_.snapshots[index].summary;
      const auto manifest = store_.ReadManifest(summary.name);
      if (!manifest.ok()) {
        summary.status = manifest.status();
        continue;
      }
      for (uint64_t i = 0; i < manifest->blocks.size(); ++i) {
        const ManifestBlock& block = manifest->blocks[i];
        RecordJob job{manifest->ExpectedHeader(i), block.digest, block.place, {index}};
        const auto [at, added] = known.try_emplace(block.id, jobs_.size());
        RecordJob* const before = added ? nullptr : &jobs_[at->second];
        if (before != nullptr && before->expected == job.expected && before->digest == job.digest) {
          before->snapshots.push_back(index);
        } else {
          jobs_.push_back(std::move(job));
        }
      }
    }
  }

  // Groups of one record size. The queue goes on from one to the next.
  Status CheckGroups(std::span<const SequenceGroup> groups) {
    if (!PrepareJobs(groups)) return Status::Ok();
    const uint64_t fitting = options_.memory_bytes / groups.front().record_bytes;
    const auto reads =
        static_cast<uint32_t>(std::clamp<uint64_t>(fitting, 1, uint64_t{2} * options_.iodepth));
    KVBED_ASSIGN_OR_RETURN(const auto pool,
                           BlockPool::Create(jobs_.front().expected.geometry, reads));
    KVBED_ASSIGN_OR_RETURN(StoreChannel channel,
                           store_.OpenChannel({std::min(options_.iodepth, reads), pool->memory()}));
    std::vector<RecordRead> all(reads);
    std::vector<RecordRead*> idle;
    for (uint32_t i = 0; i < reads; ++i) {
      all[i].request.record = pool->record(i);
      idle.push_back(&all[i]);
    }
    std::deque<RecordRead*> landed;
    std::vector<StoreRequest*> submit, completed;
    Status stopped;
    while (true) {
      submit.clear();
      if (stopped.ok() && options_.stop && options_.stop()) {
        stopped = Status::IoError("the check was stopped");
      }
      while (stopped.ok() && !idle.empty() && PrepareJobs(groups)) {
        RecordRead* const read = idle.back();
        idle.pop_back();
        read->job = std::move(jobs_.front());
        jobs_.pop_front();
        Prepare(*read);
        submit.push_back(&read->request);
      }
      if (!submit.empty()) channel.Submit(submit);
      if (channel.outstanding() == 0 && landed.empty()) break;
      if (channel.outstanding() > 0) {
        completed.clear();
        KVBED_RETURN_IF_ERROR(channel.Reap(landed.empty() ? 1 : 0, completed));
        for (StoreRequest* request : completed) {
          landed.push_back(static_cast<RecordRead*>(request->owner));
        }
      }
      if (landed.empty()) continue;
      RecordRead* const read = landed.front();
      landed.pop_front();
      if (Settle(*read)) {
        idle.push_back(read);
      } else {
        Prepare(*read);
        StoreRequest* const again = &read->request;
        channel.Submit({&again, 1});
      }
    }
    return stopped;
  }

  // Whether there is a job of these groups.
  bool PrepareJobs(std::span<const SequenceGroup> groups) {
    if (groups.data() != loading_) {
      loading_ = groups.data();
      loaded_ = 0;
    }
    while (jobs_.empty() && loaded_ < groups.size()) LoadJobs(groups[loaded_++]);
    return !jobs_.empty();
  }

  static void Prepare(RecordRead& read) {
    StoreRequest& request = read.request;
    request.op = StoreRequest::Op::kGet;
    request.id = read.job.expected.id;
    request.digest = read.job.digest;
    request.place = read.job.place;
    request.owner = &read;
    // Tells "not copied" from what an earlier record left there.
    const MutableBytes page = request.record.first(kPageBytes);
    std::fill(page.begin(), page.end(), kPoisonByte);
  }

  // Whether the record is done with; one that failed is read again first.
  bool Settle(RecordRead& read) {
    const Status& status = read.request.status;
    const bool failed = !status.ok() && !IsDamage(status);
    std::optional<Finding> finding = failed ? std::nullopt : Verify(read);
    const Bytes record = read.request.record;
    if (!read.first && finding) {
      Explain(read, *finding);
      read.first = std::move(finding);
      read.first_bytes = Xxh3_128(record);
      return false;
    }
    if (read.first) {
      Finding first = std::move(*read.first);
      read.first.reset();
      first.reread = failed                          ? Reread::kFailed
                     : !finding                      ? Reread::kGood
                     : IsSame(first, *finding, read) ? Reread::kSame
                                                     : Reread::kDifferent;
      Note(read.job, std::move(first), finding.has_value());
    } else if (failed) {
      Note(read.job, status);
    }
    ++check_.records;
    check_.read_bytes += record.size();
    if (options_.progress) options_.progress(check_.read_bytes, total_bytes_);
    return true;
  }

  static bool IsSame(const Finding& first, const Finding& second, const RecordRead& read) {
    if (HasNoBytes(first) || HasNoBytes(second)) return first.check == second.check;
    return read.first_bytes == Xxh3_128(read.request.record);
  }

  // A finding of which there are no bytes to look at.
  static bool HasNoBytes(const Finding& finding) {
    return finding.check == Check::kShort || finding.check == Check::kMissing ||
           finding.check == Check::kStore;
  }

  std::optional<Finding> Verify(const RecordRead& read) {
    const StoreRequest& request = read.request;
    if (request.status.ok()) {
      const uint64_t before_ns = MonotonicNs();
      auto finding = VerifyRecord(request.record, read.job.expected, read.job.digest);
      check_.verify_ns += MonotonicNs() - before_ns;
      return finding;
    }
    const bool missing = request.status.code() == StatusCode::kNotFound;
    Finding finding;
    finding.check = missing ? Check::kMissing : request.short_bytes ? Check::kShort : Check::kStore;
    finding.id = request.id;
    finding.first_token = read.job.expected.first_position;
    finding.token_count = read.job.expected.tokens_used;
    finding.byte_offset = request.short_bytes;
    finding.expected = "the record";
    finding.actual = missing ? "no such record" : "damaged, as the store says";
    if (request.short_bytes) {
      finding.expected = fmt::format("{} bytes", request.record.size());
      finding.actual = fmt::format("{} bytes", *request.short_bytes);
    }
    finding.message = request.status.message();
    return finding;
  }

  void Explain(const RecordRead& read, Finding& finding) {
    if (!HasNoBytes(finding) && explained_ns_ < kExplainRecordsNs) {
      const uint64_t before_ns = MonotonicNs();
      ExplainDamage(read.request.record, read.job.expected, read.job.digest, finding);
      explained_ns_ += MonotonicNs() - before_ns;
    }
    if (located_ns_ < kLocateNs) {
      const uint64_t before_ns = MonotonicNs();
      if (const auto place = store_.Locate(finding.id, read.job.place); place.ok()) {
        finding.place = fmt::format("{} at {}", place->path, place->offset);
      }
      located_ns_ += MonotonicNs() - before_ns;
    }
  }

  void Note(const RecordJob& job, Finding finding, bool bad_again) {
    const bool missing = finding.check == Check::kMissing;
    for (const uint32_t index : job.snapshots) {
      CheckedSnapshot& snapshot = check_.snapshots[index];
      ++(missing ? snapshot.missing_records : snapshot.damaged_records);
      if (bad_again) snapshot.lost = true;
    }
    ++(missing ? check_.missing_records : check_.damaged_records);
    if (check_.findings.size() < StoreCheck::kFindingsMax) {
      check_.findings.push_back({std::move(finding), NamesOf(job)});
    }
  }

  void Note(const RecordJob& job, const Status& failed) {
    for (const uint32_t index : job.snapshots) ++check_.snapshots[index].unread_records;
    ++check_.unread_records;
    if (check_.unread.size() < StoreCheck::kFindingsMax) {
      check_.unread.push_back({job.expected.id, failed, NamesOf(job)});
    }
  }

  std::vector<std::string> NamesOf(const RecordJob& job) const {
    std::vector<std::string> names;
    for (const uint32_t index : job.snapshots) {
      names.push_back(check_.snapshots[index].summary.name);
    }
    return names;
  }

  // Where others may remove and replace snapshots, what looks lost may only be gone.
  bool IsAsItWas(const CheckedSnapshot& snapshot) {
    const auto manifest = store_.ReadManifest(snapshot.summary.name);
    if (!manifest.ok()) return manifest.status().code() != StatusCode::kNotFound;
    return !snapshot.summary.status.ok() || manifest->created_ns == snapshot.summary.created_ns;
  }

  void ForgetChanged() {
    std::vector<std::string> changed;
    std::erase_if(check_.snapshots, [&](const CheckedSnapshot& snapshot) {
      const uint64_t bad =
          snapshot.damaged_records + snapshot.missing_records + snapshot.unread_records;
      const bool suspect = bad > 0 || snapshot.summary.status.code() == StatusCode::kNotFound;
      if (!suspect || IsListedAsDamaged(snapshot) || IsAsItWas(snapshot)) return false;
      changed.push_back(snapshot.summary.name);
      return true;
    });
    if (changed.empty()) return;
    const auto forget = [&](std::vector<std::string>& names) {
      std::erase_if(names, [&](const std::string& name) {
        return std::find(changed.begin(), changed.end(), name) != changed.end();
      });
      return names.empty();
    };
    std::erase_if(check_.findings, [&](RecordFinding& one) {
      if (!forget(one.snapshots)) return false;
      --(one.finding.check == Check::kMissing ? check_.missing_records : check_.damaged_records);
      return true;
    });
    std::erase_if(check_.unread, [&](UnreadRecord& one) {
      if (!forget(one.snapshots)) return false;
      --check_.unread_records;
      return true;
    });
  }

  // A name without a manifest that can be found, as the store lists it: a link to nowhere.
  bool IsListedAsDamaged(const CheckedSnapshot& snapshot) {
    if (snapshot.summary.status.ok()) return false;
    const auto summaries = store_.ListManifests();
    return summaries.ok() &&
           std::any_of(summaries->begin(), summaries->end(), [&](const ManifestSummary& one) {
             return one.name == snapshot.summary.name;
           });
  }

  static void Judge(CheckedSnapshot& snapshot) {
    const Status& manifest = snapshot.summary.status;
    if (!manifest.ok()) {
      snapshot.lost = IsDamage(manifest);
      snapshot.state = snapshot.lost                                  ? SnapshotState::kDamaged
                       : manifest.code() == StatusCode::kNotSupported ? SnapshotState::kNewer
                                                                      : SnapshotState::kUnread;
      snapshot.why = manifest.message();
      return;
    }
    const auto add = [&](uint64_t records, std::string_view what) {
      if (records == 0) return;
      if (!snapshot.why.empty()) snapshot.why += ", ";
      snapshot.why += fmt::format("{} of {} records {}", records, snapshot.summary.blocks, what);
    };
    add(snapshot.damaged_records, "damaged");
    add(snapshot.missing_records, "missing");
    add(snapshot.unread_records, "could not be read");
    const uint64_t bad = snapshot.damaged_records + snapshot.missing_records;
    if (bad > 0 && !snapshot.lost) snapshot.why += ", but right when read again";
    if (snapshot.unread_records > 0) snapshot.state = SnapshotState::kUnread;
    if (snapshot.damaged_records + snapshot.missing_records > 0) {
      snapshot.state = SnapshotState::kDamaged;
    }
  }

  BlockStore& store_;
  const StoreCheckOptions options_;
  StoreCheck check_;
  std::vector<SequenceGroup> groups_;
  const SequenceGroup* loading_ = nullptr;
  size_t loaded_ = 0;  // of the groups that are being loaded
  std::deque<RecordJob> jobs_;
  uint64_t total_bytes_ = 0;
  uint64_t explained_ns_ = 0;
  uint64_t located_ns_ = 0;
};

}  // namespace

std::string_view SnapshotStateName(SnapshotState state) {
  switch (state) {
    case SnapshotState::kWhole: return "whole";
    case SnapshotState::kDamaged: return "damaged";
    case SnapshotState::kUnread: return "unread";
    case SnapshotState::kNewer: return "newer";
  }
  return "unknown";
}

bool StoreCheck::damaged() const {
  return std::any_of(snapshots.begin(), snapshots.end(), [](const CheckedSnapshot& snapshot) {
    return snapshot.state == SnapshotState::kDamaged;
  });
}

bool StoreCheck::all_read() const {
  return leftovers_status.ok() && unread_records == 0 &&
         std::none_of(snapshots.begin(), snapshots.end(), [](const CheckedSnapshot& snapshot) {
           return snapshot.state == SnapshotState::kUnread ||
                  snapshot.state == SnapshotState::kNewer;
         });
}

Result<StoreCheck> CheckStore(BlockStore& store, const StoreCheckOptions& options) {
  return StoreChecker(store, options).Run();
}

}  // namespace kvbed
