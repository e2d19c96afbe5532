#include "engine/model/fingerprint.h"

#include <bit>

namespace kvbed {
namespace {

class Fields {
 public:
  explicit Fields(std::string_view what) { stream_.AddField(AsBytes(what)); }

  void Text(std::string_view text) { stream_.AddField(AsBytes(text)); }
  void Data(Bytes bytes) { stream_.AddField(bytes); }
  void Number(uint64_t number) {
    std::array<std::byte, 8> field;
    StoreLe<uint64_t>(field, 0, number);
    stream_.Add(field);
  }
  // Of a config: which value, then the value.
  void Tagged(std::string_view tag, uint64_t number) {
    Text(tag);
    Number(number);
  }
  void Tagged(std::string_view tag, double number) { Tagged(tag, std::bit_cast<uint64_t>(number)); }
  Digest128 Finish() const { return stream_.Finish128(); }

 private:
  Xxh3Stream stream_;
};

void AddTensor(Fields& fields, const WeightTensor& tensor) {
  fields.Text(tensor.name);
  fields.Text(StoredTypeName(tensor.type));
  fields.Number(tensor.interleaved_head_dim);
  fields.Number(tensor.shape.size());
  for (const uint64_t dim : tensor.shape) fields.Number(dim);
  if (tensor.type != StoredType::kGenerated) return fields.Data(tensor.stored);
  fields.Text(kGeneratorName);
  fields.Number(tensor.generator.seed);
  fields.Number(std::bit_cast<uint32_t>(tensor.generator.mean));
  fields.Number(std::bit_cast<uint32_t>(tensor.generator.deviation));
}

}  // namespace

Digest128 DigestWeights(const Weights& weights) {
  Fields fields("kvbed weights 1");
  for (const auto& [name, tensor] : weights.tensors()) AddTensor(fields, tensor);
  return fields.Finish();
}

Digest128 DigestConfig(const ModelConfig& config) {
  Fields fields("kvbed config 1");
  fields.Text(config.architecture);
  fields.Tagged("hidden", uint64_t{config.hidden});
  fields.Tagged("layers", uint64_t{config.layers});
  fields.Tagged("heads", uint64_t{config.heads});
  fields.Tagged("kv_heads", uint64_t{config.kv_heads});
  fields.Tagged("head_dim", uint64_t{config.head_dim});
  fields.Tagged("intermediate", uint64_t{config.intermediate});
  fields.Tagged("vocab", uint64_t{config.vocab});
  fields.Tagged("rms_norm_eps", double{config.rms_norm_eps});
  // As fp32, which is what the frequencies are computed from.
  fields.Tagged("rope_theta", double{static_cast<float>(config.rope_theta)});
  const RopeScaling& scaling = config.rope_scaling;
  fields.Tagged("rope_kind", static_cast<uint64_t>(scaling.kind));
  if (scaling.kind == RopeKind::kLlama3) {
    fields.Tagged("factor", scaling.factor);
    fields.Tagged("low_freq_factor", scaling.low_freq_factor);
    fields.Tagged("high_freq_factor", scaling.high_freq_factor);
    fields.Tagged("original_max_position", uint64_t{scaling.original_max_position});
  }
  fields.Tagged("rope_freq_divisors", uint64_t{config.rope_freq_divisors.size()});
  for (const float divisor : config.rope_freq_divisors)
    fields.Number(std::bit_cast<uint32_t>(divisor));
  return fields.Finish();
}

Digest128 DigestOfNoTokenizer() { return Fields("kvbed no tokenizer").Finish(); }

}  // namespace kvbed
