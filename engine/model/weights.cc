#include "engine/model/weights.h"

#include <algorithm>

#include "engine/model/float_formats.h"
#include "engine/model/quantized_rows.h"

namespace kvbed {
namespace {

// The stored row that holds row `row` of Hugging Face's order. GGUF keeps the rows d and
// d + head_dim/2 of a head side by side (LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py).
uint64_t StoredRow(uint64_t row, uint64_t head_dim) {
  if (head_dim == 0) return row;
  const uint64_t half = head_dim / 2, head = row / head_dim, dim = row % head_dim;
  return head * head_dim + dim % half * 2 + dim / half;
}

// Elements [first, first + out.size()) in stored order; both ends on block boundaries.
void ReadStored(const WeightTensor& tensor, uint64_t first, std::span<float> out) {
  if (tensor.type == StoredType::kGenerated) {
    GenerateValues(tensor.generator, first, out);
    return;
  }
  const auto offset = StoredBytes(tensor.type, first), bytes = StoredBytes(tensor.type, out.size());
  KVBED_CHECK(offset && bytes);
  Dequantize(tensor.type, tensor.stored.subspan(*offset, *bytes), out);
}

void CheckRange(const WeightTensor& tensor, uint64_t first, uint64_t count, size_t out_elements) {
  KVBED_CHECK(first <= tensor.rows() && count <= tensor.rows() - first);
  KVBED_CHECK(out_elements == count * tensor.columns());
}

}  // namespace

void WeightTensor::ReadRows(uint64_t first, uint64_t count, std::span<float> out) const {
  CheckRange(*this, first, count, out.size());
  if (interleaved_head_dim == 0) return ReadStored(*this, first * columns(), out);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t stored_row = StoredRow(first + i, interleaved_head_dim);
    ReadStored(*this, stored_row * columns(), out.subspan(i * columns(), columns()));
  }
}

void WeightTensor::ReadRowsBf16(uint64_t first, uint64_t count, std::span<uint16_t> out) const {
  CheckRange(*this, first, count, out.size());
  // A multiple of every block size, small enough to stay in the first-level cache.
  std::array<float, 2048> piece;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row_start = StoredRow(first + i, interleaved_head_dim) * columns();
    for (uint64_t column = 0; column < columns(); column += piece.size()) {
      const uint64_t n = std::min<uint64_t>(piece.size(), columns() - column);
      ReadStored(*this, row_start + column, std::span(piece).first(n));
      std::transform(piece.begin(), piece.begin() + n, out.begin() + i * columns() + column,
                     FloatToBf16);
    }
  }
}

Weights::Weights(std::vector<MappedFile> files, TensorMap tensors)
    : files_(std::move(files)), tensors_(std::move(tensors)) {}

const WeightTensor* Weights::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const WeightTensor& Weights::At(std::string_view name) const {
  const WeightTensor* tensor = Find(name);
  KVBED_CHECK(tensor != nullptr);
  return *tensor;
}

uint64_t Weights::stored_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_) bytes += tensor.stored.size();
  return bytes;
}

std::string LayerTensorName(uint32_t layer, std::string_view part) {
  return "model.layers." + std::to_string(layer) + "." + std::string(part);
}

}  // namespace kvbed
