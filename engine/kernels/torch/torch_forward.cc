// Compiled into the module that the program loads for these kernels; see torch_module.h.
#include "engine/kernels/torch/torch_module.h"

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

// Shows the rows of `output`, [n, columns], to who looks on.
void Show(const ForwardCall& call, std::string_view op, std::optional<uint32_t> layer,
          const Tensor& output, uint64_t first_row = 0) {
  if (call.tap == nullptr) return;
  const Tensor rows = output.contiguous();
  const auto columns = static_cast<uint64_t>(rows.size(1));
  const uint64_t element_bytes = rows.element_size();
  (*call.tap)({.op = op,
               .layer = layer,
               .first_position = call.sequence.cached_tokens() + first_row,
               .rows = static_cast<uint64_t>(rows.size(0)),
               .columns = columns,
               .element_bytes = element_bytes,
               .row_stride_bytes = columns * element_bytes,
               .data = static_cast<const std::byte*>(rows.const_data_ptr())});
}

// [heads, n, head_dim] as [n, heads * head_dim]
Tensor JoinHeads(const Tensor& x) { return x.permute({1, 0, 2}).flatten(1); }

MutableBytes BytesOf(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

struct Pass {
  Pass(const ModelFiles& model, DType kv_dtype, uint32_t thread_count)
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

void Pass::Forward(const ForwardCall& call) {
  const int64_t n = static_cast<int64_t>(call.tokens.size());
  const int64_t past = static_cast<int64_t>(call.sequence.cached_tokens());
  const double eps = config.rms_norm_eps;

  Tensor x = Embed(call.tokens);  // [n, hidden]
  Show(call, "embedding", {}, x);
  const Rotation rotation = rope.At(past, n);  // [n, head_dim]
  std::optional<Tensor> mask;                  // [n, past + n]
  if (n > 1 && past > 0) mask = BottomRightMask(n, past + n, attention_dtype());

  for (uint32_t l = 0; l < config.layers; ++l) {
    const TorchLayer& layer = weights.layers[l];
    const auto show = [&](std::string_view op, const Tensor& output) { Show(call, op, l, output); };
    const auto show_heads = [&](std::string_view op, const Tensor& heads) {
      if (call.tap != nullptr) show(op, JoinHeads(heads));
    };
    Tensor h = RmsNorm(x, layer.input_norm, eps);  // [n, hidden]
    show("input_norm", h);
    Tensor q = SplitHeads(Linear(h, layer.q), config.heads);     // [heads, n, head_dim]
    Tensor k = SplitHeads(Linear(h, layer.k), config.kv_heads);  // [kv_heads, n, head_dim]
    Tensor v = SplitHeads(Linear(h, layer.v), config.kv_heads);  // [kv_heads, n, head_dim]
    show_heads("q_proj", q);
    show_heads("k_proj", k);
    show_heads("v_proj", v);
    q = Rotate(q, rotation);
    k = Rotate(k, rotation);
    show_heads("q_rotary", q);
    show_heads("k_rotary", k);
    const auto [keys, values] =
        CacheAndGather(call.sequence, l, k, v);  // [kv_heads, past + n, head_dim]
    const auto in_form = [&](const Tensor& t) { return t.to(attention_dtype()); };
    const Tensor attended = Attend(in_form(q), in_form(keys), in_form(values), mask).to(dtype);
    show("attention", attended);
    x = x + Linear(attended, layer.o);  // [n, hidden]
    show("o_proj+residual", x);

    h = RmsNorm(x, layer.post_norm, eps);
    show("post_attention_norm", h);
    h = at::silu(Linear(h, layer.gate)) * Linear(h, layer.up);  // [n, intermediate]
    show("gate_proj+up_proj+silu", h);
    x = x + Linear(h, layer.down);
    show("down_proj+residual", x);
  }
  EmitLogits(x, call);
}

// [n, hidden]
Tensor Pass::Embed(std::span<const TokenId> tokens) const {
  Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kInt);
  std::copy(tokens.begin(), tokens.end(), ids.data_ptr<int32_t>());
  return weights.embedding.index_select(0, ids).to(dtype);
}

// Writes the new K and V, [kv_heads, n, head_dim], to the sequence's records, and reads all that
// the records hold of this layer back: what attention sees is what a store will get. Returns K and
// V, each [kv_heads, past + n, head_dim], valid until the next call.
std::pair<Tensor, Tensor> Pass::CacheAndGather(Sequence& sequence, uint32_t layer, const Tensor& k,
                                               const Tensor& v) {
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
void Pass::EmitLogits(const Tensor& x, const ForwardCall& call) const {
  constexpr int64_t kRowsMax = 64;
  const int64_t n = x.size(0);
  for (int64_t first = static_cast<int64_t>(call.first_logits); first < n; first += kRowsMax) {
    const int64_t rows = std::min(kRowsMax, n - first);
    const Tensor h = RmsNorm(x.narrow(0, first, rows), weights.final_norm, config.rms_norm_eps);
    const Tensor logits = Linear(h, weights.output).to(at::kFloat).contiguous();  // [rows, vocab]
    Show(call, "final_norm", {}, h, static_cast<uint64_t>(first));
    Show(call, "logits", {}, logits, static_cast<uint64_t>(first));
    for (int64_t row = 0; row < rows; ++row) {
      call.on_logits(static_cast<uint64_t>(first + row),
                     {logits.data_ptr<float>() + row * config.vocab, config.vocab});
    }
  }
}

class LoadedPass final : public TorchForward {
 public:
  LoadedPass(const ModelFiles& model, DType dtype, uint32_t threads)
      : pass_(model, dtype, threads) {}

  Status Forward(const ForwardCall& call) override {
    try {
      const c10::InferenceMode no_gradients;
      // Torch keeps one count for the process and one a thread, and another model may have set
      // them.
      at::set_num_threads(static_cast<int>(pass_.threads));
      pass_.Forward(call);
      return Status::Ok();
    } catch (...) {
      return StatusFromTorchException("forward pass of " + std::to_string(call.tokens.size()) +
                                      " tokens");
    }
  }

  uint64_t weight_bytes() const override { return pass_.weights.bytes; }

  NumericEnvironment environment() const override {
    NumericEnvironment environment;
    environment.kernel_set = "torch";
    environment.isa = at::get_cpu_capability() + " on " + CpuSignature() + CpuLimitsInEnvironment();
    environment.library = std::string("torch ") + TORCH_VERSION;
    environment.linear = LinearFormName(pass_.form);
    if (pass_.attention_dtype() != pass_.dtype) environment.linear += ", attention too";
    environment.threads = pass_.threads;
    return environment;
  }

 private:
  Pass pass_;
};

Result<std::unique_ptr<TorchForward>> OpenPass(const ModelFiles& model, DType dtype,
                                               uint32_t threads) {
  try {
    const c10::InferenceMode no_gradients;
    return std::unique_ptr<TorchForward>(std::make_unique<LoadedPass>(model, dtype, threads));
  } catch (...) {
    return StatusFromTorchException("load the weights of " + model.name);
  }
}

// The configuration that libtorch tells of itself says which BLAS it was built with
// ("BLAS_INFO=mkl").
std::string Describe() {
  const std::string config = at::show_config();
  constexpr std::string_view kField = "BLAS_INFO=";
  const size_t at = config.find(kField);
  const std::string blas =
      at == std::string::npos
          ? "unknown"
          : config.substr(at + kField.size(), config.find_first_of(",\n", at) - at - kField.size());
  return std::string("torch ") + TORCH_VERSION + ", " + at::get_cpu_capability() + ", BLAS " + blas;
}

constexpr TorchModule kModule = {
    .build = kTorchModuleBuild, .sizes = kTorchModuleSizes, .open = OpenPass, .describe = Describe};

}  // namespace
}  // namespace kvbed

extern "C" __attribute__((visibility("default"))) const kvbed::TorchModule* kvbed_torch_module() {
  return &kvbed::kModule;
}
