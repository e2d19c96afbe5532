#include "engine/kernels/torch/torch_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kernels/cpu_features.h"
#include "engine/kernels/torch/torch_status.h"
#include "engine/kernels/torch/torch_weights.h"
#include "engine/kv_rows.h"

namespace kvbed {
namespace {

using at::Tensor;

struct Rotation {
  Tensor cos, sin;  // [n, head_dim], in the activations' dtype
};

// cos and sin of every position's angles, computed in fp32 and then rounded. They are made for
// kBlock positions at a time, always the same ones, so that a position's values are the same bits
// in whichever call it is needed.
class RopeTable {
 public:
  RopeTable(const ModelConfig& config, at::ScalarType dtype) : dtype_(dtype) {
    const std::vector<float> frequencies = RopeInverseFrequencies(config);
    frequencies_ = at::empty({1, static_cast<int64_t>(frequencies.size())}, at::kFloat);
    std::copy(frequencies.begin(), frequencies.end(), frequencies_.data_ptr<float>());
  }

  // Positions [first, first + n).
  Rotation At(int64_t first, int64_t n) {
    std::vector<Tensor> cos, sin;
    for (int64_t position = first; position < first + n;) {
      const int64_t block = position / kBlock;
      while (static_cast<int64_t>(cos_.size()) <= block) AddBlock();
      const int64_t row = position % kBlock;
      const int64_t rows = std::min(kBlock - row, first + n - position);
      cos.push_back(cos_[block].narrow(0, row, rows));
      sin.push_back(sin_[block].narrow(0, row, rows));
      position += rows;
    }
    const Tensor half_cos = at::cat(cos), half_sin = at::cat(sin);  // [n, head_dim / 2]
    return {at::cat({half_cos, half_cos}, 1), at::cat({half_sin, half_sin}, 1)};
  }

 private:
  static constexpr int64_t kBlock = 1024;

  void AddBlock() {
    const int64_t first = static_cast<int64_t>(cos_.size()) * kBlock;
    const Tensor positions = at::arange(first, first + kBlock, at::kFloat).unsqueeze(1);
    const Tensor angles = positions * frequencies_;  // [kBlock, head_dim / 2]
    cos_.push_back(angles.cos().to(dtype_));
    sin_.push_back(angles.sin().to(dtype_));
  }

  at::ScalarType dtype_;
  Tensor frequencies_;             // [1, head_dim / 2], fp32
  std::vector<Tensor> cos_, sin_;  // each [kBlock, head_dim / 2], in dtype_
};

// LlamaRMSNorm: statistics in fp32, rounded to the dtype before the weight is applied.
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor fp32 = x.to(at::kFloat);
  const Tensor variance = fp32.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (fp32 * at::rsqrt(variance + eps)).to(x.scalar_type());
}

// x * W^T, by the form that the weight is held in (LinearForm).
Tensor Linear(const Tensor& x, const Tensor& weight) {
  if (weight.scalar_type() == x.scalar_type()) return at::linear(x, weight);
  return at::linear(x.to(weight.scalar_type()), weight).to(x.scalar_type());
}

// [n, heads * head_dim] -> [heads, n, head_dim], a view
Tensor SplitHeads(const Tensor& x, int64_t heads) {
  return x.unflatten(1, {heads, x.size(1) / heads}).transpose(0, 1);
}

// x * cos + rotate_half(x) * sin, each product rounded to the dtype; the pair of dim d is d +
// head_dim / 2.
Tensor Rotate(const Tensor& x, const Rotation& rotation) {  // [heads, n, head_dim]
  const int64_t half = x.size(2) / 2;
  const Tensor rotated = at::cat({x.narrow(2, half, half).neg(), x.narrow(2, 0, half)}, 2);
  return x * rotation.cos + rotated * rotation.sin;
}

// For `n` queries that are the last of `context` positions: 0 where query i may see position j, j
// <= context - n + i, else -infinity. [n, context]
Tensor BottomRightMask(int64_t n, int64_t context, at::ScalarType dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  return at::full({n, context}, -infinity, dtype).triu_(context - n + 1);
}

// Query head h reads KV head h / group. q: [heads, n, head_dim]; k, v: [kv_heads, context,
// head_dim]; returns [n, heads * head_dim].
Tensor Attend(const Tensor& q, const Tensor& k, const Tensor& v,
              const std::optional<Tensor>& mask) {
  const int64_t heads = q.size(0), n = q.size(1), head_dim = q.size(2);
  const int64_t kv_heads = k.size(0), context = k.size(1), group = heads / kv_heads;
  if (n == 1) {
    // The queries of a group are rows of one product: K and V are read once.
    const Tensor rows = q.reshape({1, kv_heads, group, head_dim});
    return at::scaled_dot_product_attention(rows, k.unsqueeze(0), v.unsqueeze(0))
        .reshape({1, heads * head_dim});
  }
  // KV heads take the batch's place, and a group's heads share K and V by a stride of 0.
  const auto shared = [&](const Tensor& x) {
    return x.unsqueeze(1).expand({kv_heads, group, context, head_dim});
  };
  const bool causal = n == context;  // top left is bottom right then
  return at::scaled_dot_product_attention(q.reshape({kv_heads, group, n, head_dim}), shared(k),
                                          shared(v), mask, /*dropout_p=*/0.0, causal)
      .permute({2, 0, 1, 3})  // [n, kv_heads, group, head_dim]
      .reshape({n, heads * head_dim});
}

MutableBytes BytesOf(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

struct TorchModel::Parts {
  Parts(const ModelFiles& model, DType kv_dtype, uint32_t thread_count)
      : config(model.config),
        threads(thread_count),
        dtype(kv_dtype == DType::kBf16 ? at::kBFloat16 : at::kFloat),
        form(ChooseLinearForm(kv_dtype)),
        weights(LoadTorchWeights(model, form, threads)),
        rope(config, dtype) {}

  const ModelConfig config;
  const uint32_t threads;
  const at::ScalarType dtype;  // of activations, K and V
  const LinearForm form;
  const TorchWeights weights;
  RopeTable rope;
  Tensor gathered;  // K and V of one layer at a time; flat, grown as needed

  // Of the scores and their products with V.
  at::ScalarType attention_dtype() const {
    return form == LinearForm::kBf16AsFp32 && !at::hasMKL() ? at::kFloat : dtype;
  }
  void Forward(const ForwardCall& call);
  Tensor Embed(std::span<const TokenId> tokens) const;
  std::pair<Tensor, Tensor> CacheAndGather(Sequence& sequence, uint32_t layer, const Tensor& k,
                                           const Tensor& v);
  void EmitLogits(const Tensor& x, const ForwardCall& call) const;
};

void TorchModel::Parts::Forward(const ForwardCall& call) {
  const int64_t n = static_cast<int64_t>(call.tokens.size());
  const int64_t past = static_cast<int64_t>(call.sequence.cached_tokens());
  const double eps = config.rms_norm_eps;

  Tensor x = Embed(call.tokens);               // [n, hidden]
  const Rotation rotation = rope.At(past, n);  // [n, head_dim]
  std::optional<Tensor> mask;                  // [n, past + n]
  if (n > 1 && past > 0) mask = BottomRightMask(n, past + n, attention_dtype());

  for (uint32_t l = 0; l < config.layers; ++l) {
    const TorchLayer& layer = weights.layers[l];
    Tensor h = RmsNorm(x, layer.input_norm, eps);                // [n, hidden]
    Tensor q = SplitHeads(Linear(h, layer.q), config.heads);     // [heads, n, head_dim]
    Tensor k = SplitHeads(Linear(h, layer.k), config.kv_heads);  // [kv_heads, n, head_dim]
    Tensor v = SplitHeads(Linear(h, layer.v), config.kv_heads);  // [kv_heads, n, head_dim]
    q = Rotate(q, rotation);
    k = Rotate(k, rotation);
    const auto [keys, values] =
        CacheAndGather(call.sequence, l, k, v);  // [kv_heads, past + n, head_dim]
    const auto in_form = [&](const Tensor& t) { return t.to(attention_dtype()); };
    const Tensor attended = Attend(in_form(q), in_form(keys), in_form(values), mask).to(dtype);
    x = x + Linear(attended, layer.o);  // [n, hidden]

    h = RmsNorm(x, layer.post_norm, eps);
    h = at::silu(Linear(h, layer.gate)) * Linear(h, layer.up);  // [n, intermediate]
    x = x + Linear(h, layer.down);
  }
  EmitLogits(x, call);
}

// [n, hidden]
Tensor TorchModel::Parts::Embed(std::span<const TokenId> tokens) const {
  Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kInt);
  std::copy(tokens.begin(), tokens.end(), ids.data_ptr<int32_t>());
  return weights.embedding.index_select(0, ids).to(dtype);
}

// Writes the new K and V, [kv_heads, n, head_dim], to the sequence's records, and reads all that
// the records hold of this layer back: what attention sees is what a store will get. Returns K and
// V, each [kv_heads, past + n, head_dim], valid until the next call.
std::pair<Tensor, Tensor> TorchModel::Parts::CacheAndGather(Sequence& sequence, uint32_t layer,
                                                            const Tensor& k, const Tensor& v) {
  const uint64_t past = sequence.cached_tokens();
  const uint64_t n = static_cast<uint64_t>(k.size(1));
  WriteKvRows(sequence, layer, KvPart::kK, past, n, BytesOf(k.contiguous()));
  WriteKvRows(sequence, layer, KvPart::kV, past, n, BytesOf(v.contiguous()));

  const int64_t tokens = static_cast<int64_t>(past + n);
  const int64_t elements = tokens * config.kv_rows();
  if (!gathered.defined() || gathered.numel() < 2 * elements) {
    gathered.reset();
    gathered = at::empty({2 * elements * 5 / 4}, dtype);  // room for the next steps
  }
  const auto part = [&](int64_t index) {
    return gathered.narrow(0, index * elements, elements)
        .view({config.kv_heads, tokens, config.head_dim});
  };
  const Tensor keys = part(0), values = part(1);
  ReadKvRows(sequence, layer, past + n, BytesOf(keys), BytesOf(values), threads);
  return {keys, values};
}

// x: [n, hidden], what the last layer left. Some rows at a time: logits are wide.
void TorchModel::Parts::EmitLogits(const Tensor& x, const ForwardCall& call) const {
  constexpr int64_t kRowsMax = 64;
  const int64_t n = x.size(0);
  for (int64_t first = static_cast<int64_t>(call.first_logits); first < n; first += kRowsMax) {
    const int64_t rows = std::min(kRowsMax, n - first);
    const Tensor h = RmsNorm(x.narrow(0, first, rows), weights.final_norm, config.rms_norm_eps);
    const Tensor logits = Linear(h, weights.output).to(at::kFloat).contiguous();  // [rows, vocab]
    for (int64_t row = 0; row < rows; ++row) {
      call.on_logits(static_cast<uint64_t>(first + row),
                     {logits.data_ptr<float>() + row * config.vocab, config.vocab});
    }
  }
}

TorchModel::TorchModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TorchModel::TorchModel(TorchModel&&) noexcept = default;
TorchModel& TorchModel::operator=(TorchModel&&) noexcept = default;
TorchModel::~TorchModel() = default;

Result<TorchModel> TorchModel::Open(const ModelFiles& model, DType dtype, uint32_t threads) {
  try {
    const c10::InferenceMode no_gradients;
    return TorchModel(std::make_unique<Parts>(model, dtype, threads));
  } catch (...) {
    return StatusFromTorchException("load the weights of " + model.name);
  }
}

Status TorchModel::Forward(const ForwardCall& call) {
  try {
    const c10::InferenceMode no_gradients;
    // Torch keeps one count for the process and one a thread, and another model may have set them.
    at::set_num_threads(static_cast<int>(parts_->threads));
    parts_->Forward(call);
    return Status::Ok();
  } catch (...) {
    return StatusFromTorchException("forward pass of " + std::to_string(call.tokens.size()) +
                                    " tokens");
  }
}

uint64_t TorchModel::weight_bytes() const { return parts_->weights.bytes; }

NumericEnvironment TorchModel::environment() const {
  NumericEnvironment environment;
  environment.kernel_set = "torch";
  environment.isa = at::get_cpu_capability() + " on " + CpuSignature() + CpuLimitsInEnvironment();
  environment.library = std::string("torch ") + TORCH_VERSION;
  environment.linear = LinearFormName(parts_->form);
  if (parts_->attention_dtype() != parts_->dtype) environment.linear += ", attention too";
  environment.threads = parts_->threads;
  return environment;
}

// The configuration that libtorch tells of itself says which BLAS it was built with
// ("BLAS_INFO=mkl").
std::string DescribeTorch() {
  const std::string config = at::show_config();
  constexpr std::string_view kField = "BLAS_INFO=";
  const size_t at = config.find(kField);
  const std::string blas =
      at == std::string::npos
          ? "unknown"
          : config.substr(at + kField.size(), config.find_first_of(",\n", at) - at - kField.size());
  return std::string("torch ") + TORCH_VERSION + ", " + at::get_cpu_capability() + ", BLAS " + blas;
}

}  // namespace kvbed
