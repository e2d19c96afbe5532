// What is left of a store after a crash: which snapshots may be there, and whether every slot that
// none names is free.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/backends/store_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {

// The stores of these tests have room for so many small records and no more.
inline constexpr uint64_t kSlots = 16;

// What each snapshot may be by now: nothing, or one of some manifests.
class Expected {
 public:
  using State = std::optional<Manifest>;

  // The change of `name` to `to` by `change`; once it failed, nothing more is done.
  void Step(const std::string& name, const State& to, const std::function<Status()>& change) {
    if (stopped_) return;
    std::vector<State>& allowed = allowed_[name];
    if (allowed.empty()) allowed.emplace_back();
    allowed.push_back(to);
    if (change().ok()) {
      allowed = {to};
      ++steps_done_;
    } else {
      stopped_ = true;
    }
  }
  void Snapshot(BlockStore& store, const Manifest& manifest) {
    Step(manifest.name, manifest,
         [&] { return TakeSnapshot(store, manifest, CommitMode::kReplace); });
  }
  void Remove(BlockStore& store, const std::string& name) {
    Step(name, std::nullopt, [&] { return store.RemoveManifest(name); });
  }
  void GoOn() { stopped_ = false; }
  void Settle(const std::string& name, const State& state) { allowed_[name] = {state}; }
  bool stopped() const { return stopped_; }
  uint64_t steps_done() const { return steps_done_; }

  // Everything in the store is allowed and whole, and everything that must be there is. What is
  // there then counts as settled.
  void Check(BlockStore& store) {
    std::set<RecordId> records;
    const auto listed = store.ListManifests();
    ASSERT_OK(listed);
    for (const ManifestSummary& summary : *listed) {
      EXPECT_OK(summary.status);
      EXPECT_TRUE(allowed_.contains(summary.name)) << summary.name;
    }
    for (auto& [name, allowed] : allowed_) {
      const auto there = store.ReadManifest(name);
      State state;
      if (there.ok()) {
        const auto same = [&](const State& one) {
          return one && BlockIds(*one) == BlockIds(*there);
        };
        const auto found = std::find_if(allowed.begin(), allowed.end(), same);
        ASSERT_TRUE(found != allowed.end()) << name << " has a state that it never had";
        state = *found;
        EXPECT_TRUE(IsWhole(store, *state)) << name;
        for (const RecordId& id : BlockIds(*state)) records.insert(id);
      } else {
        EXPECT_EQ(there.status().code(), StatusCode::kNotFound) << there.status().ToString();
        EXPECT_TRUE(std::count(allowed.begin(), allowed.end(), State())) << name << " is gone";
      }
      allowed = {state};
    }
    // No record of an uncommitted snapshot is left.
    EXPECT_EQ(store.info().records, records.size());
  }

 private:
  std::map<std::string, std::vector<State>> allowed_;
  bool stopped_ = false;
  uint64_t steps_done_ = 0;
};

// Every slot that no snapshot names can be written, and nothing that is there suffers.
// A store whose files hold more than records has no room to the byte.
inline void CheckSpace(BlockStore& store, Expected& expected, bool to_the_byte = true) {
  const uint64_t free = kSlots - store.info().records;
  if (to_the_byte) EXPECT_EQ(store.info().free_bytes, free * kSmallRecord);
  const Manifest filler = MakeManifest("filler", kSmallRecord, free, 4711);
  EXPECT_OK(PutAll(store, filler));
  TestRequests gets = GetsOf(filler);
  gets.RunOn(store);
  EXPECT_OK(gets.first_error());
  for (size_t i = 0; i < gets.size(); ++i) EXPECT_TRUE(gets.IsIntact(i));
  if (to_the_byte) {
    EXPECT_EQ(PutAll(store, MakeManifest("more", kSmallRecord, 1, 4712)).code(),
              StatusCode::kOutOfSpace);
  }
  store.Discard(BlockIds(filler));
  expected.Check(store);
}

}  // namespace kvbed
