// Moves the parts of one round at once, each over a channel and on a thread of its own, and says
// when all of them had got how far. One part is moved by the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offload/block_pool.h"
#include "offload/block_store.h"
#include "offload/offloader.h"
#include "tools/bench/measurement.h"

namespace kvbed {

class LoadMover {
 public:
  // Each channel has `iodepth` and registers the pool. The store and the pool must outlive it.
  static Result<std::unique_ptr<LoadMover>> Open(BlockStore& store, BlockPool& pool,
                                                 uint32_t channels, uint32_t iodepth);
  ~LoadMover();

  // Of one part: which sequence it belongs to, and what its offload or restore said.
  struct OffloadPart {
    uint32_t sequence_number = 0;
    Sequence* sequence = nullptr;
    Manifest* manifest = nullptr;
    OffloadReport report;
  };
  struct RestorePart {
    uint32_t sequence_number = 0;
    Sequence* sequence = nullptr;
    const Manifest* manifest = nullptr;
    RestoreReport report;
  };

  // At most as many parts as there are channels. The first part's error; all have ended then.
  Result<OffloadSample> Offload(std::span<OffloadPart> parts, const OffloadOptions& options);
  Result<RestoreSample> Restore(std::span<RestorePart> parts, const RestoreOptions& options);

 private:
  class Lane;
  LoadMover(BlockStore& store, BlockPool& pool);

  // Runs `step(part, channel)` for each part at once. Wall times of each from the common start.
  template <class Part, class Step>
  Result<std::vector<uint64_t>> RunAll(std::span<Part> parts, const Step& step);

  BlockStore& store_;
  BlockPool& pool_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace kvbed
