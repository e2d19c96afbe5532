#include "tools/bench/raw_transfer.h"

#include <algorithm>
#include <vector>

#include "offload/clock.h"

namespace kvbed {
namespace {

Status TransferAll(IoQueue& queue, const RawTransfer& transfer, const File& file,
                   MutableBytes memory) {
  const uint64_t held = memory.size() / transfer.block_bytes;
  std::vector<IoRequest> requests(std::min<uint64_t>(transfer.iodepth, transfer.blocks));
  std::vector<IoRequest*> ready, done;
  for (IoRequest& request : requests) ready.push_back(&request);
  for (uint64_t next = 0; next < transfer.blocks || queue.outstanding() > 0;) {
    size_t taken = 0;
    for (; next < transfer.blocks && taken < ready.size(); ++next, ++taken) {
      *ready[taken] = IoRequest{
          .op = transfer.write ? IoOp::kWrite : IoOp::kRead,
          .file = &file,
          .offset = next * transfer.block_bytes,
          .buffer = memory.subspan(next % held * transfer.block_bytes, transfer.block_bytes),
      };
    }
    queue.Submit(std::span(ready).first(taken));
    ready.erase(ready.begin(), ready.begin() + static_cast<ptrdiff_t>(taken));
    done.clear();
    KVBED_RETURN_IF_ERROR(queue.Reap(1, done));
    for (IoRequest* request : done) {
      KVBED_RETURN_IF_ERROR(request->status);
      ready.push_back(request);
    }
  }
  return Status::Ok();
}

Status Sync(IoQueue& queue, const File& file) {
  IoRequest sync{.op = IoOp::kDatasync, .file = &file};
  IoRequest* const request = &sync;
  queue.Submit({&request, 1});
  std::vector<IoRequest*> done;
  KVBED_RETURN_IF_ERROR(queue.Reap(1, done));
  return sync.status;
}

}  // namespace

Result<uint64_t> RunRawTransfer(Io& io, const RawTransfer& transfer, MutableBytes memory) {
  KVBED_CHECK(memory.size() >=
              transfer.block_bytes * std::min<uint64_t>(transfer.iodepth, transfer.blocks));
  KVBED_ASSIGN_OR_RETURN(const File file, io.Open(transfer.file, {.write = transfer.write,
                                                                  .create = transfer.write,
                                                                  .direct = transfer.direct}));
  KVBED_ASSIGN_OR_RETURN(auto queue, io.OpenQueue({.iodepth = transfer.iodepth, .memory = memory}));
  queue->AttachFile(file).IgnoreError();  // an unattached file works, only slower
  const uint64_t start_ns = MonotonicNs();
  KVBED_RETURN_IF_ERROR(TransferAll(*queue, transfer, file, memory));
  if (transfer.write) KVBED_RETURN_IF_ERROR(Sync(*queue, file));
  return MonotonicNs() - start_ns;
}

}  // namespace kvbed
