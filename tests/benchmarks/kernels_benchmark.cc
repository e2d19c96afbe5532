// Microbenchmarks of the native kernels, each on every instruction set that this CPU has, in the
// sizes of SmolLM2. For people; no test depends on what they print.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "engine/kernels/native/kernel_table.h"
#include "engine/model/float_formats.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

constexpr uint32_t kHidden = 576;
constexpr uint32_t kGateUp = 2 * 1536;
constexpr uint32_t kHeadDim = 64;
constexpr float kEps = 1e-5f;

// Rows of elements with padding, of numbers around 0.
class Elements {
 public:
  Elements(DType dtype, uint32_t rows, uint32_t columns)
      : stride_bytes_(Padded(columns) * DTypeBytes(dtype)),
        data_(AlignedBuffer::Allocate(rows * stride_bytes_).value()),
        rows_(rows) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < columns; ++column) {
        const float value = normal(random);
        const uint16_t bf16 = FloatToBf16(value);
        std::byte* const to = Row(row) + column * DTypeBytes(dtype);
        if (dtype == DType::kBf16) {
          std::memcpy(to, &bf16, sizeof(bf16));
        } else {
          std::memcpy(to, &value, sizeof(value));
        }
      }
    }
  }
  std::byte* Row(uint32_t row) { return data_.bytes().data() + row * stride_bytes_; }
  std::vector<const void*> Rows() {
    std::vector<const void*> all;
    for (uint32_t row = 0; row < rows_; ++row) all.push_back(Row(row));
    return all;
  }
  uint64_t bytes() const { return rows_ * stride_bytes_; }

 private:
  uint64_t stride_bytes_;
  AlignedBuffer data_;
  uint32_t rows_;
};

AlignedBuffer Floats(uint64_t count) {
  AlignedBuffer floats = AlignedBuffer::Allocate(count * sizeof(float)).value();
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  auto* const values = reinterpret_cast<float*>(floats.bytes().data());
  for (uint64_t i = 0; i < count; ++i) values[i] = normal(random);
  return floats;
}
float* AsFloats(AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.bytes().data()); }

// `rows` rows by the matrix of gate and up: a decode call's GEMV for one, a prefill's GEMM for
// many.
void MultiplyRows(benchmark::State& state, const KernelTable& table) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  Elements a(table.dtype, rows, kHidden), b(table.dtype, kGateUp, kHidden);
  AlignedBuffer packed = AlignedBuffer::Allocate(b.bytes()).value();
  table.pack_keys(b.Rows().data(), kGateUp, kHidden, packed.bytes().data());
  AlignedBuffer out = Floats(uint64_t{rows} * kGateUp);
  for (auto _ : state) {
    table.multiply(table, {.a = a.Row(0),
                           .a_stride = Padded(kHidden),
                           .rows = rows,
                           .columns = Padded(kHidden),
                           .b = packed.bytes().data(),
                           .tile = 0,
                           .tiles = TilesFor(kGateUp),
                           .into = Into::kFloats,
                           .out = out.bytes().data(),
                           .out_stride = kGateUp});
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * rows * kHidden * kGateUp;
  state.counters["FLOP/s"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * b.bytes()));
}

// K and V of one head over a chunk of the context, by `lines` rows.
void AttendAChunk(benchmark::State& state, const KernelTable& table, bool keys, uint32_t lines) {
  Elements rows(table.dtype, kChunkTokens, kHeadDim), a(table.dtype, lines, kChunkTokens);
  const auto pointers = rows.Rows();
  AlignedBuffer packed = AlignedBuffer::Allocate(rows.bytes()).value();
  AlignedBuffer out = Floats(uint64_t{lines} * kChunkTokens);
  const auto kernel = keys ? table.score_keys : table.weigh_values;
  const auto pack = keys ? table.pack_keys : table.pack_values;
  for (auto _ : state) {
    if (kernel != nullptr) {
      kernel({.a = a.Row(0),
              .a_stride = kChunkTokens,
              .lines = lines,
              .rows = pointers.data(),
              .tokens = kChunkTokens,
              .columns = kHeadDim,
              .out = AsFloats(out),
              .out_stride = kChunkTokens});
    } else {
      pack(pointers.data(), kChunkTokens, kHeadDim, packed.bytes().data());
      table.multiply(table, {.a = a.Row(0),
                             .a_stride = kChunkTokens,
                             .rows = lines,
                             .columns = keys ? kHeadDim : kChunkTokens,
                             .b = packed.bytes().data(),
                             .tile = 0,
                             .tiles = TilesFor(keys ? kChunkTokens : kHeadDim),
                             .into = Into::kFloats,
                             .out = AsFloats(out),
                             .out_stride = kChunkTokens});
    }
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * lines * kHeadDim * kChunkTokens;
  state.counters["FLOP/s"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * rows.bytes()));
}
void ScoreKeysByThree(benchmark::State& state, const KernelTable& table) {
  AttendAChunk(state, table, true, 3);
}
void ScoreKeysByMany(benchmark::State& state, const KernelTable& table) {
  AttendAChunk(state, table, true, 96);
}
void WeighValuesByThree(benchmark::State& state, const KernelTable& table) {
  AttendAChunk(state, table, false, 3);
}
void WeighValuesByMany(benchmark::State& state, const KernelTable& table) {
  AttendAChunk(state, table, false, 96);
}

void SoftmaxOfAChunk(benchmark::State& state, const KernelTable& table) {
  AlignedBuffer scores = Floats(kChunkTokens);
  Elements weights(table.dtype, 1, kChunkTokens);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        table.softmax(AsFloats(scores), kChunkTokens, kChunkTokens, 0.125f, weights.Row(0)));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kChunkTokens));
}

void MergeAChunk(benchmark::State& state, const KernelTable& table) {
  AlignedBuffer acc = Floats(kHeadDim), chunk = Floats(kHeadDim);
  for (auto _ : state) {
    ChunkSums sums{.max = 1, .sum = 2};
    table.merge(sums, AsFloats(acc), {.max = 0.5f, .sum = 3}, AsFloats(chunk), kHeadDim);
    benchmark::DoNotOptimize(sums);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kHeadDim));
}

void DivideARow(benchmark::State& state, const KernelTable& table) {
  AlignedBuffer acc = Floats(kHeadDim);
  Elements out(table.dtype, 1, kHeadDim);
  for (auto _ : state) {
    table.divide(AsFloats(acc), 3, kHeadDim, out.Row(0));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kHeadDim));
}

void RmsNormOfARow(benchmark::State& state, const KernelTable& table) {
  Elements x(table.dtype, 1, kHidden), weight(table.dtype, 1, kHidden),
      out(table.dtype, 1, kHidden);
  for (auto _ : state) {
    table.rms_norm(x.Row(0), weight.Row(0), kHidden, kEps, out.Row(0));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kHidden));
}

void RotateAHead(benchmark::State& state, const KernelTable& table) {
  Elements x(table.dtype, 1, kHeadDim);
  std::vector<float> cos(kHeadDim / 2, 1.0f), sin(kHeadDim / 2, 0.0f);  // that values stay finite
  for (auto _ : state) {
    table.rotate(x.Row(0), cos.data(), sin.data(), kHeadDim / 2);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kHeadDim));
}

using KernelBenchmark = void (*)(benchmark::State&, const KernelTable&);

void RegisterAll() {
  constexpr std::pair<const char*, KernelBenchmark> kPlain[] = {
      {"score_keys/3", ScoreKeysByThree},
      {"score_keys/96", ScoreKeysByMany},
      {"weigh_values/3", WeighValuesByThree},
      {"weigh_values/96", WeighValuesByMany},
      {"softmax", SoftmaxOfAChunk},
      {"merge", MergeAChunk},
      {"divide", DivideARow},
      {"rms_norm", RmsNormOfARow},
      {"rotate", RotateAHead}};
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    for (const KernelTable& table : KernelTables(dtype)) {
      const std::string under = "/" + std::string(DTypeName(dtype)) + "/" + table.name;
      const auto add = [&](const std::string& name, KernelBenchmark run) {
        return benchmark::RegisterBenchmark(
            (name + under).c_str(), [run, table](benchmark::State& state) { run(state, table); });
      };
      add("multiply", MultiplyRows)->Arg(1)->Arg(8)->Arg(256)->Unit(benchmark::kMicrosecond);
      for (const auto& [name, run] : kPlain) add(name, run);
    }
  }
}

}  // namespace
}  // namespace kvbed

int main(int argc, char** argv) {
  kvbed::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
