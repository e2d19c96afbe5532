// Each native kernel of each instruction set that this CPU has, against plain loops in double
// precision over sizes that fill no tile, and against itself with other rows beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/tile_products.h"
#include "engine/model/float_formats.h"
#include "tests/engine/emulated_tiles.h"
#include "tests/support/require.h"

namespace kvbed {
namespace {

float RoundTo(DType dtype, double x) {
  const auto fp32 = static_cast<float>(x);
  return dtype == DType::kBf16 ? Bf16ToFloat(FloatToBf16(fp32)) : fp32;
}

// The error of one rounding to the dtype.
double Step(DType dtype) { return dtype == DType::kBf16 ? 0x1p-8 : 0x1p-23; }

// Rows of elements with padding, and their values.
class Matrix {
 public:
  Matrix(DType dtype, uint32_t rows, uint32_t columns)
      : dtype_(dtype),
        columns_(columns),
        bytes_(uint64_t{rows} * stride() * DTypeBytes(dtype) + 64, std::byte{}),
        rows_(rows) {}

  static Matrix Random(DType dtype, uint32_t rows, uint32_t columns, uint64_t seed) {
    Matrix made(dtype, rows, columns);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < columns; ++column) made.Set(row, column, normal(random));
    }
    return made;
  }

  uint32_t stride() const { return Padded(columns_); }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  const void* Row(uint32_t row) const { return bytes_.data() + Offset(row, 0); }
  void* Row(uint32_t row) { return bytes_.data() + Offset(row, 0); }
  std::vector<const void*> Rows() const {
    std::vector<const void*> all;
    for (uint32_t row = 0; row < rows_; ++row) all.push_back(Row(row));
    return all;
  }
  void Set(uint32_t row, uint32_t column, double value) {
    const float fp32 = RoundTo(dtype_, value);
    const uint16_t bf16 = FloatToBf16(fp32);
    if (dtype_ == DType::kBf16) {
      std::memcpy(bytes_.data() + Offset(row, column), &bf16, sizeof(bf16));
    } else {
      std::memcpy(bytes_.data() + Offset(row, column), &fp32, sizeof(fp32));
    }
  }
  float At(uint32_t row, uint32_t column) const {
    uint16_t bf16 = 0;
    float fp32 = 0;
    if (dtype_ == DType::kBf16) {
      std::memcpy(&bf16, bytes_.data() + Offset(row, column), sizeof(bf16));
      return Bf16ToFloat(bf16);
    }
    std::memcpy(&fp32, bytes_.data() + Offset(row, column), sizeof(fp32));
    return fp32;
  }
  bool operator==(const Matrix& other) const { return bytes_ == other.bytes_; }

 private:
  uint64_t Offset(uint32_t row, uint32_t column) const {
    return (uint64_t{row} * stride() + column) * DTypeBytes(dtype_);
  }

  DType dtype_;
  uint32_t columns_;
  std::vector<std::byte> bytes_;
  uint32_t rows_;
};

std::vector<std::byte> Pack(const KernelTable& table, const Matrix& b) {
  std::vector<std::byte> packed(uint64_t{TilesFor(b.rows())} * kTileRows * b.stride() *
                                table.element_bytes());
  // Columns are moved in pairs; the padding is zero.
  table.pack_keys(b.Rows().data(), b.rows(), b.columns() + b.columns() % 2, packed.data());
  return packed;
}

double Dot(const Matrix& a, uint32_t m, const Matrix& b, uint32_t n) {
  double sum = 0;
  for (uint32_t k = 0; k < a.columns(); ++k) sum += double{a.At(m, k)} * b.At(n, k);
  return sum;
}

Product ProductOf(const Matrix& a, const std::vector<std::byte>& packed, uint32_t tiles, Into into,
                  void* out, uint64_t out_stride) {
  return {.a = a.Row(0),
          .a_stride = a.stride(),
          .rows = a.rows(),
          .columns = a.stride(),
          .b = packed.data(),
          .tile = 0,
          .tiles = tiles,
          .into = into,
          .out = out,
          .out_stride = out_stride};
}

class NativeKernels : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    tables_ = KernelTables(GetParam());
    if (tables_.empty()) KVBED_SKIP_OR_FAIL("this CPU has none of the instruction sets");
    // Few CPUs have tiles: what is done with them is tested on all.
    if (GetParam() == DType::kBf16) {
      KernelTable tiles = tables_.back();
      tiles.name = tiles.arithmetic = "emulated tiles";
      tiles.multiply = MultiplyByTiles<EmulatedTiles>;
      tiles.score_keys = tiles.weigh_values = nullptr;
      tables_.push_back(tiles);
    }
  }
  std::vector<KernelTable> tables_;
};
INSTANTIATE_TEST_SUITE_P(DTypes, NativeKernels, ::testing::Values(DType::kBf16, DType::kFp32),
                         [](const auto& dtype) { return std::string(DTypeName(dtype.param)); });

TEST_P(NativeKernels, MultiplyAgreesWithADoubleLoop) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    for (const auto& [m, n, k] : std::vector<std::array<uint32_t, 3>>{{1, 1, 1},
                                                                      {1, 16, 32},
                                                                      {2, 17, 33},
                                                                      {3, 64, 64},
                                                                      {7, 40, 31},
                                                                      {13, 100, 96},
                                                                      {50, 49, 160},
                                                                      {101, 33, 40}}) {
      const Matrix a = Matrix::Random(table.dtype, m, k, 1),
                   b = Matrix::Random(table.dtype, n, k, 2);
      const std::vector<std::byte> packed = Pack(table, b);
      const uint32_t tiles = TilesFor(n), stride = tiles * kTileRows;
      std::vector<float> out(m * stride, -1);
      table.multiply(table, ProductOf(a, packed, tiles, Into::kFloats, out.data(), stride));
      for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < stride; ++j) {
          const double expected = j < n ? Dot(a, i, b, j) : 0;
          EXPECT_NEAR(out[i * stride + j], expected, 1e-5 * std::sqrt(k) + 1e-5)
              << m << "x" << n << "x" << k << " at " << i << ", " << j;
        }
      }
    }
  }
}

// A row alone, and the same row in the middle of others: the same bits, for each destination.
TEST_P(NativeKernels, ARowHasTheSameBitsWhateverRunsBesideIt) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    const uint32_t rows = 103, n = 96, k = 270;
    const Matrix a = Matrix::Random(table.dtype, rows, k, 3);
    const Matrix b = Matrix::Random(table.dtype, n, k, 4);
    const std::vector<std::byte> packed = Pack(table, b);
    for (Into into :
         {Into::kElements, Into::kResidual, Into::kGated, Into::kFloats, Into::kLogits}) {
      const bool floats = into == Into::kFloats || into == Into::kLogits;
      const DType out_type = floats ? DType::kFp32 : table.dtype;
      Matrix together = Matrix::Random(out_type, rows, n, 5);
      Matrix alone = together;
      table.multiply(table,
                     ProductOf(a, packed, TilesFor(n), into, together.Row(0), together.stride()));
      for (uint32_t row = 0; row < rows; ++row) {
        // By single pairs of tiles too.
        for (uint32_t tile = 0; tile < TilesFor(n); tile += 2) {
          Product one = ProductOf(a, packed, 2, into, alone.Row(row), alone.stride());
          one.a = a.Row(row);
          one.rows = 1;
          one.tile = tile;
          table.multiply(table, one);
        }
      }
      EXPECT_TRUE(alone == together) << static_cast<int>(into);
    }
  }
}

TEST_P(NativeKernels, ProductsEndWhereTheyAreMeantTo) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    const uint32_t n = 32, k = 48, rows = 3;
    const Matrix a = Matrix::Random(table.dtype, rows, k, 6);
    const Matrix b = Matrix::Random(table.dtype, n, k, 7);
    const std::vector<std::byte> packed = Pack(table, b);
    const Matrix before = Matrix::Random(table.dtype, rows, n, 8);
    const double step = Step(table.dtype);
    Matrix elements = before, residual = before, gated = before;
    const auto multiply = [&](Into into, Matrix& out) {
      table.multiply(table, ProductOf(a, packed, TilesFor(n), into, out.Row(0), out.stride()));
    };
    multiply(Into::kElements, elements);
    multiply(Into::kResidual, residual);
    multiply(Into::kGated, gated);
    for (uint32_t i = 0; i < rows; ++i) {
      for (uint32_t j = 0; j < n; ++j) {
        const double sum = Dot(a, i, b, j);
        EXPECT_NEAR(elements.At(i, j), sum, std::abs(sum) * step + 1e-4);
        const double with = before.At(i, j) + sum;
        EXPECT_NEAR(residual.At(i, j), with, (std::abs(with) + std::abs(sum)) * step + 1e-4);
      }
      for (uint32_t j = 0; j < kTileRows; ++j) {
        const double gate = Dot(a, i, b, j), up = Dot(a, i, b, kTileRows + j);
        const double expected = gate / (1 + std::exp(-gate)) * up;
        EXPECT_NEAR(gated.At(i, j), expected, std::abs(expected) * 4 * step + 2e-4);
      }
    }
  }
}

// Attention takes either, by the table and the head's size.
TEST_P(NativeKernels, RowsInPlaceGiveTheBitsOfPackedOnes) {
  const auto floats = [](uint64_t count) { return std::vector<float>(count, -1.0f); };
  for (const KernelTable& table : tables_) {
    if (table.score_keys == nullptr) continue;
    SCOPED_TRACE(table.name);
    for (const uint32_t columns : {32u, 64u, 128u, 160u, 256u}) {
      for (const uint32_t tokens : {1u, 15u, 16u, 17u, 100u, 255u, kChunkTokens}) {
        const Matrix rows = Matrix::Random(table.dtype, tokens, columns, tokens);
        for (const uint32_t lines : {1u, 2u, 3u, 7u, 96u, 97u}) {
          SCOPED_TRACE(testing::Message()
                       << columns << " columns, " << tokens << " tokens, " << lines << " lines");
          const Matrix queries = Matrix::Random(table.dtype, lines, columns, lines);
          const uint32_t score_tiles = TilesFor(tokens);
          std::vector<float> scores = floats(uint64_t{lines} * kChunkTokens),
                             packed_scores = scores;
          table.score_keys({.a = queries.Row(0),
                            .a_stride = queries.stride(),
                            .lines = lines,
                            .rows = rows.Rows().data(),
                            .tokens = tokens,
                            .columns = columns,
                            .out = scores.data(),
                            .out_stride = kChunkTokens});
          table.multiply(table, ProductOf(queries, Pack(table, rows), score_tiles, Into::kFloats,
                                          packed_scores.data(), kChunkTokens));
          for (uint32_t m = 0; m < lines; ++m) {
            const uint64_t at = uint64_t{m} * kChunkTokens;
            EXPECT_EQ(0, std::memcmp(&scores[at], &packed_scores[at], tokens * sizeof(float)));
          }

          Matrix weights(table.dtype, lines, kChunkTokens);
          const Matrix random = Matrix::Random(table.dtype, lines, tokens, lines + 1);
          for (uint32_t m = 0; m < lines; ++m) {
            std::memcpy(weights.Row(m), random.Row(m), tokens * table.element_bytes());
          }
          std::vector<std::byte> packed(uint64_t{Padded(tokens)} * columns * table.element_bytes());
          table.pack_values(rows.Rows().data(), tokens, columns, packed.data());
          std::vector<float> acc = floats(uint64_t{lines} * columns), packed_acc = acc;
          table.weigh_values({.a = weights.Row(0),
                              .a_stride = kChunkTokens,
                              .lines = lines,
                              .rows = rows.Rows().data(),
                              .tokens = tokens,
                              .columns = columns,
                              .out = acc.data(),
                              .out_stride = columns});
          Product product = ProductOf(weights, packed, TilesFor(columns), Into::kFloats,
                                      packed_acc.data(), columns);
          product.columns = Padded(tokens);
          table.multiply(table, product);
          EXPECT_EQ(0, std::memcmp(acc.data(), packed_acc.data(), acc.size() * sizeof(float)));
        }
      }
    }
  }
}

TEST_P(NativeKernels, SoftmaxInChunksAgreesWithADoubleLoop) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    for (uint32_t tokens : {1u, 15u, 16u, 100u, 256u, 300u, 700u}) {
      const uint32_t columns = 16;
      const double scale = 0.125;
      const Matrix scores = Matrix::Random(DType::kFp32, 1, 768, tokens);
      const Matrix v = Matrix::Random(table.dtype, tokens, columns, tokens + 1);
      ChunkSums state;
      std::vector<float> acc(columns);
      for (uint32_t first = 0; first < tokens; first += kChunkTokens) {
        const uint32_t count = std::min(kChunkTokens, tokens - first);
        Matrix weights(table.dtype, 1, kChunkTokens);
        const auto* const row = static_cast<const float*>(scores.Row(0)) + first;
        const ChunkSums sums =
            table.softmax(row, count, Padded(count), static_cast<float>(scale), weights.Row(0));
        std::vector<const void*> rows = v.Rows();
        std::vector<std::byte> packed(uint64_t{Padded(count)} * kTileRows * table.element_bytes());
        table.pack_values(rows.data() + first, count, columns, packed.data());
        std::vector<float> chunk(columns);
        table.multiply(table, {.a = weights.Row(0),
                               .a_stride = kChunkTokens,
                               .rows = 1,
                               .columns = Padded(count),
                               .b = packed.data(),
                               .tile = 0,
                               .tiles = 1,
                               .into = Into::kFloats,
                               .out = chunk.data(),
                               .out_stride = columns});
        if (first == 0) {
          state = sums;
          acc = chunk;
        } else {
          table.merge(state, acc.data(), sums, chunk.data(), columns);
        }
      }
      Matrix out(table.dtype, 1, columns);
      table.divide(acc.data(), state.sum, columns, out.Row(0));
      double sum = 0;
      std::vector<double> expected(columns, 0);
      for (uint32_t j = 0; j < tokens; ++j) {
        const double weight = std::exp(scale * scores.At(0, j));
        sum += weight;
        for (uint32_t d = 0; d < columns; ++d) expected[d] += weight * v.At(j, d);
      }
      for (uint32_t d = 0; d < columns; ++d) {
        EXPECT_NEAR(out.At(0, d), expected[d] / sum, 2 * Step(table.dtype) + 1e-5) << tokens;
      }
    }
  }
}

TEST_P(NativeKernels, NormAgreesWithADoubleLoop) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    for (uint32_t columns : {1u, 16u, 24u, 96u, 577u}) {
      const Matrix x = Matrix::Random(table.dtype, 1, columns, columns);
      const Matrix weight = Matrix::Random(table.dtype, 1, columns, columns + 1);
      Matrix out(table.dtype, 1, columns);
      table.rms_norm(x.Row(0), weight.Row(0), columns, 1e-5f, out.Row(0));
      double squares = 0;
      for (uint32_t i = 0; i < columns; ++i) squares += double{x.At(0, i)} * x.At(0, i);
      const double factor = 1 / std::sqrt(squares / columns + 1e-5f);
      for (uint32_t i = 0; i < columns; ++i) {
        const double expected = x.At(0, i) * factor * weight.At(0, i);
        EXPECT_NEAR(out.At(0, i), expected, std::abs(expected) * 2.5 * Step(table.dtype) + 1e-6);
      }
      for (uint32_t i = columns; i < out.stride(); ++i) EXPECT_EQ(out.At(0, i), 0) << i;
    }
  }
}

TEST_P(NativeKernels, RotationAgreesWithADoubleLoopAndRoundsEachProduct) {
  for (const KernelTable& table : tables_) {
    SCOPED_TRACE(table.name);
    for (uint32_t half : {1u, 8u, 16u, 32u, 40u}) {
      const Matrix before = Matrix::Random(table.dtype, 1, 2 * half, half);
      Matrix x = before;
      std::vector<float> cos(half), sin(half);
      for (uint32_t d = 0; d < half; ++d) {
        cos[d] = RoundTo(table.dtype, std::cos(0.3 * d));
        sin[d] = RoundTo(table.dtype, std::sin(0.3 * d));
      }
      table.rotate(x.Row(0), cos.data(), sin.data(), half);
      const auto rounded = [&](float a, float b) { return RoundTo(table.dtype, a * b); };
      for (uint32_t d = 0; d < half; ++d) {
        const float a = before.At(0, d), b = before.At(0, half + d);
        EXPECT_EQ(x.At(0, d), RoundTo(table.dtype, rounded(a, cos[d]) - rounded(b, sin[d])));
        EXPECT_EQ(x.At(0, half + d), RoundTo(table.dtype, rounded(b, cos[d]) + rounded(a, sin[d])));
      }
    }
  }
}

// Tables of one arithmetic give the same bits, whatever their vectors hold.
TEST_P(NativeKernels, OneArithmeticIsTheSameBitsOnEveryInstructionSet) {
  std::map<std::string, std::pair<std::string, Matrix>> results;
  for (const KernelTable& table : tables_) {
    const Matrix a = Matrix::Random(table.dtype, 5, 200, 9);
    const Matrix b = Matrix::Random(table.dtype, 64, 200, 10);
    Matrix out(table.dtype, 5, 64);
    table.multiply(table, ProductOf(a, Pack(table, b), 4, Into::kGated, out.Row(0), out.stride()));
    table.rms_norm(out.Row(0), b.Row(0), 32, 1e-5f, out.Row(1));
    const auto [found, is_new] = results.emplace(table.arithmetic, std::pair(table.name, out));
    if (!is_new) {
      EXPECT_TRUE(found->second.second == out) << found->second.first << " " << table.name;
    }
  }
}

}  // namespace
}  // namespace kvbed
