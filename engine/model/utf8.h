// Well-formed UTF-8, code point by code point (Unicode, table 3-7).
// It doesn't know what is done with bytes that aren't.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvbed {

struct CodePoint {
  uint32_t value = 0;
  uint32_t length = 0;  // bytes; 0: the byte at this place begins no well-formed sequence
};

// The code point at `offset`, which must be below text.size().
CodePoint DecodeUtf8(std::string_view text, size_t offset);

void AppendUtf8(uint32_t code_point, std::string& out);

// Printable UTF-8 for messages and token texts: bytes that are no part of well-formed UTF-8 and
// control characters become \xNN, line feed, tab and carriage return \n, \t and \r. Cut after
// about `bytes_max` bytes, then ending in "...".
std::string PrintableText(std::string_view bytes, size_t bytes_max = 80);

}  // namespace kvbed
