#include "offload/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace kvbed {
namespace {

constexpr std::string_view kMagic = "KVBEDMAN";
constexpr size_t kDigestBytes = 16;

// Appends little-endian fields; strings and lists are preceded by their count.
class FieldWriter {
 public:
  void U32(uint32_t value) { Append(value); }
  void U64(uint64_t value) { Append(value); }
  void F64(double value) { Append(std::bit_cast<uint64_t>(value)); }
  void Text(std::string_view text) {
    U32(static_cast<uint32_t>(text.size()));
    out_.append(text);
  }
  void Digest(const Digest128& digest) { out_.append(AsText(digest.bytes)); }
  void Id(const RecordId& id) {
    std::array<std::byte, kRecordIdBytes> encoded;
    id.Encode(encoded);
    out_.append(AsText(encoded));
  }
  std::string Take() { return std::move(out_); }
  Bytes bytes() const { return AsBytes(out_); }

 private:
  template <class Integer>
  void Append(Integer value) {
    std::array<std::byte, sizeof(Integer)> encoded;
    StoreLe<Integer>(encoded, 0, value);
    out_.append(AsText(encoded));
  }

  std::string out_;
};

// Reads the same fields; past the end everything reads as zero and ok() turns false.
class FieldReader {
 public:
  explicit FieldReader(Bytes in) : in_(in) {}

  bool ok() const { return ok_; }
  size_t left() const { return in_.size(); }
  uint32_t U32() { return Integer<uint32_t>(); }
  uint64_t U64() { return Integer<uint64_t>(); }
  double F64() { return std::bit_cast<double>(U64()); }
  std::string Text() { return std::string(AsText(Take(U32()))); }
  Digest128 Digest() {
    Digest128 digest;
    const Bytes bytes = Take(kDigestBytes);
    std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
    return digest;
  }
  RecordId Id() {
    const Bytes bytes = Take(kRecordIdBytes);
    return bytes.empty() ? RecordId{} : RecordId::Decode(bytes);
  }
  // A count of items of `item_bytes` each that the rest of the input can hold.
  uint64_t Count(uint64_t item_bytes) {
    const uint64_t count = U64();
    if (count <= in_.size() / item_bytes) return count;
    ok_ = false;
    return 0;
  }

 private:
  Bytes Take(size_t size) {
    if (size > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    const Bytes taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  template <class T>
  T Integer() {
    const Bytes bytes = Take(sizeof(T));
    return bytes.empty() ? T{0} : LoadLe<T>(bytes, 0);
  }

  Bytes in_;
  bool ok_ = true;
};

constexpr uint64_t kBlockEntryBytes = kRecordIdBytes + 8 + kDigestBytes + 4;

}  // namespace

std::optional<int32_t> Manifest::pending_token() const {
  if (token_ids.size() != cached_tokens + 1) return std::nullopt;
  return token_ids.back();
}

RecordHeader Manifest::ExpectedHeader(uint64_t index) const {
  RecordHeader header;
  header.id = blocks[index].id;
  header.geometry = geometry;
  header.tokens_used = blocks[index].tokens_used;
  header.first_position = index * geometry.block_tokens;
  header.rope_identity = rope_identity;
  return header;
}

Status ValidateManifest(const Manifest& manifest) {
  const auto broken = [&](std::string_view what) {
    return Status::Corruption(fmt::format("snapshot {}: {}", manifest.name, what));
  };
  if (Status valid = manifest.geometry.Validate(); !valid.ok()) return broken(valid.message());
  if (manifest.sequence_id == 0) return broken("the sequence id is 0");
  const uint64_t tokens = manifest.token_ids.size();
  // A count near 2^64 must not wrap round to one that fits.
  if (manifest.cached_tokens > tokens || tokens - manifest.cached_tokens > 1) {
    return broken(
        fmt::format("{} token ids do not fit {} cached tokens", tokens, manifest.cached_tokens));
  }
  if (manifest.prompt_tokens > tokens) return broken("more prompt tokens than tokens");
  if (manifest.blocks.size() != manifest.geometry.BlocksFor(manifest.cached_tokens)) {
    return broken(fmt::format("{} blocks do not fit {} cached tokens", manifest.blocks.size(),
                              manifest.cached_tokens));
  }
  const Digest128 fingerprint = manifest.model.Fingerprint();
  for (uint64_t i = 0; i < manifest.blocks.size(); ++i) {
    const ManifestBlock& block = manifest.blocks[i];
    const uint64_t rows =
        std::min<uint64_t>(manifest.geometry.block_tokens,
                           manifest.cached_tokens - i * manifest.geometry.block_tokens);
    const bool fits = block.id.key.model_fingerprint == fingerprint &&
                      block.id.key.sequence_id == manifest.sequence_id &&
                      block.id.key.block_index == i && block.id.generation != 0 &&
                      block.tokens_used == rows;
    if (!fits) return broken(fmt::format("block {} is not this sequence's", i));
  }
  return Status::Ok();
}

std::string EncodeManifest(const Manifest& m) {
  FieldWriter out;
  out.U64(LoadLe<uint64_t>(AsBytes(kMagic), 0));
  out.U32(kManifestFormatVersion);
  out.U32(0);  // flags
  out.Text(m.name);
  out.U64(m.created_ns);
  out.Digest(m.store_uuid);
  out.Text(m.model_name);
  out.Digest(m.model.weights);
  out.Digest(m.model.config);
  out.Digest(m.model.tokenizer);
  out.U64(m.rope_identity);
  out.U32(m.geometry.layers);
  out.U32(m.geometry.kv_heads);
  out.U32(m.geometry.head_dim);
  out.U32(static_cast<uint32_t>(m.geometry.dtype));
  out.U32(m.geometry.block_tokens);
  out.U64(m.sequence_id);
  out.U64(m.cached_tokens);
  out.U64(m.prompt_tokens);
  out.F64(m.sampler.temperature);
  out.F64(m.sampler.top_p);
  out.U32(m.sampler.top_k);
  out.U64(m.sampler.seed);
  out.U64(m.sampler.draws);
  out.Text(m.environment.kernel_set);
  out.Text(m.environment.isa);
  out.Text(m.environment.library);
  out.Text(m.environment.linear);
  out.U32(m.environment.threads);
  out.U32(m.environment.prefill_chunk);
  out.U64(m.token_ids.size());
  for (int32_t id : m.token_ids) out.U32(static_cast<uint32_t>(id));
  out.U64(m.blocks.size());
  for (const ManifestBlock& block : m.blocks) {
    out.Id(block.id);
    out.U64(block.place);
    out.Digest(block.digest);
    out.U32(block.tokens_used);
  }
  const Digest128 checksum = Xxh3_128(out.bytes());
  out.Digest(checksum);
  return out.Take();
}

Result<Manifest> DecodeManifest(Bytes bytes) {
  constexpr size_t kPrefixBytes = 16;
  if (bytes.size() < kPrefixBytes + kDigestBytes) {
    return Status::Corruption(fmt::format("manifest of {} bytes is cut short", bytes.size()));
  }
  if (AsText(bytes.first(kMagic.size())) != kMagic) {
    return Status::Corruption("manifest does not start with KVBEDMAN");
  }
  FieldReader in(bytes.first(bytes.size() - kDigestBytes).subspan(kMagic.size()));
  if (const uint32_t version = in.U32(); version != kManifestFormatVersion) {
    return Status::NotSupported(fmt::format("manifest format version {}, this kvbed knows {}",
                                            version, kManifestFormatVersion));
  }
  const Bytes body = bytes.first(bytes.size() - kDigestBytes);
  FieldReader trailer(bytes.last(kDigestBytes));
  const Digest128 stored = trailer.Digest(), computed = Xxh3_128(body);
  if (stored != computed) {
    return Status::Corruption(fmt::format("manifest checksum is {}, its bytes give {}",
                                          stored.ToHex(), computed.ToHex()));
  }
  if (const uint32_t flags = in.U32(); flags != 0) {
    return Status::NotSupported(fmt::format("manifest has unknown flags {:#x}", flags));
  }
  Manifest m;
  m.name = in.Text();
  m.created_ns = in.U64();
  m.store_uuid = in.Digest();
  m.model_name = in.Text();
  m.model.weights = in.Digest();
  m.model.config = in.Digest();
  m.model.tokenizer = in.Digest();
  m.rope_identity = in.U64();
  m.geometry.layers = in.U32();
  m.geometry.kv_heads = in.U32();
  m.geometry.head_dim = in.U32();
  m.geometry.dtype = static_cast<DType>(in.U32());
  m.geometry.block_tokens = in.U32();
  m.sequence_id = in.U64();
  m.cached_tokens = in.U64();
  m.prompt_tokens = in.U64();
  m.sampler.temperature = in.F64();
  m.sampler.top_p = in.F64();
  m.sampler.top_k = in.U32();
  m.sampler.seed = in.U64();
  m.sampler.draws = in.U64();
  m.environment.kernel_set = in.Text();
  m.environment.isa = in.Text();
  m.environment.library = in.Text();
  m.environment.linear = in.Text();
  m.environment.threads = in.U32();
  m.environment.prefill_chunk = in.U32();
  m.token_ids.resize(in.Count(sizeof(uint32_t)));
  for (int32_t& id : m.token_ids) id = static_cast<int32_t>(in.U32());
  m.blocks.resize(in.Count(kBlockEntryBytes));
  for (ManifestBlock& block : m.blocks) {
    block.id = in.Id();
    block.place = in.U64();
    block.digest = in.Digest();
    block.tokens_used = in.U32();
  }
  if (!in.ok() || in.left() != 0) {
    return Status::Corruption("manifest's counts do not fit its length");
  }
  if (Status valid = ValidateSnapshotName(m.name); !valid.ok()) {
    return Status::Corruption(fmt::format("manifest: {}", valid.message()));
  }
  KVBED_RETURN_IF_ERROR(ValidateManifest(m));
  return m;
}

Status ValidateSnapshotName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  const bool valid = !name.empty() && name.size() <= 128 && name.front() != '.' &&
                     std::all_of(name.begin(), name.end(), allowed);
  if (valid) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("snapshot name '{}' is not 1 to 128 of A-Z a-z 0-9 . _ - without a dot in front",
                  name.substr(0, 140)));
}

}  // namespace kvbed
