#include "engine/model/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

// Each operation rounds to fp32 by itself: this file must not be compiled with contraction to FMA.

namespace kvbed {
namespace {

constexpr uint32_t kCountMax = 1u << 24;  // products of three counts fit 64 bits with ease
constexpr uint32_t kLayersMax = 1u << 12;

Status CheckCount(std::string_view name, uint32_t value, uint32_t most = kCountMax) {
  if (value >= 1 && value <= most) return Status::Ok();
  return Status::InvalidArgument(fmt::format("{} is {}, must be 1 to {}", name, value, most));
}

Status CheckRope(const ModelConfig& config) {
  if (!std::isfinite(config.rope_theta) || config.rope_theta <= 0)
    return Status::InvalidArgument(
        fmt::format("rope_theta is {}, must be above 0", config.rope_theta));
  for (const float divisor : config.rope_freq_divisors)
    if (!std::isfinite(divisor) || divisor <= 0)
      return Status::InvalidArgument(
          fmt::format("rope_freqs.weight holds {}, must be above 0", divisor));
  if (!config.rope_freq_divisors.empty() && config.rope_freq_divisors.size() != config.head_dim / 2)
    return Status::InvalidArgument(fmt::format("rope_freqs.weight has {} numbers, needs {}",
                                               config.rope_freq_divisors.size(),
                                               config.head_dim / 2));
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind != RopeKind::kLlama3) return Status::Ok();
  const bool finite = std::isfinite(scaling.factor) && std::isfinite(scaling.low_freq_factor) &&
                      std::isfinite(scaling.high_freq_factor);
  if (!finite || scaling.factor <= 0 || scaling.low_freq_factor <= 0 ||
      scaling.high_freq_factor <= scaling.low_freq_factor || scaling.original_max_position == 0)
    return Status::InvalidArgument(
        fmt::format("rope scaling llama3 with factor {}, low_freq_factor {}, high_freq_factor {}, "
                    "original_max_position_embeddings {}: all must be above 0, and high above low",
                    scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor,
                    scaling.original_max_position));
  return Status::Ok();
}

// _compute_llama3_parameters of transformers' modeling_rope_utils.py for one frequency. A number
// divided by a tensor is reciprocal() times the number in torch.
float ScaleLlama3(float frequency, const RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position);
  const auto low_wavelength = static_cast<float>(original / scaling.low_freq_factor);
  const auto high_wavelength = static_cast<float>(original / scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float wavelength = (1.0f / frequency) * static_cast<float>(2 * std::numbers::pi);
  const float scaled = wavelength > low_wavelength ? frequency / factor : frequency;
  if (wavelength < high_wavelength || wavelength > low_wavelength) return scaled;
  const float smooth = ((1.0f / wavelength) * static_cast<float>(original) -
                        static_cast<float>(scaling.low_freq_factor)) /
                       static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0f - smooth) * scaled / factor + smooth * scaled;
}

}  // namespace

Status RefuseModel(std::string_view what) {
  return Status::NotSupported(fmt::format("{}; kvbed can't run this model faithfully", what));
}

Status ValidateModelConfig(const ModelConfig& config) {
  KVBED_RETURN_IF_ERROR(CheckCount("hidden_size", config.hidden));
  KVBED_RETURN_IF_ERROR(CheckCount("num_hidden_layers", config.layers, kLayersMax));
  KVBED_RETURN_IF_ERROR(CheckCount("num_attention_heads", config.heads, 1u << 16));
  KVBED_RETURN_IF_ERROR(CheckCount("num_key_value_heads", config.kv_heads, 1u << 16));
  KVBED_RETURN_IF_ERROR(CheckCount("head_dim", config.head_dim, 1u << 15));
  KVBED_RETURN_IF_ERROR(CheckCount("intermediate_size", config.intermediate));
  KVBED_RETURN_IF_ERROR(CheckCount("vocab_size", config.vocab));
  if (config.heads % config.kv_heads != 0)
    return Status::InvalidArgument(fmt::format(
        "{} attention heads are no multiple of {} key/value heads", config.heads, config.kv_heads));
  if (config.head_dim % 2 != 0)
    return Status::InvalidArgument(
        fmt::format("head_dim is {}, must be even for rotary pairs", config.head_dim));
  if (!std::isfinite(config.rms_norm_eps) || config.rms_norm_eps <= 0)
    return Status::InvalidArgument(
        fmt::format("rms_norm_eps is {}, must be above 0", config.rms_norm_eps));
  return CheckRope(config);
}

std::vector<float> RopeInverseFrequencies(const ModelConfig& config) {
  std::vector<float> frequencies(config.head_dim / 2);
  const double theta = static_cast<float>(config.rope_theta);  // torch.pow takes it as fp32
  for (uint32_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    float frequency = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    if (config.rope_scaling.kind == RopeKind::kLlama3)
      frequency = ScaleLlama3(frequency, config.rope_scaling);
    if (!config.rope_freq_divisors.empty()) frequency /= config.rope_freq_divisors[i];
    frequencies[i] = frequency;
  }
  return frequencies;
}

KvGeometry GeometryOf(const ModelConfig& config, DType dtype, uint32_t block_tokens) {
  return {.layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .dtype = dtype,
          .block_tokens = block_tokens};
}

uint64_t KvBytesPerToken(const ModelConfig& config, uint64_t element_bytes) {
  return uint64_t{2} * config.layers * config.kv_heads * config.head_dim * element_bytes;
}

}  // namespace kvbed
