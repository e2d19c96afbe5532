// What `kvbed store check` found and did, as text and as JSON.
#pragma once

#include <optional>
#include <string>

#include "offload/block_store.h"
#include "tools/result_json.h"
#include "verify/store_check.h"
#include "verify/store_repair.h"

namespace kvbed {

// What --repair did.
struct RepairOutcome {
  bool changed = false;  // false: nothing to do, and nothing was opened for writing
  StoreRepair repair;
  uint64_t swept = 0;          // temporary files and records of no manifest that are gone
  uint64_t freed_records = 0;  // that the dropped snapshots alone named
  uint64_t freed_bytes = 0;    // of these records
  uint64_t filesystem_bytes_back = 0;
};

struct CheckReport {
  std::string spec;      // as it was given
  std::string snapshot;  // the only one that was checked; empty: all
  StoreInfo store;       // after a repair, when there was one
  StoreCheck check;      // before it
  std::optional<RepairOutcome> outcome;
};

// 1 when something is damaged or missing, dropped since or not; else 4 when something could not be
// read, or is a newer version's; else 0.
int ExitCodeOf(const CheckReport& report);

// One line for each finding.
std::string CheckText(const CheckReport& report);

// Adds {check, snapshots, findings, unread, damaged, missing, unreferenced, temporary, unknown,
// repair} to a kvbed-store/1, and its status and reasons.
void AddCheckJson(const CheckReport& report, Json& json);

}  // namespace kvbed
