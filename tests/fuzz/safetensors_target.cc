#include "engine/model/safetensors_file.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

bool FuzzSafetensors(Bytes input) {
  const auto tensors = ParseSafetensors(input);
  if (!tensors.ok()) return false;
  size_t total = 0, sum = 0;
  for (const SafetensorsTensor& tensor : *tensors) {
    total += tensor.data.size();
    for (const std::byte byte : tensor.data) sum += std::to_integer<size_t>(byte);
  }
  KVBED_CHECK(total <= input.size() && sum <= 255 * total);
  return true;
}

}  // namespace kvbed
