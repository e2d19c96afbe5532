// An offload that goes on beside something else: a thread with a queue of its own puts records at a
// stated rate. It measures only itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "offload/block_pool.h"
#include "offload/block_store.h"
#include "offload/sequence.h"
#include "offload/status.h"

namespace kvbed {

struct BesideOptions {
  double gb_per_s = 0;  // above 0
  uint32_t iodepth = 16;
  std::string snapshot;  // its name; the one before is removed before the next is written
};

// Offloads one sequence again and again, each time as a new snapshot, throttled, until it is
// stopped. What is unfinished then is discarded, and the last snapshot removed.
class BesideOffload {
 public:
  // `sequence` is filled, and of the model that `manifest` names. All must outlive it.
  // Its first record is on its way when this returns.
  static std::unique_ptr<BesideOffload> Start(BlockStore& store, Sequence& sequence,
                                              const Manifest& manifest,
                                              const BesideOptions& options);
  ~BesideOffload();

  struct Report {
    uint64_t bytes = 0;  // of completed records
    uint64_t ns = 0;     // since it was started
  };
  // Ends it; the error that ended it before.
  Result<Report> Stop();

 private:
  BesideOffload(BlockStore& store, Sequence& sequence, const Manifest& manifest,
                const BesideOptions& options);
  class Puts;
  Status Run();
  Status OneSnapshot(StoreChannel& channel);
  // Puts the blocks as they are due, and those that were put are in `manifest`. False when it was
  // stopped meanwhile.
  Result<bool> PutBlocks(Puts& puts, Manifest& manifest);
  // False when it was stopped meanwhile.
  bool WaitUntilDue() const;

  BlockStore& store_;
  Sequence& sequence_;
  const Manifest manifest_;
  const BesideOptions options_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> begun_ = false;  // or it can't begin
  uint64_t start_ns_ = 0;
  uint64_t due_bytes_ = 0;  // submitted since the start
  std::atomic<uint64_t> completed_bytes_ = 0;
  Status status_;  // of the thread, once it has ended
  std::thread thread_;
};

}  // namespace kvbed
