// The STORE file: what kind of store a folder is, and its UUID. One page, checksummed; FORMAT.md
// has the offsets. It doesn't know where it is kept.
#pragma once

#include <string>
#include <string_view>

#include "offload/bytes.h"
#include "offload/digest.h"
#include "offload/status.h"

namespace kvbed {

inline constexpr std::string_view kIdentityFileName = "STORE";
inline constexpr uint32_t kIdentityFormatVersion = 1;

struct StoreIdentity {
  std::string kind;  // "slab", ...: 1 to 16 lower-case letters
  Digest128 uuid;    // 16 random bytes
  bool operator==(const StoreIdentity&) const = default;
};

StoreIdentity NewStoreIdentity(std::string_view kind);
std::string EncodeStoreIdentity(const StoreIdentity& identity);
// Any bytes. Not supported for an unknown version or flag, corruption for the rest.
Result<StoreIdentity> DecodeStoreIdentity(Bytes bytes);

}  // namespace kvbed
