// What a store must still hold after a crash: for each name nothing, or one of some snapshots. It
// is told of changes as they begin and end, lies outside the store, and doesn't know what crashed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/manifest.h"
#include "offload/status.h"

namespace kvbed {

struct OracleVerdict {
  std::string problem;  // the first; empty: all is as it must be
  std::optional<Finding> finding;
  uint64_t served_wrong = 0;  // records with other bytes, and snapshots that never were

  bool ok() const { return problem.empty(); }
};

class SnapshotOracle {
 public:
  using State = std::optional<Manifest>;  // nothing, or these very records

  // From now on `name` may be as it was or as `to`; after End only `to`.
  void Begin(const std::string& name, const State& to);
  void End();

  // A change by `change`; once one failed, nothing more is done until GoOn.
  Status Step(const std::string& name, const State& to, const std::function<Status()>& change);
  Status Snapshot(BlockStore& store, const Manifest& manifest);  // new or replaced
  Status Remove(BlockStore& store, const std::string& name);
  void GoOn() { stopped_ = false; }
  void Settle(const std::string& name, const State& state) { allowed_[name] = {state}; }
  bool stopped() const { return stopped_; }
  uint64_t steps_done() const { return steps_done_; }

  // Everything in the store whose name begins with `prefix` is allowed and whole, and everything
  // that must be there is. With `counts_records` the store holds no other committed record. What is
  // there then counts as settled.
  struct CheckOptions {
    std::string prefix;
    bool counts_records = true;
  };
  OracleVerdict Check(BlockStore& store, const CheckOptions& options);
  OracleVerdict Check(BlockStore& store) { return Check(store, CheckOptions{}); }

  // The settled state of each name, as of the last check.
  std::map<std::string, State> Settled() const;

 private:
  void CheckName(BlockStore& store, const std::string& name, std::vector<State>& allowed,
                 OracleVerdict& verdict) const;

  std::map<std::string, std::vector<State>> allowed_;
  std::map<std::string, std::vector<Manifest>> earlier_;  // every state that a change was to give
  std::string changing_;
  bool stopped_ = false;
  uint64_t steps_done_ = 0;
};

// Every slot that no snapshot names can be written and read, and nothing that is there suffers.
struct RoomOptions {
  uint64_t slots = 0;  // the store has room for so many records of this size
  uint64_t record_bytes = 0;
  bool to_the_byte = true;  // and for none more: false where its files hold more than records
};
OracleVerdict CheckRoom(BlockStore& store, SnapshotOracle& oracle, const RoomOptions& options);

}  // namespace kvbed
