// The I/O engines that a test runs over, and the small steps that such tests are made of.
// It doesn't know what is being tested.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/fault_device.h"
#include "backends/faulty_io.h"
#include "backends/io.h"
#include "backends/uring_queue.h"
#include "offload/aligned_buffer.h"
#include "tests/support/require.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace kvbed {

inline bool UringRefused() { return !ProbeUring().ok(); }

// Skips a test of io_uring where the system refuses it, with the reason.
#define KVBED_NEEDS_ENGINE(engine)                                          \
  do {                                                                      \
    if ((engine) == ::kvbed::IoEngine::kIoUring && ::kvbed::UringRefused()) \
      KVBED_SKIP_OR_FAIL(::kvbed::ProbeUring().message());                  \
  } while (false)

// Page-aligned memory with a pattern that differs in every page.
inline AlignedBuffer Pattern(uint64_t size_bytes, uint64_t seed) {
  AlignedBuffer buffer = AlignedBuffer::Allocate(size_bytes).value();
  std::mt19937_64 random(seed);
  const MutableBytes bytes = buffer.bytes();
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) StoreLe<uint64_t>(bytes, i, random());
  return buffer;
}

inline AlignedBuffer Blank(uint64_t size_bytes) {
  return AlignedBuffer::Allocate(size_bytes).value();
}

inline bool Equal(Bytes a, Bytes b) { return AsText(a) == AsText(b); }

inline IoRequest Write(const File& file, uint64_t offset, MutableBytes bytes) {
  return {.op = IoOp::kWrite, .file = &file, .offset = offset, .buffer = bytes};
}
inline IoRequest Read(const File& file, uint64_t offset, MutableBytes bytes) {
  return {.op = IoOp::kRead, .file = &file, .offset = offset, .buffer = bytes};
}
inline IoRequest Datasync(const File& file) { return {.op = IoOp::kDatasync, .file = &file}; }

inline std::vector<IoRequest*> Pointers(std::vector<IoRequest>& requests) {
  std::vector<IoRequest*> pointers;
  for (IoRequest& request : requests) pointers.push_back(&request);
  return pointers;
}

// Submits all and reaps until all are back.
inline Status MoveAll(IoQueue& queue, std::vector<IoRequest>& requests) {
  queue.Submit(Pointers(requests));
  std::vector<IoRequest*> completed;
  while (queue.outstanding() > 0) {
    KVBED_RETURN_IF_ERROR(queue.Reap(queue.outstanding(), completed));
  }
  EXPECT_EQ(completed.size(), requests.size());
  return Status::Ok();
}

// One request, by itself.
inline IoRequest MoveOne(IoQueue& queue, IoRequest request) {
  const Status status = MoveAlone(queue, request);
  EXPECT_EQ(status, request.status);
  return request;
}

inline std::string Contents(const std::string& path) {
  const auto io = OpenIo(IoEngine::kPsync).value();
  const Result<std::string> contents = ReadFile(*io, path, uint64_t{1} << 30);
  return contents.ok() ? *contents : "<" + contents.status().ToString() + ">";
}

}  // namespace kvbed
