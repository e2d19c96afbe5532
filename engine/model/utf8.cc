#include "engine/model/utf8.h"

#include <array>

namespace kvbed {
namespace {

struct Lead {
  uint32_t length;
  uint32_t bits;      // payload of the lead byte
  uint8_t low, high;  // range of the second byte
};

Lead DecodeLead(uint8_t byte) {
  if (byte < 0x80) return {1, byte, 0, 0};
  if (byte < 0xc2) return {0, 0, 0, 0};
  if (byte < 0xe0) return {2, byte & 0x1fu, 0x80, 0xbf};
  if (byte == 0xe0) return {3, byte & 0x0fu, 0xa0, 0xbf};
  if (byte == 0xed) return {3, byte & 0x0fu, 0x80, 0x9f};  // above: surrogates
  if (byte < 0xf0) return {3, byte & 0x0fu, 0x80, 0xbf};
  if (byte == 0xf0) return {4, byte & 0x07u, 0x90, 0xbf};
  if (byte < 0xf4) return {4, byte & 0x07u, 0x80, 0xbf};
  if (byte == 0xf4) return {4, byte & 0x07u, 0x80, 0x8f};
  return {0, 0, 0, 0};
}

void AppendEscaped(uint8_t byte, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

// C0, DEL and C1.
bool IsControl(uint32_t value) { return value < 0x20 || (value >= 0x7f && value < 0xa0); }

}  // namespace

CodePoint DecodeUtf8(std::string_view text, size_t offset) {
  const Lead lead = DecodeLead(static_cast<uint8_t>(text[offset]));
  if (lead.length == 0 || lead.length > text.size() - offset) return {};
  uint32_t value = lead.bits;
  for (uint32_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<uint8_t>(text[offset + i]);
    const uint8_t low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) return {};
    value = value << 6 | (byte & 0x3fu);
  }
  return {value, lead.length};
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::string PrintableText(std::string_view bytes, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    if (at >= bytes_max) return out + "...";
    const CodePoint point = DecodeUtf8(bytes, at);
    if (bytes[at] == '\n') {
      out += "\\n";
    } else if (bytes[at] == '\t') {
      out += "\\t";
    } else if (bytes[at] == '\r') {
      out += "\\r";
    } else if (point.length == 0 || (IsControl(point.value) && point.length == 1)) {
      AppendEscaped(static_cast<uint8_t>(bytes[at]), out);
    } else if (IsControl(point.value)) {
      AppendEscaped(static_cast<uint8_t>(bytes[at]), out);
      AppendEscaped(static_cast<uint8_t>(bytes[at + 1]), out);
    } else {
      out.append(bytes.substr(at, point.length));
    }
    at += point.length == 0 ? 1 : point.length;
  }
  return out;
}

}  // namespace kvbed
