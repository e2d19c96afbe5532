#include "offload/finding.h"

namespace kvbed {

std::string_view CheckName(Check check) {
  switch (check) {
    case Check::kMagic: return "magic";
    case Check::kVersion: return "version";
    case Check::kLength: return "length";
    case Check::kHeaderChecksum: return "header_checksum";
    case Check::kFingerprint: return "fingerprint";
    case Check::kKey: return "key";
    case Check::kGeneration: return "generation";
    case Check::kLayout: return "layout";
    case Check::kPayload: return "payload";
    case Check::kPadding: return "padding";
    case Check::kManifest: return "manifest";
    case Check::kMissing: return "missing";
    case Check::kPoison: return "poison";
    case Check::kShort: return "short";
    case Check::kStore: return "store";
  }
  return "unknown";
}

std::string_view DamageName(Damage damage) {
  switch (damage) {
    case Damage::kBit: return "bit";
    case Damage::kZeroed: return "zeroed";
    case Damage::kShifted: return "shifted";
    case Damage::kEqualsOther: return "equals_other";
    case Damage::kTorn: return "torn";
    case Damage::kByteOrder: return "byte_order";
  }
  return "unknown";
}

std::string_view RereadName(Reread reread) {
  switch (reread) {
    case Reread::kSame: return "same";
    case Reread::kGood: return "good";
    case Reread::kDifferent: return "different";
    case Reread::kFailed: return "failed";
  }
  return "unknown";
}

}  // namespace kvbed
