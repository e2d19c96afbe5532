// Rows of activations between the operations of a native forward pass. It doesn't know what they
// mean.
#pragma once

#include <cstdint>

#include "engine/kernels/native/kernel_table.h"
#include "offload/aligned_buffer.h"
#include "offload/status.h"

namespace kvbed {

// Rows of elements, padded and zeroed.
struct Activations {
  AlignedBuffer data;
  uint64_t stride = 0;  // elements
  uint64_t element_bytes = 0;

  static Result<Activations> Allocate(uint32_t rows, uint32_t columns, uint64_t element_bytes) {
    Activations made{.data = {}, .stride = Padded(columns), .element_bytes = element_bytes};
    KVBED_ASSIGN_OR_RETURN(made.data, AlignedBuffer::Allocate(rows * made.stride * element_bytes));
    return made;
  }
  std::byte* Row(uint64_t row) { return data.bytes().data() + row * stride * element_bytes; }
  std::byte* At(uint64_t row, uint64_t column) { return Row(row) + column * element_bytes; }
};

}  // namespace kvbed
