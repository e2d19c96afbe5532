// Numbers of a plan as people read them: three digits that count, and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace kvbed {

// "0.328", "2.95", "29.5", "1,234"
std::string ThreeDigits(double value);
// "0.009 GB", "42.95 GB"; GB = 10^9 bytes.
std::string Gigabytes(uint64_t bytes);
// "16.00 GiB"; GiB = 2^30 bytes.
std::string Gibibytes(uint64_t bytes);
// "12 us", "3.21 ms", "6.14 s", "1,234 s"
std::string Seconds(double seconds);

}  // namespace kvbed
