#include "tools/record_hex.h"

#include <fmt/format.h>

#include "offload/record_layout.h"

namespace kvbed {
namespace {

using namespace record_layout;  // NOLINT: this file is about nothing else

std::string FieldsHex(Bytes page) {
  std::string text;
  const auto field = [&](const char* name, size_t at, size_t size_bytes, const std::string& value) {
    const std::string hex = ToHex(page.subspan(at, size_bytes));
    text +=
        fmt::format("  {:08x}  {:<18} {:<{}}{}\n", at, name, hex, value.empty() ? 0 : 34, value);
  };
  const auto number32 = [&](const char* name, size_t at) {
    field(name, at, 4, fmt::format("{}", LoadLe<uint32_t>(page, at)));
  };
  const auto number64 = [&](const char* name, size_t at) {
    field(name, at, 8, fmt::format("{}", LoadLe<uint64_t>(page, at)));
  };
  std::string magic(AsText(page.subspan(kMagicAt, kRecordMagic.size())));
  for (char& c : magic) c = c >= ' ' && c <= '~' ? c : '.';
  field("magic", kMagicAt, kRecordMagic.size(), magic);
  number32("format version", kVersionAt);
  number32("flags", kFlagsAt);
  number32("header bytes", kHeaderBytesAt);
  const auto dtype = static_cast<DType>(LoadLe<uint32_t>(page, kDTypeAt));
  field("dtype", kDTypeAt, 4, DTypeBytes(dtype) > 0 ? std::string(DTypeName(dtype)) : "unknown");
  number64("payload bytes", kPayloadBytesAt);
  field("model fingerprint", kIdAt, 16, "");
  field("sequence id", kIdAt + 16, 8, fmt::format("{:016x}", LoadLe<uint64_t>(page, kIdAt + 16)));
  number64("block index", kIdAt + 24);
  number64("generation", kIdAt + 32);
  number32("payload layout", kLayoutAt);
  number32("layers", kLayersAt);
  number32("KV heads", kKvHeadsAt);
  number32("head_dim", kHeadDimAt);
  number32("block_tokens", kBlockTokensAt);
  number32("tokens used", kTokensUsedAt);
  number64("first position", kFirstPositionAt);
  field("RoPE identity", kRopeIdentityAt, 8,
        fmt::format("{:016x}", LoadLe<uint64_t>(page, kRopeIdentityAt)));
  number32("layers per digest", kLayersPerDigestAt);
  number32("digests", kDigestCountAt);
  field("record digest", kRecordDigestAt, 16, "");
  field("header checksum", kHeaderChecksumAt, 8,
        fmt::format("{:016x}", LoadLe<uint64_t>(page, kHeaderChecksumAt)));
  return text;
}

}  // namespace

std::string HeaderHex(Bytes record, const KvGeometry& geometry) {
  std::string text = FieldsHex(record);
  for (uint32_t i = 0; i < DigestCount(geometry); ++i) {
    const DigestLayers layers = LayersOfDigest(geometry, i);
    const std::string which = layers.last - layers.first == 1
                                  ? std::to_string(layers.first)
                                  : fmt::format("{} to {}", layers.first, layers.last - 1);
    const size_t at = kDigestTableAt + i * sizeof(uint64_t);
    text += fmt::format("  {:08x}  {:<18} {}\n", at,
                        fmt::format("{} of layer {}", layers.part == KvPart::kK ? "K" : "V", which),
                        ToHex(record.subspan(at, sizeof(uint64_t))));
  }
  return text;
}

std::string LayerHex(Bytes record, const RecordHeader& header, uint32_t layer) {
  const KvGeometry& geometry = header.geometry;
  const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
  std::string text;
  for (const KvPart part : {KvPart::kK, KvPart::kV}) {
    for (uint32_t head = 0; head < geometry.kv_heads; ++head) {
      for (uint32_t row = 0; row < header.tokens_used; ++row) {
        const uint64_t at = kPageBytes + geometry.ElementOffset({layer, part, head, row, 0});
        text += fmt::format("  {:08x}  layer {} {} head {} token {} ", at, layer,
                            part == KvPart::kK ? "K" : "V", head, header.first_position + row);
        for (uint64_t i = 0; i < row_bytes; i += geometry.element_bytes()) {
          text += " " + ToHex(record.subspan(at + i, geometry.element_bytes()));
        }
        text += "\n";
      }
    }
  }
  return text;
}

}  // namespace kvbed
