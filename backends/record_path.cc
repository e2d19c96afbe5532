#include "backends/record_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "offload/bytes.h"

namespace kvbed {
namespace {

constexpr std::string_view kRecordSuffix = ".kv";
constexpr size_t kModelDigits = 32;
constexpr size_t kNumberDigits = 16;

std::optional<std::string> Unhex(std::string_view text, size_t digits) {
  if (text.size() != digits) return std::nullopt;
  return FromHex(text);
}

std::optional<uint64_t> NumberIn(std::string_view text) {
  const auto bytes = Unhex(text, kNumberDigits);
  if (!bytes) return std::nullopt;
  uint64_t number = 0;
  for (const char byte : *bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

std::string RecordFolder(const RecordKey& key) {
  std::array<std::byte, 8> sequence;
  StoreLe<uint64_t>(sequence, 0, key.sequence_id);
  const uint64_t spread = Xxh3_64(sequence) ^ LoadLe<uint64_t>(key.model_fingerprint.bytes, 0);
  return fmt::format("{:02x}/{}-{:016x}", spread & 0xff, key.model_fingerprint.ToHex(),
                     key.sequence_id);
}

std::string RecordPath(const RecordId& id) {
  return fmt::format("{}/{:016x}-{:016x}{}", RecordFolder(id.key), id.key.block_index,
                     id.generation, kRecordSuffix);
}

std::optional<RecordId> RecordAtPath(std::string_view spread, std::string_view sequence,
                                     std::string_view file) {
  if (sequence.size() != kModelDigits + 1 + kNumberDigits) return std::nullopt;
  if (file.size() != 2 * kNumberDigits + 1 + kRecordSuffix.size()) return std::nullopt;
  const auto model = Unhex(sequence.substr(0, kModelDigits), kModelDigits);
  const auto sequence_id = NumberIn(sequence.substr(kModelDigits + 1));
  const auto block = NumberIn(file.substr(0, kNumberDigits));
  const auto generation = NumberIn(file.substr(kNumberDigits + 1, kNumberDigits));
  if (!model || !sequence_id || !block || !generation) return std::nullopt;
  RecordId id{{{}, *sequence_id, *block}, *generation};
  const Bytes bytes = AsBytes(*model);
  std::copy(bytes.begin(), bytes.end(), id.key.model_fingerprint.bytes.begin());
  // Other separators, endings and upper-case digits are somebody else's files.
  if (RecordPath(id) != fmt::format("{}/{}/{}", spread, sequence, file)) return std::nullopt;
  return id;
}

}  // namespace kvbed
