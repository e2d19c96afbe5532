#include "backends/free_slots.h"

#include <algorithm>
#include <memory>

#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

struct PageRead {
  IoRequest io;
  uint64_t slot = 0;
};

class FreeSlotScan {
 public:
  FreeSlotScan(IoQueue& queue, MutableBytes memory, uint32_t iodepth, RecordNamer namer,
               Leftovers& leftovers)
      : queue_(queue), namer_(namer), leftovers_(leftovers), reads_(iodepth) {
    for (size_t i = 0; i < reads_.size(); ++i) {
      reads_[i].io.buffer = memory.subspan(i * kPageBytes, kPageBytes);
    }
  }

  Status Run(const UnusedSlots& free) {
    slab_ = free.slab;
    idle_.clear();
    for (PageRead& read : reads_) idle_.push_back(&read);
    Status status;
    size_t next = 0;
    while (next < free.slots.size() || queue_.outstanding() > 0) {
      submit_.clear();
      for (; next < free.slots.size() && !idle_.empty(); ++next) Stage(free.slots[next]);
      if (!submit_.empty()) queue_.Submit(submit_);
      completed_.clear();
      const Status reaped = queue_.Reap(1, completed_);
      if (status.ok()) status = reaped;
      for (const IoRequest* io : completed_) Land(*io, status);
      if (!status.ok()) next = free.slots.size();
    }
    return status;
  }

 private:
  void Stage(uint64_t slot) {
    PageRead* const read = idle_.back();
    idle_.pop_back();
    read->slot = slot;
    read->io = IoRequest{.op = IoOp::kRead,
                         .file = &slab_->file,
                         .offset = slot * slab_->record_bytes,
                         .buffer = read->io.buffer,
                         .owner = read};
    submit_.push_back(&read->io);
  }

  void Land(const IoRequest& io, Status& status) {
    auto* const read = static_cast<PageRead*>(io.owner);
    idle_.push_back(read);
    if (!io.status.ok()) {
      if (status.ok()) status = io.status;
      return;
    }
    const auto id = namer_(io.buffer);
    if (!id) return;
    leftovers_.Add({.kind = LeftoverKind::kRecord,
                    .path = slab_->path,
                    .offset = io.offset,
                    .size_bytes = slab_->record_bytes,
                    .id = id,
                    .place_is_free = true});
  }

  IoQueue& queue_;
  const RecordNamer namer_;
  Leftovers& leftovers_;
  const SlabFile* slab_ = nullptr;
  std::vector<PageRead> reads_;
  std::vector<PageRead*> idle_;
  std::vector<IoRequest*> submit_;
  std::vector<IoRequest*> completed_;
};

}  // namespace

std::vector<UnusedSlots> FindUnusedSlots(const SlabFiles& files) {
  std::vector<UnusedSlots> free;
  for (const auto& [record_bytes, slab] : files.all()) {
    if (!slab.file.is_open()) continue;
    UnusedSlots& one = free.emplace_back();
    one.slab = &slab;
    for (uint64_t slot = 0; slot < slab.slots.slots(); ++slot) {
      if (!slab.slots.IsUsed(slot)) one.slots.push_back(slot);
    }
  }
  return free;
}

Status ListRecordsInFreeSlots(Io& io, const std::vector<UnusedSlots>& free, uint32_t iodepth,
                              RecordNamer namer, Leftovers& leftovers) {
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer memory,
                         AlignedBuffer::Allocate(uint64_t{iodepth} * kPageBytes));
  KVBED_ASSIGN_OR_RETURN(const auto queue,
                         io.OpenQueue({.iodepth = iodepth, .memory = memory.bytes()}));
  FreeSlotScan scan(*queue, memory.bytes(), iodepth, namer, leftovers);
  for (const UnusedSlots& one : free) {
    KVBED_RETURN_IF_ERROR(scan.Run(one).WithContext("looking into free slots"));
  }
  return Status::Ok();
}

}  // namespace kvbed
