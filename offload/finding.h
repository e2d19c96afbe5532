// A finding: one typed verification failure. It says which check failed, on which record, where in
// it, and what was expected; it doesn't say what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "offload/kv_geometry.h"
#include "offload/record_id.h"

namespace kvbed {

enum class Check : uint8_t {
  kMagic,
  kVersion,
  kLength,
  kHeaderChecksum,
  kFingerprint,
  kKey,
  kGeneration,
  kLayout,
  kPayload,
  kPadding,
  kManifest,  // an intact record of the right id whose digest is not the one in the manifest
  kMissing,   // the store has no such record
  kPoison,    // the destination still holds what it was poisoned with: nothing was copied
  kShort,     // the store holds fewer bytes than the record has
  kStore,     // the store itself found that what it holds is damaged
};

// What the bytes prove about how they were damaged.
enum class Damage : uint8_t { kBit, kZeroed, kShifted, kEqualsOther, kTorn, kByteOrder };

// What a second read of the same record gave.
enum class Reread : uint8_t { kSame, kGood, kDifferent, kFailed };

std::string_view CheckName(Check check);     // "magic", "header_checksum", ... as in result files
std::string_view DamageName(Damage damage);  // "bit", "zeroed", ...
std::string_view RereadName(Reread reread);  // "same", "good", ...

struct Finding {
  Check check = Check::kPayload;
  RecordId id;  // the record that was asked for
  std::optional<uint32_t> layer;
  std::optional<KvPart> kv;
  std::optional<uint32_t> head;
  std::optional<uint64_t> token;  // position in the sequence
  std::optional<uint32_t> dim;
  std::optional<uint64_t> first_token;  // the positions that the record covers
  std::optional<uint64_t> token_count;
  std::optional<uint64_t>
      byte_offset;    // of the first wrong byte, or of the failing part, in the record
  std::string place;  // "slab-372736.dat slot 7", empty when unknown
  std::string expected;
  std::string actual;
  std::optional<Damage> damage;
  std::optional<RecordId> other_id;  // whose bytes these are, when they are another record's
  std::optional<Reread> reread;
  std::string message;  // one line for people

  bool operator==(const Finding&) const = default;
};

}  // namespace kvbed
