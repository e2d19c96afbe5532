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

}  // namespace kvbed
