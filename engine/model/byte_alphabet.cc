#include "engine/model/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "engine/model/utf8.h"

namespace kvbed {
namespace {

constexpr uint32_t kCharacters = 256 + 68;  // 68 bytes are written as U+0100 and above

constexpr bool WritesItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<uint16_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};  // -1: no character of the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte) byte = -1;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t character = WritesItself(byte) ? byte : next++;
    alphabet.character[byte] = static_cast<uint16_t>(character);
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::optional<std::string> FromByteAlphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    if (point.length == 0 || point.value >= kCharacters || kAlphabet.byte[point.value] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[point.value]));
    at += point.length;
  }
  return bytes;
}

std::string ToByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) AppendUtf8(kAlphabet.character[static_cast<uint8_t>(c)], text);
  return text;
}

}  // namespace kvbed
