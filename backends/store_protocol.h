// The words of docs/store-protocol.md that both sides use, kvbed and the process that hosts a
// plug-in. It doesn't know how lines travel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/store_folder.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr uint32_t kStoreProtocolVersion = 1;
inline constexpr uint64_t kProtocolLineBytesMax = 4 << 20;
inline constexpr uint64_t kProtocolPageMax = 4096;  // ids or names in one answer, requests in one
inline constexpr size_t kProtocolMessageBytesMax = 256;

// "ok", "not_found", "io_error", "corruption", "invalid_argument", "out_of_space",
// "not_supported".
std::string_view ProtocolStatusName(StatusCode code);
std::optional<StatusCode> ParseProtocolStatus(std::string_view name);

std::string_view ProtocolAccessName(StoreAccess access);  // "read", "write", "create"

// 80 hexadecimal digits; nothing for other text.
std::optional<RecordId> ParseRecordIdHex(std::string_view hex);

// `text` (UTF-8) cut to kProtocolMessageBytesMax bytes at a character's boundary.
std::string CutMessage(std::string_view text);

}  // namespace kvbed
