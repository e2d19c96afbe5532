#include "backends/store_protocol.h"

#include <array>
#include <utility>

namespace kvbed {
namespace {

constexpr std::array<std::pair<StatusCode, std::string_view>, 7> kProtocolStatuses{{
    {StatusCode::kOk, "ok"},
    {StatusCode::kNotFound, "not_found"},
    {StatusCode::kIoError, "io_error"},
    {StatusCode::kCorruption, "corruption"},
    {StatusCode::kInvalidArgument, "invalid_argument"},
    {StatusCode::kOutOfSpace, "out_of_space"},
    {StatusCode::kNotSupported, "not_supported"},
}};

}  // namespace

std::string_view ProtocolStatusName(StatusCode code) {
  for (const auto& [known, name] : kProtocolStatuses) {
    if (known == code) return name;
  }
  return "io_error";
}

std::optional<StatusCode> ParseProtocolStatus(std::string_view name) {
  for (const auto& [code, known] : kProtocolStatuses) {
    if (known == name) return code;
  }
  return std::nullopt;
}

std::string_view ProtocolAccessName(StoreAccess access) {
  switch (access) {
    case StoreAccess::kRead: return "read";
    case StoreAccess::kWrite: return "write";
    case StoreAccess::kCreate: return "create";
  }
  return "read";
}

std::optional<RecordId> ParseRecordIdHex(std::string_view hex) {
  if (hex.size() != 2 * kRecordIdBytes) return std::nullopt;
  const auto bytes = FromHex(hex);
  if (!bytes) return std::nullopt;
  return RecordId::Decode(AsBytes(*bytes));
}

std::string CutMessage(std::string_view text) {
  size_t end = text.size();
  if (end > kProtocolMessageBytesMax) {
    end = kProtocolMessageBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  return std::string(text.substr(0, end));
}

}  // namespace kvbed
