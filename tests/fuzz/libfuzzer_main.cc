// A libFuzzer program of the target that it is compiled for.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)kvbed::KVBED_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
