#include "engine/machine_peaks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/thread_team.h"
#include "offload/aligned_buffer.h"
#include "offload/clock.h"

namespace kvbed {
namespace {

constexpr uint64_t kStreamBytesMin = uint64_t{256} << 20;
constexpr uint64_t kStreamBytesMax = uint64_t{1} << 30;
constexpr uint64_t kStreamUnitBytes = uint64_t{1} << 20;  // that a thread reads in one go

// A product of 2 * kRows * kColumns * kTiles * kTileRows operations, whose operands of some 1.3 MB
// in fp32 stay in a core's second cache.
constexpr uint32_t kRows = 192;
constexpr uint32_t kColumns = 512;
constexpr uint32_t kTiles = 32;
constexpr uint64_t kProducts = 64;  // to be shared by the threads

// Four times the last cache, so that little of a pass is there from the one before.
uint64_t StreamBytes() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const uint64_t wanted = cache > 0 ? 4 * static_cast<uint64_t>(cache) : kStreamBytesMin;
  return RoundUp(std::clamp(wanted, kStreamBytesMin, kStreamBytesMax), kStreamUnitBytes);
}

// Eight sums, so that no addition waits for the one before.
uint64_t SumOf(const uint64_t* words, uint64_t count) {
  uint64_t sums[8] = {};
  for (uint64_t i = 0; i < count; i += 8) {
    for (uint64_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t one : sums) sum += one;
  return sum;
}

}  // namespace

struct MachinePeaks::Parts {
  Parts(KernelTable chosen, uint32_t threads) : table(std::move(chosen)), team(threads) {}

  KernelTable table;
  ThreadTeam team;
  AlignedBuffer stream;
  AlignedBuffer a, b;              // of the product
  std::vector<AlignedBuffer> out;  // by thread
  std::atomic<uint64_t> sum{0};    // so that no read can be left out

  Status Allocate() {
    KVBED_ASSIGN_OR_RETURN(stream, AlignedBuffer::Allocate(StreamBytes()));
    // Pages that were never written to are one page of zeroes.
    std::ranges::fill(stream.bytes(), std::byte{1});
    const uint64_t element = table.element_bytes();
    KVBED_ASSIGN_OR_RETURN(a, AlignedBuffer::Allocate(kRows * kColumns * element));
    KVBED_ASSIGN_OR_RETURN(b, AlignedBuffer::Allocate(kTiles * kTileRows * kColumns * element));
    // Small numbers in both dtypes.
    std::ranges::fill(a.bytes(), std::byte{0x3c});
    std::ranges::fill(b.bytes(), std::byte{0x3c});
    for (uint32_t thread = 0; thread < team.size(); ++thread) {
      KVBED_ASSIGN_OR_RETURN(auto one,
                             AlignedBuffer::Allocate(kRows * kTiles * kTileRows * sizeof(float)));
      out.push_back(std::move(one));
    }
    return Status::Ok();
  }
};

MachinePeaks::MachinePeaks(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MachinePeaks::MachinePeaks(MachinePeaks&&) noexcept = default;
MachinePeaks& MachinePeaks::operator=(MachinePeaks&&) noexcept = default;
MachinePeaks::~MachinePeaks() = default;

Result<MachinePeaks> MachinePeaks::Open(DType dtype, uint32_t threads, const std::string& isa) {
  KVBED_ASSIGN_OR_RETURN(KernelTable table, FindKernelTable(dtype, isa));
  auto parts = std::make_unique<Parts>(std::move(table), threads);
  KVBED_RETURN_IF_ERROR(parts->Allocate());
  return MachinePeaks(std::move(parts));
}

double MachinePeaks::StreamGbPerS() {
  const uint64_t bytes = parts_->stream.bytes().size();
  const auto* const words = reinterpret_cast<const uint64_t*>(parts_->stream.bytes().data());
  constexpr uint64_t kUnitWords = kStreamUnitBytes / sizeof(uint64_t);
  const uint64_t start_ns = MonotonicNs();
  parts_->team.ForEach(bytes / kStreamUnitBytes, [&](uint32_t, uint64_t unit) {
    parts_->sum += SumOf(words + unit * kUnitWords, kUnitWords);
  });
  return static_cast<double>(bytes) / static_cast<double>(MonotonicNs() - start_ns);
}

double MachinePeaks::GemmGflopPerS() {
  const KernelTable& table = parts_->table;
  const uint64_t start_ns = MonotonicNs();
  parts_->team.ForEach(kProducts, [&](uint32_t thread, uint64_t) {
    table.multiply(table, {.a = parts_->a.bytes().data(),
                           .a_stride = kColumns,
                           .rows = kRows,
                           .columns = kColumns,
                           .b = parts_->b.bytes().data(),
                           .tile = 0,
                           .tiles = kTiles,
                           .into = Into::kFloats,
                           .out = parts_->out[thread].bytes().data(),
                           .out_stride = kTiles * kTileRows});
  });
  constexpr double kOperations = 2.0 * kRows * kColumns * kTiles * kTileRows * kProducts;
  return kOperations / static_cast<double>(MonotonicNs() - start_ns);
}

}  // namespace kvbed
