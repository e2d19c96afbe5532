// Parses a safetensors file: the tensors that its header lists, each with its bytes.
// It doesn't know models; which tensors and types a model needs is for its reader to say.
// Format: https://github.com/huggingface/safetensors, section "Format".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as written: "BF16"
  std::vector<uint64_t> shape;
  Bytes data;  // borrowed from the file, at any alignment
};

// The format's own limit.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

// `file` is the whole file and must outlive the result. Every byte behind the header belongs to
// exactly one tensor. Corruption or not supported otherwise; messages name the tensor, not the
// file.
Result<std::vector<SafetensorsTensor>> ParseSafetensors(Bytes file);

}  // namespace kvbed
