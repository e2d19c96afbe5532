#include "tools/bench/raw_transfer.h"

#include <algorithm>
#include <utility>

#include "offload/aligned_buffer.h"
#include "offload/clock.h"
#include "tools/interrupt.h"

namespace kvbed {

Result<std::unique_ptr<RawChannel>> RawChannel::Open(Io& io, const RawTransfer& transfer,
                                                     MutableBytes memory) {
  KVBED_ASSIGN_OR_RETURN(File file, io.Open(transfer.file, {.write = transfer.write,
                                                            .create = transfer.write,
                                                            .direct = transfer.direct}));
  const uint64_t in_flight = std::min<uint64_t>(transfer.iodepth, transfer.blocks);
  KVBED_CHECK(in_flight > 0 && memory.size() >= in_flight * transfer.block_bytes);
  std::unique_ptr<RawChannel> channel(new RawChannel(transfer, memory, std::move(file)));
  KVBED_ASSIGN_OR_RETURN(channel->queue_,
                         io.OpenQueue({.iodepth = transfer.iodepth,
                                       .memory = transfer.registered ? memory : MutableBytes()}));
  // An unattached file works, only slower.
  if (transfer.registered) channel->queue_->AttachFile(channel->file_).IgnoreError();
  return channel;
}

RawChannel::RawChannel(const RawTransfer& transfer, MutableBytes memory, File file)
    : transfer_(transfer),
      memory_(memory),
      order_(transfer.order, transfer.blocks, transfer.seed),
      held_(memory.size() / transfer.block_bytes),
      file_(std::move(file)),
      requests_(std::min<uint64_t>(transfer.iodepth, transfer.blocks)),
      block_of_slot_(requests_.size()) {}

Result<RawPass> RawChannel::Pass(const RawPassOptions& options) {
  RawPass pass;
  if (options.latencies_most > 0) {
    pass.latencies_ns.reserve(std::min(transfer_.blocks, options.latencies_most));
  }
  std::vector<IoRequest*> ready;
  for (size_t slot = 0; slot < requests_.size(); ++slot) {
    Prepare(slot, order_.At(slot), options);
    ready.push_back(&requests_[slot]);
  }
  const uint64_t start_ns = MonotonicNs();
  KVBED_RETURN_IF_ERROR(MoveAll(std::move(ready), options, pass));
  if (transfer_.write) {
    IoRequest sync{.op = IoOp::kDatasync, .file = &file_};
    KVBED_RETURN_IF_ERROR(MoveAlone(*queue_, sync));
  }
  pass.wall_ns = MonotonicNs() - start_ns;
  return pass;
}

// `ready` are the first blocks; each one that is done makes room for another.
Status RawChannel::MoveAll(std::vector<IoRequest*> ready, const RawPassOptions& options,
                           RawPass& pass) {
  const uint64_t every =
      options.latencies_most > 0 ? 1 + (transfer_.blocks - 1) / options.latencies_most : 0;
  uint64_t next = ready.size(), completed = 0;
  std::vector<IoRequest*> done;
  for (;;) {
    if (Interrupted()) return InterruptedStatus();
    queue_->Submit(ready);
    ready.clear();
    done.clear();
    KVBED_RETURN_IF_ERROR(queue_->Reap(1, done));
    for (IoRequest* request : done) {
      KVBED_RETURN_IF_ERROR(request->status);
      if (every > 0 && completed % every == 0) {
        pass.latencies_ns.push_back(request->completed_ns - request->submitted_ns);
      }
      if (++completed == transfer_.blocks) return Status::Ok();
      if (next == transfer_.blocks) continue;
      const auto slot = static_cast<size_t>(request - requests_.data());
      pass.stamp_ns += Prepare(slot, order_.At(next++), options);
      ready.push_back(request);
    }
  }
}

uint64_t RawChannel::Prepare(size_t slot, uint64_t block, const RawPassOptions& options) {
  const uint64_t offset = block * transfer_.block_bytes;
  const MutableBytes bytes = PlaceOf(slot, block);
  block_of_slot_[slot] = block;
  requests_[slot] = IoRequest{.op = transfer_.write ? IoOp::kWrite : IoOp::kRead,
                              .file = &file_,
                              .offset = offset,
                              .buffer = bytes};
  if (!transfer_.write || options.stamps == nullptr) return 0;
  const uint64_t start_ns = MonotonicNs();
  options.stamps->Stamp(bytes, offset / kPageBytes);
  return MonotonicNs() - start_ns;
}

MutableBytes RawChannel::PlaceOf(size_t slot, uint64_t block) const {
  const bool by_block = held_ >= transfer_.blocks || held_ > requests_.size();
  const uint64_t place = by_block ? block % held_ : slot;
  return memory_.subspan(place * transfer_.block_bytes, transfer_.block_bytes);
}

std::vector<RawChannel::Held> RawChannel::HeldBlocks() const {
  std::vector<Held> held;
  for (size_t slot = 0; slot < requests_.size(); ++slot) {
    held.push_back({block_of_slot_[slot], PlaceOf(slot, block_of_slot_[slot])});
  }
  return held;
}

Result<uint64_t> RunRawTransfer(Io& io, const RawTransfer& transfer, MutableBytes memory) {
  KVBED_ASSIGN_OR_RETURN(const auto channel, RawChannel::Open(io, transfer, memory));
  KVBED_ASSIGN_OR_RETURN(const RawPass pass, channel->Pass({}));
  return pass.wall_ns;
}

}  // namespace kvbed
