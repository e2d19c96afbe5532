#include "verify/ledger.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace kvbed {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "kvbed-ledger/1";
constexpr std::string_view kSchemaFamily = "kvbed-ledger/";

std::string Hex64(uint64_t value) { return fmt::format("{:016x}", value); }

json ToJson(const KvDigest& digest) {
  json parts = json::array();
  for (const Digest128& part : digest.parts) parts.push_back(part.ToHex());
  return {{"tokens", digest.tokens}, {"total", digest.total.ToHex()}, {"parts", std::move(parts)}};
}

// Typed fields of an object. The first that is missing or wrong is kept; from then on everything
// reads as zero or empty.
class Fields {
 public:
  Fields(const json& object, std::string path, Status& error)
      : object_(object.is_object() ? &object : nullptr), path_(std::move(path)), error_(error) {
    if (object_ == nullptr) Fail(path_.empty() ? "the document" : path_, "is not an object");
  }

  std::string Text(const char* name) {
    const json* field = Find(name);
    if (field == nullptr) return {};
    if (!field->is_string()) return Wrong(name, "is not a string"), std::string();
    return field->get<std::string>();
  }
  uint64_t Unsigned(const char* name, uint64_t max = std::numeric_limits<uint64_t>::max()) {
    const json* field = Find(name);
    if (field == nullptr) return 0;
    if (!field->is_number_unsigned()) return Wrong(name, "is not a whole number from 0 on"), 0;
    const auto value = field->get<uint64_t>();
    if (value > max) return Wrong(name, fmt::format("is {}, above {}", value, max)), 0;
    return value;
  }
  uint32_t Unsigned32(const char* name) {
    return static_cast<uint32_t>(Unsigned(name, std::numeric_limits<uint32_t>::max()));
  }
  double Number(const char* name) {
    const json* field = Find(name);
    if (field == nullptr) return 0;
    if (!field->is_number()) return Wrong(name, "is not a number"), 0;
    return field->get<double>();
  }
  int32_t Token(const char* name) {
    return static_cast<int32_t>(Unsigned(name, std::numeric_limits<int32_t>::max()));
  }
  bool IsNull(const char* name) {
    const json* field = Find(name);
    return field != nullptr && field->is_null();
  }
  uint64_t Hex64(const char* name) {
    const std::string text = Text(name);
    uint64_t value = 0;
    const auto end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value, 16);
    const bool valid = text.size() == 16 && parsed.ec == std::errc() && parsed.ptr == end;
    if (!valid) Wrong(name, "is not 16 hexadecimal digits");
    return value;
  }
  Digest128 Digest(const char* name) { return DigestOf(Text(name), Name(name)); }
  Fields Object(const char* name) {
    const json* field = Find(name);
    static const json nothing = json::object();
    return Fields(field == nullptr ? nothing : *field, Name(name), error_);
  }
  // Calls `visit(item, path)` for each item of an array.
  template <class Visit>
  void ForEach(const char* name, const Visit& visit) {
    const json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_array()) return Wrong(name, "is not an array");
    for (size_t i = 0; i < field->size() && error_.ok(); ++i) {
      visit((*field)[i], fmt::format("{}[{}]", Name(name), i));
    }
  }
  std::vector<Digest128> Digests(const char* name) {
    std::vector<Digest128> digests;
    ForEach(name, [&](const json& item, const std::string& path) {
      digests.push_back(DigestOf(item.is_string() ? item.get<std::string>() : "", path));
    });
    return digests;
  }
  void Wrong(const char* name, std::string_view what) { Fail(Name(name), what); }

 private:
  std::string Name(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
  const json* Find(const char* name) {
    if (object_ == nullptr) return nullptr;
    const auto found = object_->find(name);
    if (found != object_->end()) return &*found;
    Wrong(name, "is missing");
    return nullptr;
  }
  Digest128 DigestOf(std::string_view text, const std::string& path) {
    Digest128 digest;
    const auto bytes = FromHex(text);
    if (!bytes || bytes->size() != digest.bytes.size()) {
      Fail(path, "is not a digest of 32 hexadecimal digits");
    } else {
      std::memcpy(digest.bytes.data(), bytes->data(), bytes->size());
    }
    return digest;
  }
  void Fail(std::string_view field, std::string_view what) {
    if (error_.ok()) error_ = Status::Corruption(fmt::format("{} {}", field, what));
  }

  const json* object_;
  std::string path_;
  Status& error_;
};

KvDigest ReadKvDigest(Fields fields) {
  KvDigest digest;
  digest.tokens = fields.Unsigned("tokens");
  digest.total = fields.Digest("total");
  digest.parts = fields.Digests("parts");
  return digest;
}

ModelDigests ReadModel(Fields fields, std::string& name) {
  name = fields.Text("name");
  const ModelDigests model = {fields.Digest("weights_digest"), fields.Digest("config_digest"),
                              fields.Digest("tokenizer_digest")};
  if (fields.Digest("fingerprint") != model.Fingerprint()) {
    fields.Wrong("fingerprint", "does not fit the three digests beside it");
  }
  return model;
}

NumericEnvironment ReadEnvironment(Fields fields) {
  NumericEnvironment environment;
  environment.kernel_set = fields.Text("kernel_set");
  environment.isa = fields.Text("isa");
  environment.library = fields.Text("library");
  environment.linear = fields.Text("linear");
  environment.threads = fields.Unsigned32("threads");
  environment.prefill_chunk = fields.Unsigned32("prefill_chunk");
  return environment;
}

SamplerState ReadSampler(Fields fields) {
  SamplerState sampler;
  sampler.temperature = fields.Number("temperature");
  sampler.top_p = fields.Number("top_p");
  sampler.top_k = fields.Unsigned32("top_k");
  sampler.seed = fields.Unsigned("seed");
  sampler.draws = fields.Unsigned("draws");
  return sampler;
}

KvGeometry ReadGeometry(Fields fields) {
  KvGeometry geometry;
  geometry.layers = fields.Unsigned32("layers");
  geometry.kv_heads = fields.Unsigned32("kv_heads");
  geometry.head_dim = fields.Unsigned32("head_dim");
  geometry.block_tokens = fields.Unsigned32("block_tokens");
  const auto dtype = ParseDType(fields.Text("dtype"));
  if (!dtype.ok()) return fields.Wrong("dtype", "is not bf16 or fp32"), geometry;
  geometry.dtype = *dtype;
  if (Status valid = geometry.Validate(); !valid.ok()) {
    fields.Wrong("layers", fmt::format("or a count beside it is impossible: {}", valid.message()));
  }
  return geometry;
}

void ReadSnapshot(Fields fields, Ledger& ledger) {
  ledger.snapshot_name = fields.Text("name");
  ledger.store_spec = fields.Text("store_spec");
  ledger.store_uuid = fields.Digest("store_uuid");
  ledger.sequence_id = fields.Hex64("sequence_id");
  ledger.rope_identity = fields.Hex64("rope_identity");
  ledger.cached_tokens = fields.Unsigned("cached_tokens");
  if (!fields.IsNull("pending_token")) ledger.pending_token = fields.Token("pending_token");
  ledger.block_digests = fields.Digests("block_digests");
}

// The parts of a ledger must fit each other.
Status CheckInvariants(const Ledger& ledger) {
  const KvGeometry& g = ledger.geometry;
  const auto broken = [](std::string_view what) { return Status::Corruption(std::string(what)); };
  const uint64_t blocks = ledger.block_digests.size();
  // Without BlocksFor, which could wrap round for a count near 2^64.
  const uint64_t blocks_wanted =
      ledger.cached_tokens / g.block_tokens + (ledger.cached_tokens % g.block_tokens == 0 ? 0 : 1);
  if (blocks != blocks_wanted) {
    return broken(fmt::format("snapshot.block_digests has {} digests for {} cached tokens", blocks,
                              ledger.cached_tokens));
  }
  if (ledger.kv_at_snapshot.tokens != ledger.cached_tokens) {
    return broken("kv_at_snapshot.tokens is not snapshot.cached_tokens");
  }
  if (ledger.kv_at_end.tokens != ledger.cached_tokens + ledger.steps.size()) {
    return broken("kv_at_end.tokens is not snapshot.cached_tokens and the number of steps");
  }
  if (!ledger.steps.empty() && !ledger.pending_token) {
    return broken("snapshot.pending_token is null, yet there are steps");
  }
  for (const KvDigest* digest : {&ledger.kv_at_snapshot, &ledger.kv_at_end}) {
    if (digest->parts.size() != uint64_t{2} * g.layers) {
      return broken("kv_at_snapshot.parts and kv_at_end.parts must have two digests a layer");
    }
  }
  return Status::Ok();
}

}  // namespace

Ledger LedgerOf(const Manifest& manifest) {
  Ledger ledger;
  ledger.model_name = manifest.model_name;
  ledger.model = manifest.model;
  ledger.environment = manifest.environment;
  ledger.sampler = manifest.sampler;
  ledger.snapshot_name = manifest.name;
  ledger.store_uuid = manifest.store_uuid;
  ledger.sequence_id = manifest.sequence_id;
  ledger.rope_identity = manifest.rope_identity;
  ledger.geometry = manifest.geometry;
  ledger.cached_tokens = manifest.cached_tokens;
  ledger.pending_token = manifest.pending_token();
  for (const ManifestBlock& block : manifest.blocks) ledger.block_digests.push_back(block.digest);
  return ledger;
}

std::string EncodeLedger(const Ledger& ledger) {
  const KvGeometry& g = ledger.geometry;
  json blocks = json::array(), steps = json::array();
  for (const Digest128& digest : ledger.block_digests) blocks.push_back(digest.ToHex());
  for (const LogitsStep& step : ledger.steps) {
    steps.push_back({{"token", step.token}, {"logits", step.logits.ToHex()}});
  }
  const json document = {
      {"schema", kSchema},
      {"model",
       {{"name", ledger.model_name},
        {"fingerprint", ledger.model.Fingerprint().ToHex()},
        {"weights_digest", ledger.model.weights.ToHex()},
        {"config_digest", ledger.model.config.ToHex()},
        {"tokenizer_digest", ledger.model.tokenizer.ToHex()}}},
      {"environment",
       {{"kernel_set", ledger.environment.kernel_set},
        {"isa", ledger.environment.isa},
        {"library", ledger.environment.library},
        {"linear", ledger.environment.linear},
        {"threads", ledger.environment.threads},
        {"prefill_chunk", ledger.environment.prefill_chunk}}},
      {"sampler",
       {{"temperature", ledger.sampler.temperature},
        {"top_p", ledger.sampler.top_p},
        {"top_k", ledger.sampler.top_k},
        {"seed", ledger.sampler.seed},
        {"draws", ledger.sampler.draws}}},
      {"geometry",
       {{"layers", g.layers},
        {"kv_heads", g.kv_heads},
        {"head_dim", g.head_dim},
        {"dtype", DTypeName(g.dtype)},
        {"block_tokens", g.block_tokens}}},
      {"snapshot",
       {{"name", ledger.snapshot_name},
        {"store_spec", ledger.store_spec},
        {"store_uuid", ledger.store_uuid.ToHex()},
        {"sequence_id", Hex64(ledger.sequence_id)},
        {"rope_identity", Hex64(ledger.rope_identity)},
        {"cached_tokens", ledger.cached_tokens},
        {"pending_token", ledger.pending_token ? json(*ledger.pending_token) : json()},
        {"block_digests", std::move(blocks)}}},
      {"kv_at_snapshot", ToJson(ledger.kv_at_snapshot)},
      {"steps", std::move(steps)},
      {"kv_at_end", ToJson(ledger.kv_at_end)},
  };
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Ledger> DecodeLedger(std::string_view text, std::string_view origin) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return Status::Corruption(fmt::format("ledger {}: is not JSON", origin));
  }
  Status error;
  Ledger ledger;
  Fields fields(document, "", error);
  if (const std::string schema = fields.Text("schema"); error.ok() && schema != kSchema) {
    const std::string message =
        fmt::format("ledger {}: schema is '{}', not '{}'", origin, schema.substr(0, 40), kSchema);
    if (schema.starts_with(kSchemaFamily)) return Status::NotSupported(message);
    return Status::Corruption(message);
  }
  ledger.model = ReadModel(fields.Object("model"), ledger.model_name);
  ledger.environment = ReadEnvironment(fields.Object("environment"));
  ledger.sampler = ReadSampler(fields.Object("sampler"));
  ledger.geometry = ReadGeometry(fields.Object("geometry"));
  ReadSnapshot(fields.Object("snapshot"), ledger);
  ledger.kv_at_snapshot = ReadKvDigest(fields.Object("kv_at_snapshot"));
  fields.ForEach("steps", [&](const json& item, const std::string& path) {
    Fields step(item, path, error);
    ledger.steps.push_back({step.Token("token"), step.Digest("logits")});
  });
  ledger.kv_at_end = ReadKvDigest(fields.Object("kv_at_end"));
  if (error.ok()) error = CheckInvariants(ledger);
  if (!error.ok()) return error.WithContext(fmt::format("ledger {}", origin));
  return ledger;
}

Result<Ledger> ReadLedger(const std::string& path) {
  struct stat about;
  if (::stat(path.c_str(), &about) != 0) return StatusFromErrno(errno, "ledger " + path);
  if (!S_ISREG(about.st_mode)) {
    return Status::IoError(fmt::format("ledger {} is no regular file", path));
  }
  if (static_cast<uint64_t>(about.st_size) > kLedgerBytesMax) {
    return Status::Corruption(fmt::format("ledger {}: {} bytes are above the limit of {}", path,
                                          about.st_size, kLedgerBytesMax));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(about.st_size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return Status::IoError(fmt::format("read ledger {}", path));
  }
  return DecodeLedger(text, path);
}

LedgerMatch MatchLedger(const Ledger& ledger, const Manifest& manifest) {
  LedgerMatch match;
  const auto foreign = [&](bool differs, std::string_view what) {
    if (differs) match.foreign += fmt::format("{}{}", match.foreign.empty() ? "" : ", ", what);
  };
  foreign(ledger.model.weights != manifest.model.weights, "model (weights)");
  foreign(ledger.model.config != manifest.model.config, "model (config)");
  foreign(ledger.model.tokenizer != manifest.model.tokenizer, "tokenizer");
  foreign(ledger.rope_identity != manifest.rope_identity, "RoPE");
  foreign(ledger.geometry != manifest.geometry, "KV geometry");
  foreign(ledger.sequence_id != manifest.sequence_id, "sequence");
  if (!match.foreign.empty()) return match;

  const auto add = [&](std::string expected, std::string actual, std::string message) {
    Finding finding;
    finding.check = Check::kManifest;
    finding.expected = std::move(expected);
    finding.actual = std::move(actual);
    finding.message = std::move(message);
    match.findings.push_back(std::move(finding));
    return &match.findings.back();
  };
  if (ledger.cached_tokens != manifest.cached_tokens) {
    add(fmt::format("{} tokens", ledger.cached_tokens),
        fmt::format("{} tokens", manifest.cached_tokens),
        "the snapshot holds another number of tokens than the ledger says");
    return match;
  }
  const auto token = [](const std::optional<int32_t>& id) {
    return id ? std::to_string(*id) : std::string("none");
  };
  if (ledger.pending_token != manifest.pending_token()) {
    add(token(ledger.pending_token), token(manifest.pending_token()),
        "the snapshot's pending token is not the ledger's");
  }
  for (size_t i = 0; i < manifest.blocks.size(); ++i) {
    const ManifestBlock& block = manifest.blocks[i];
    if (i < ledger.block_digests.size() && ledger.block_digests[i] == block.digest) continue;
    Finding* finding =
        add(i < ledger.block_digests.size() ? ledger.block_digests[i].ToHex() : "no such block",
            block.digest.ToHex(), fmt::format("block {} of the snapshot is not the ledger's", i));
    finding->id = block.id;
    finding->first_token = i * manifest.geometry.block_tokens;
    finding->token_count = block.tokens_used;
    break;
  }
  return match;
}

}  // namespace kvbed
