// The header of a safetensors file, for whoever writes the tensors' bytes behind it.
// It writes nothing itself, and doesn't know what the tensors are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvbed {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "BF16"
  std::vector<uint64_t> shape;
  uint64_t size_bytes = 0;
};

// The file up to the first byte of the first tensor. The tensors' bytes follow it in the order of
// `tensors` without gaps; the header is padded so that they begin at a multiple of 8.
std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& tensors,
                              const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace kvbed
