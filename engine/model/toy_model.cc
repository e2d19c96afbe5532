#include "engine/model/toy_model.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "engine/model/llama_tensors.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

constexpr std::string_view kPrefix = "toy:";
constexpr uint64_t kParametersMax = uint64_t{1} << 33;

struct ToyShape {
  std::string_view name;
  uint32_t vocab, hidden, layers, heads, kv_heads, mlp;
};
constexpr std::array<ToyShape, 2> kShapes = {
    {{"8m", 1000, 384, 4, 6, 6, 1024}, {"62m", 8000, 768, 8, 12, 4, 2048}}};

// The numbers that a spec can set.
struct ToyNumbers {
  uint64_t vocab = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, mlp = 0;
  uint64_t rope_theta = 10000, seed = 0;
};
struct ToyKey {
  std::string_view name;
  uint64_t ToyNumbers::*number;
};
constexpr std::array<ToyKey, 9> kKeys = {{{"vocab", &ToyNumbers::vocab},
                                          {"hidden", &ToyNumbers::hidden},
                                          {"layers", &ToyNumbers::layers},
                                          {"heads", &ToyNumbers::heads},
                                          {"kv_heads", &ToyNumbers::kv_heads},
                                          {"head_dim", &ToyNumbers::head_dim},
                                          {"mlp", &ToyNumbers::mlp},
                                          {"rope_theta", &ToyNumbers::rope_theta},
                                          {"seed", &ToyNumbers::seed}}};

Result<ToyNumbers> NumbersOf(std::string_view name) {
  for (const ToyShape& shape : kShapes)
    if (shape.name == name)
      return ToyNumbers{.vocab = shape.vocab,
                        .hidden = shape.hidden,
                        .layers = shape.layers,
                        .heads = shape.heads,
                        .kv_heads = shape.kv_heads,
                        .mlp = shape.mlp};
  return Status::InvalidArgument(
      fmt::format("unknown toy \"{}\"; the toys are toy:8m and toy:62m", PrintableText(name)));
}

Status SetNumber(std::string_view setting, ToyNumbers* numbers) {
  const size_t equals = setting.find('=');
  const std::string_view key = setting.substr(0, equals);
  const std::string_view text =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  std::string names;
  for (const ToyKey& known : kKeys) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    if (known.name != key) continue;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return Status::InvalidArgument(
          fmt::format("{} is \"{}\", must be a whole number", key, PrintableText(text)));
    numbers->*known.number = value;
    return Status::Ok();
  }
  return Status::InvalidArgument(
      fmt::format("unknown key \"{}\"; the keys are {}", PrintableText(key), names));
}

Result<ToyNumbers> ParseSpec(std::string_view spec) {
  spec.remove_prefix(kPrefix.size());
  const size_t question = spec.find('?');
  KVBED_ASSIGN_OR_RETURN(ToyNumbers numbers, NumbersOf(spec.substr(0, question)));
  std::string_view rest =
      question == std::string_view::npos ? std::string_view() : spec.substr(question + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    KVBED_RETURN_IF_ERROR(SetNumber(rest.substr(0, end), &numbers));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return numbers;
}

Result<ModelConfig> ConfigOf(const ToyNumbers& numbers) {
  for (const ToyKey& key : kKeys)
    if (key.name != "seed" && numbers.*key.number > UINT32_MAX)
      return Status::InvalidArgument(fmt::format("{} is too large", key.name));
  ModelConfig config;
  config.architecture = "llama";
  config.vocab = static_cast<uint32_t>(numbers.vocab);
  config.hidden = static_cast<uint32_t>(numbers.hidden);
  config.layers = static_cast<uint32_t>(numbers.layers);
  config.heads = static_cast<uint32_t>(numbers.heads);
  config.kv_heads = static_cast<uint32_t>(numbers.kv_heads);
  config.intermediate = static_cast<uint32_t>(numbers.mlp);
  config.head_dim = static_cast<uint32_t>(numbers.head_dim);
  if (config.head_dim == 0 && config.heads != 0) {
    if (config.hidden % config.heads != 0)
      return Status::InvalidArgument(fmt::format(
          "hidden {} is no multiple of heads {}; set head_dim", config.hidden, config.heads));
    config.head_dim = config.hidden / config.heads;
  }
  config.rms_norm_eps = 1e-5f;
  config.rope_theta = static_cast<double>(numbers.rope_theta);
  config.stored_dtype = StoredTypeName(StoredType::kGenerated);
  KVBED_RETURN_IF_ERROR(ValidateModelConfig(config));
  return config;
}

// Numbers of this spread keep a normalised input at about unit size through a matrix.
float UnitDeviation(uint64_t columns) { return 1.0f / std::sqrt(static_cast<float>(columns)); }

// Q and K are larger, so that attention isn't uniform (scores of about 2.5), and so is the output
// matrix, so that logits span some tens; the sums into the residual stream are smaller.
GeneratorSpec GeneratorOf(uint64_t seed, const std::string& name,
                          const std::vector<uint64_t>& shape) {
  GeneratorSpec spec{.seed = TensorSeed(seed, name), .mean = 0, .deviation = 0};
  const float unit = UnitDeviation(shape.back());
  if (shape.size() == 1) {
    spec.mean = 1;
    spec.deviation = 0.1f;
  } else if (name == kEmbeddingName) {
    spec.deviation = 1;
  } else if (name == kOutputName) {
    spec.deviation = 4 * unit;
  } else if (name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")) {
    spec.deviation = 1.6f * unit;
  } else if (name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight")) {
    spec.deviation = 0.7f * unit;
  } else {
    spec.deviation = unit;
  }
  return spec;
}

}  // namespace

bool IsToySpec(std::string_view spec) { return spec.starts_with(kPrefix); }

Result<ToyModel> MakeToy(std::string_view spec) {
  KVBED_CHECK(IsToySpec(spec));
  KVBED_ASSIGN_OR_RETURN(const ToyNumbers numbers, ParseSpec(spec));
  ToyModel toy;
  KVBED_ASSIGN_OR_RETURN(toy.config, ConfigOf(numbers));
  uint64_t parameters = 0;
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    WeightTensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensor.type = StoredType::kGenerated;
    tensor.generator = GeneratorOf(numbers.seed, name, shape);
    parameters += tensor.elements();
    if (parameters > kParametersMax)
      return Status::InvalidArgument(
          fmt::format("the toy has more than {} parameters", kParametersMax));
    toy.tensors.emplace(name, std::move(tensor));
    return Status::Ok();
  };
  KVBED_RETURN_IF_ERROR(ForEachLlamaTensor(toy.config, add));
  return toy;
}

}  // namespace kvbed
