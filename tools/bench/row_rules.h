// The limits by which a row of a benchmark may be published; what passes the bytes is in
// byte_proof.h. They hold for every benchmark alike.
#pragma once

#include <cstdint>

namespace kvbed {

// A coefficient of variation above it makes a row noisy.
inline constexpr double kNoisyAbove = 0.10;
// A rate above this part of what kvbed does without a disk says more of kvbed than of the disk.
inline constexpr double kToolBoundAbove = 0.8;
// Timed repetitions after the warm-up.
inline constexpr uint32_t kRepetitionsLeast = 5;

}  // namespace kvbed
