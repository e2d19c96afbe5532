// The disk of a faulty Io: it plays a fault plan, remembers what a power cut would take back, and
// logs the order of operations. It doesn't know stores; queues and the faulty Io ask it before and
// after each operation, from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device_call.h"
#include "backends/unsynced_log.h"
#include "offload/aligned_buffer.h"
#include "offload/fault_plan.h"
#include "offload/status.h"

namespace kvbed {

class FaultDevice {
 public:
  // With `power_cuts` the bytes under each write are kept in memory until a sync covers them;
  // without it a power cut only stops the device.
  // Without `syncs` a sync is taken for done and the kernel isn't asked: what is durable is then
  // the model's alone, and costs nothing.
  struct Options {
    bool power_cuts = true;
    bool syncs = true;
  };

  explicit FaultDevice(FaultPlan plan = {});
  FaultDevice(FaultPlan plan, Options options);
  FaultDevice(const FaultDevice&) = delete;
  FaultDevice& operator=(const FaultDevice&) = delete;
  ~FaultDevice();

  // Power goes now: everything since the last syncs is taken back (kLostWrites), or a seeded
  // subset of it (kReorderedWrites), as soon as no operation is in flight. Every later operation
  // fails; a fresh Io on another device opens what is left. A fault of these kinds in the plan does
  // the same right before the operation that it strikes.
  void PowerCut(FaultKind how = FaultKind::kLostWrites);
  // The process is gone after `count` more operations: those that follow fail, nothing is taken
  // back. An operation is a call of Io, or one attempt of a queue to move or sync data.
  void CrashAfter(uint64_t count);

  // From here on another plan is played, and struck and the trace begin anew.
  void Play(FaultPlan plan);
  bool syncs() const { return options_.syncs; }

  // Not ok: a power cut couldn't be played to its end, so what is on disk means nothing.
  Status power_cut_status() const;
  bool dead() const;            // after a power cut or a crash
  uint64_t operations() const;  // so far, for sweeps of CrashAfter over 0..operations
  uint64_t struck() const;      // faults that were played

  // What happened, in order: "open slab.dat", "write slab.dat 4096+8192", "fdatasync slab.dat",
  // "rename a -> b", "sync_dir kv", with file names less their folder. A transfer stands where it
  // completed and everything else where it began, so a sync that didn't wait for its write
  // shows. Failures end in " failed". Reads of names and lengths aren't logged.
  std::vector<std::string> Trace() const;
  void ClearTrace();

  // How one attempt of a queue goes on. Stays in place until End.
  struct Attempt {
    DeviceCall call;                // what the kernel shall do instead of what was asked
    std::optional<int64_t> answer;  // or the result without asking the kernel
    uint64_t delay_ns = 0;          // or: ask again so much later, with `delayed`; no End

    // The device's own.
    DeviceCall asked;
    int64_t claim_bytes = -1;  // the result to report for a success, when not the kernel's
    bool flip = false;         // one bit of what is read:
    uint64_t flip_number = 0;  // as Fault::amount
    AlignedBuffer substitute;  // what is written instead of the caller's bytes
    std::optional<uint64_t> ticket;
  };
  Attempt Begin(const DeviceCall& asked, bool delayed);
  // Returns the result to believe.
  int64_t End(Attempt& attempt, int64_t result);

  // The faulty Io's: a call that is no transfer. 0: do it, then Leave; else the errno it fails
  // with. An empty line isn't logged.
  int Enter(FaultTarget target, std::string_view line);
  void Leave(std::string_view line, bool ok);
  // Tells `change` the log of what a power cut takes back, when there is one.
  template <class Change>
  void Note(Change change) {
    const std::lock_guard lock(mutex_);
    if (options_.power_cuts) change(unsynced_);
  }

 private:
  // All with the mutex held.
  bool CountOperation();
  void CutPower(FaultKind how);
  void RollBackWhenQuiet();
  Status Spoil(const Fault& fault, Attempt& attempt);
  uint64_t BitOf(uint64_t number, uint64_t length_bytes);
  Status OpenTicket(Attempt& attempt);
  int64_t SpoilResult(const Attempt& attempt, int64_t result);

  const Options options_;
  mutable std::mutex mutex_;  // guards all below
  FaultScript script_;
  UnsyncedLog unsynced_;
  std::vector<std::string> trace_;
  uint64_t operations_ = 0;
  uint64_t operations_max_ = std::numeric_limits<uint64_t>::max();
  uint64_t in_flight_ = 0;
  bool dead_ = false;
  std::optional<FaultKind> cut_;  // decided, not yet rolled back
  Status power_cut_status_;
};

}  // namespace kvbed
