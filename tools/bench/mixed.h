// A mixer of counters for seeded data: words that look random and are the same in every run.
// Not for secrets.
#pragma once

#include <cstdint>

namespace kvbed {

// splitmix64 (https://prng.di.unimi.it/splitmix64.c). A bijection: different values stay different.
inline uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace kvbed
