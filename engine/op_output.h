// What one operation of a forward pass gave, shown to whoever looks on: a test, or the command that
// finds the first operation whose results differ. It doesn't know who looks, nor how it was
// computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "offload/bytes.h"

namespace kvbed {

// A row for each token of the call, or of the part of it that goes through together.
struct OpOutput {
  std::string_view op;            // "q_proj"; names of fused operations have a +
  std::optional<uint32_t> layer;  // none for the embedding, the final norm and the logits
  uint64_t first_position = 0;    // of row 0 in its sequence
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t element_bytes = 0;
  uint64_t row_stride_bytes = 0;
  const std::byte* data = nullptr;  // valid during the call

  Bytes Row(uint64_t row) const { return {data + row * row_stride_bytes, columns * element_bytes}; }
};

// Is called after each operation, in order, by the thread that runs the pass. Looking takes time.
using OpTap = std::function<void(const OpOutput& output)>;

}  // namespace kvbed
