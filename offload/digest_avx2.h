// The part of digest.cc that is compiled for AVX2; only digest.cc calls it.
// It doesn't know whether the CPU has AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvbed {

uint64_t Xxh3_64Avx2(const void* bytes, size_t size);

}  // namespace kvbed
