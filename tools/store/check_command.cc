// kvbed store check: reads and verifies all that is in a store, and with --repair drops what is
// damaged.
#include "tools/store/check_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store/check_report.h"
#include "tools/store/opened_store.h"

namespace kvbed {
namespace {

struct CheckCommandOptions {
  StoreCommandOptions common;
  bool repair = false;
};

class StoreCheckJob {
 public:
  explicit StoreCheckJob(const CheckCommandOptions& options) : options_(options) {}

  Result<int> Run() {
    KVBED_ASSIGN_OR_RETURN(opened_, OpenForCommand(options_.common, StoreAccess::kRead));
    report_.spec = options_.common.store.spec;
    report_.snapshot = opened_.named.spec.snapshot;
    KVBED_RETURN_IF_ERROR(CheckNameIsThere());
    KVBED_RETURN_IF_ERROR(Check());
    Describe();
    if (options_.repair) Repair();
    AddCheckJson(report_, opened_.json);
    KVBED_RETURN_IF_ERROR(EmitResult(options_.common.output, CheckText(report_), opened_.json));
    return ExitCodeOf(report_);
  }

 private:
  Status CheckNameIsThere() {
    if (report_.snapshot.empty()) return Status::Ok();
    const auto manifest = ReadSnapshot(*opened_.store, report_.snapshot);
    const bool absent = !manifest.ok() && manifest.status().code() == StatusCode::kNotFound;
    return absent ? manifest.status() : Status::Ok();
  }

  StoreCheckOptions Settings() const {
    StoreCheckOptions settings;
    settings.snapshot = report_.snapshot;
    settings.iodepth = opened_.named.settings.iodepth;
    settings.stop = [] { return Interrupted(); };
    return settings;
  }

  Status Check() {
    StoreCheckOptions settings = Settings();
    std::optional<Progress> progress;
    constexpr uint64_t kMegabyte = 1'000'000;
    settings.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
      if (!progress) progress.emplace("check", total_bytes / kMegabyte, "MB");
      progress->Update(done_bytes / kMegabyte);
    };
    auto check = CheckStore(*opened_.store, settings);
    if (Interrupted()) return InterruptedStatus();
    KVBED_RETURN_IF_ERROR(check.status());
    report_.check = std::move(*check);
    return Status::Ok();
  }

  bool HasUnreadable() const {
    return std::any_of(report_.check.snapshots.begin(), report_.check.snapshots.end(),
                       [](const CheckedSnapshot& one) { return !one.summary.status.ok(); });
  }

  // Nothing is opened for writing when there is nothing to do: a store that is whole stays bit for
  // bit as it is.
  void Repair() {
    RepairOutcome& outcome = report_.outcome.emplace();
    const bool lost = std::any_of(report_.check.snapshots.begin(), report_.check.snapshots.end(),
                                  [](const CheckedSnapshot& one) { return one.lost; });
    const uint64_t to_sweep = report_.check.leftovers.swept_by_a_writer();
    if (!lost && to_sweep == 0) return;
    const StoreInfo before = opened_.store->info();
    // From here on an error must hide neither what was found nor what was done.
    outcome.repair.failure = Reopen(StoreAccess::kWrite);
    if (!outcome.repair.failure.ok()) return;
    outcome.changed = true;
    outcome.repair = RepairStore(*opened_.store, report_.check, Settings());
    NoteRepaired(before);
    if (!HasUnreadable()) return;
    // What an unreadable manifest could have named is swept when the store is opened without it.
    if (Status reopened = Reopen(StoreAccess::kWrite); reopened.ok()) {
      NoteRepaired(before);
    } else if (outcome.repair.failure.ok()) {
      outcome.repair.failure = reopened;
    }
  }

  // What the repair has changed until now.
  void NoteRepaired(const StoreInfo& before) {
    RepairOutcome& outcome = *report_.outcome;
    Describe();
    const StoreInfo& after = report_.store;
    outcome.freed_records = before.records - std::min(before.records, after.records);
    outcome.freed_bytes =
        before.logical_bytes - std::min(before.logical_bytes, after.logical_bytes);
    outcome.filesystem_bytes_back =
        before.allocated_bytes - std::min(before.allocated_bytes, after.allocated_bytes);
    const uint64_t to_sweep = report_.check.leftovers.swept_by_a_writer();
    if (to_sweep == 0) return;
    const auto left = opened_.store->ListLeftovers(nullptr);
    if (left.ok()) outcome.swept = to_sweep - std::min(to_sweep, left->swept_by_a_writer());
  }

  void Describe() {
    report_.store = opened_.store->info();
    DescribeStore(opened_);
  }

  Status Reopen(StoreAccess access) {
    opened_.store.reset();
    KVBED_ASSIGN_OR_RETURN(opened_.store, OpenNamed(opened_.named, access, 0));
    return Status::Ok();
  }

  const CheckCommandOptions& options_;
  OpenedStore opened_;
  CheckReport report_;
};

}  // namespace

void AddStoreCheckCommand(CommandLine& line) {
  CheckCommandOptions& options = line.Own<CheckCommandOptions>();
  OptionSet set = line.AddCommand(
      "store check", "read and verify everything in a store; --repair drops what is damaged");
  set.Group("Store");
  set.Required(set.Text("SPEC", "SPEC",
                        "slab:DIR, rocksdb:DIR or files:DIR; 'DIR#NAME' for one snapshot only",
                        options.common.store.spec));
  set.Flag("--repair", options.repair,
           "remove snapshots with a damaged or missing record, damaged manifests and leftovers");
  AddStoreTuningOptions(set, options.common.store);
  AddOutputOptions(set, options.common.output);
  set.Footer(
      "Without --repair nothing is changed, and a read-only folder will do. Each record that a\n"
      "manifest names is read once and checked as a restore does it. A line for each finding:\n"
      "  damaged       a record or manifest whose bytes are wrong; a bad record is read twice\n"
      "  missing       a record that a manifest names and the store hasn't\n"
      "  unread        what an I/O error kept from being checked: --repair leaves it\n"
      "  newer         a manifest of another version of kvbed: --repair leaves it\n"
      "  unreferenced  a record that no manifest names. In a free slot of a slab that is normal:\n"
      "                it is written over. Else it is what a killed writer left, or one at work\n"
      "  temporary     a file that a killed writer left\n"
      "  unknown       a file that isn't the store's: left alone\n"
      "--repair can't bring bytes back. It drops snapshots that can't be restored in whole, each\n"
      "checked once more before, so that the others' room is known again; those stay bit for "
      "bit.\n\n"
      "Exit codes: 0 all is whole; 1 something is damaged or missing, also when --repair dropped\n"
      "it (the next check then says 0); 2 usage; 4 no such store or snapshot, in use, I/O error,\n"
      "or written by a newer kvbed.\n\n"
      "Examples:\n"
      "  kvbed store check slab:/data/kv\n"
      "  kvbed store check 'slab:/data/kv#s1' -o json\n"
      "  kvbed store check slab:/data/kv --repair");
  line.SetFunction("store check",
                   [&options] { return EndOfStoreCommand(StoreCheckJob(options).Run()); });
}

}  // namespace kvbed
