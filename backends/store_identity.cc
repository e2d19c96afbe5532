#include "backends/store_identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "offload/aligned_buffer.h"
#include "offload/record_id.h"

namespace kvbed {
namespace {

constexpr std::string_view kMagic = "KVBEDSTO";
constexpr size_t kVersionOffset = 8;
constexpr size_t kFlagsOffset = 12;
constexpr size_t kKindOffset = 16;
constexpr size_t kKindBytes = 16;
constexpr size_t kUuidOffset = 32;
constexpr size_t kChecksumOffset = 48;  // XXH3-64 of what is before it
constexpr size_t kEncodedBytes = 56;    // zeroes from here to the end of the page

bool IsKindLetter(char c) { return c >= 'a' && c <= 'z'; }

}  // namespace

StoreIdentity NewStoreIdentity(std::string_view kind) {
  StoreIdentity identity{.kind = std::string(kind), .uuid = {}};
  StoreLe<uint64_t>(identity.uuid.bytes, 0, RandomId());
  StoreLe<uint64_t>(identity.uuid.bytes, 8, RandomId());
  return identity;
}

std::string EncodeStoreIdentity(const StoreIdentity& identity) {
  KVBED_CHECK(!identity.kind.empty() && identity.kind.size() <= kKindBytes);
  KVBED_CHECK(std::all_of(identity.kind.begin(), identity.kind.end(), IsKindLetter));
  std::string page(kPageBytes, '\0');
  const MutableBytes out{reinterpret_cast<std::byte*>(page.data()), page.size()};
  page.replace(0, kMagic.size(), kMagic);
  StoreLe<uint32_t>(out, kVersionOffset, kIdentityFormatVersion);
  StoreLe<uint32_t>(out, kFlagsOffset, 0);
  page.replace(kKindOffset, identity.kind.size(), identity.kind);
  std::copy(identity.uuid.bytes.begin(), identity.uuid.bytes.end(), out.begin() + kUuidOffset);
  StoreLe<uint64_t>(out, kChecksumOffset, Xxh3_64(out.first(kChecksumOffset)));
  return page;
}

Result<StoreIdentity> DecodeStoreIdentity(Bytes bytes) {
  if (bytes.size() != kPageBytes) {
    return Status::Corruption(
        fmt::format("a STORE file has {} bytes, this one {}", kPageBytes, bytes.size()));
  }
  if (AsText(bytes.first(kMagic.size())) != kMagic) {
    return Status::Corruption("it doesn't start with a STORE file's magic");
  }
  if (const auto version = LoadLe<uint32_t>(bytes, kVersionOffset);
      version != kIdentityFormatVersion) {
    return Status::NotSupported(fmt::format("STORE file version {}, this program knows {}", version,
                                            kIdentityFormatVersion));
  }
  if (LoadLe<uint64_t>(bytes, kChecksumOffset) != Xxh3_64(bytes.first(kChecksumOffset)) ||
      !AllZero(bytes.subspan(kEncodedBytes))) {
    return Status::Corruption("the STORE file's checksum doesn't fit");
  }
  if (const auto flags = LoadLe<uint32_t>(bytes, kFlagsOffset); flags != 0) {
    return Status::NotSupported(fmt::format("STORE file flags {:#x} are unknown", flags));
  }
  StoreIdentity identity;
  const std::string_view kind = AsText(bytes.subspan(kKindOffset, kKindBytes));
  identity.kind = std::string(kind.substr(0, std::min(kind.find('\0'), kind.size())));
  const bool valid =
      !identity.kind.empty() &&
      std::all_of(identity.kind.begin(), identity.kind.end(), IsKindLetter) &&
      AllZero(bytes.subspan(kKindOffset + identity.kind.size(), kKindBytes - identity.kind.size()));
  if (!valid) return Status::Corruption("the STORE file's kind is not a word");
  std::copy_n(bytes.begin() + kUuidOffset, identity.uuid.bytes.size(), identity.uuid.bytes.begin());
  return identity;
}

}  // namespace kvbed
