// The 256 printable characters in which byte-level BPE files write bytes: GPT-2's bytes_to_unicode
// (openai/gpt-2, src/encoder.py), where a space is U+0120 and a line feed U+010A.
// It doesn't know tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvbed {

// The bytes that `text` writes; nullopt when a character is not of the alphabet.
std::optional<std::string> FromByteAlphabet(std::string_view text);

// The text that writes `bytes`.
std::string ToByteAlphabet(std::string_view bytes);

}  // namespace kvbed
