// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvbed {

// "1,234,567"
std::string Thousands(uint64_t value);

// "1 record", "2,048 records"
std::string Count(uint64_t value, std::string_view one, std::string_view many);

// "304 us", "1.86 ms", "2.50 s"
std::string Duration(uint64_t ns);

}  // namespace kvbed
