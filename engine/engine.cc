#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>
#include <variant>

#include "engine/kernels/forward_call.h"
#include "engine/kernels/native/native_model.h"
#include "engine/kernels/torch/torch_model.h"
#include "engine/kv_rows.h"
#include "offload/check.h"
#include "offload/digest.h"

namespace kvbed {
namespace {

constexpr uint32_t kThreadsMax = 1024;

// A further set of kernels takes its place here and in OpenKernels.
using Kernels = std::variant<TorchModel, NativeModel>;

Result<Kernels> OpenKernels(const ModelFiles& model, const EngineOptions& options) {
  if (!options.isa.empty() && options.kernels != "native") {
    return Status::InvalidArgument("--isa " + options.isa +
                                   " is of the native kernels: not with --kernels " +
                                   options.kernels);
  }
  if (options.kernels == "torch") {
    KVBED_ASSIGN_OR_RETURN(TorchModel kernels,
                           TorchModel::Open(model, options.dtype, options.threads));
    return Kernels(std::move(kernels));
  }
  if (options.kernels == "native") {
    KVBED_ASSIGN_OR_RETURN(NativeModel kernels,
                           NativeModel::Open(model, options.dtype, options.threads, options.isa));
    return Kernels(std::move(kernels));
  }
  return Status::InvalidArgument("kernels '" + options.kernels +
                                 "' is not one of native and torch");
}

// Over what rotates K: the frequencies, and which dims make a pair.
uint64_t RopeIdentityOf(const ModelConfig& config) {
  const std::vector<float> frequencies = RopeInverseFrequencies(config);
  Xxh3Stream stream;
  stream.AddField(AsBytes("rotate_half"));
  stream.AddField(std::as_bytes(std::span(frequencies)));
  return stream.Finish64();
}

// The next number above `x` that the dtype has.
float StepUp(float x, DType dtype) {
  if (dtype == DType::kFp32) return std::nextafter(x, std::numeric_limits<float>::infinity());
  constexpr uint32_t kStep = 1u << 16;  // bf16 is the upper half of fp32
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(std::signbit(x) && x != 0 ? bits - kStep : bits + kStep);
}

}  // namespace

struct Engine::Parts {
  ModelConfig config;
  EngineOptions options;
  uint64_t rope_identity = 0;
  Kernels kernels;
  EngineCounters counters;
  OpTap tap;

  Status CheckTokens(std::span<const TokenId> tokens) const;
  Status CheckSequence(const Sequence& sequence) const;
  Status Run(const ForwardCall& call);
  Status RunBatch(std::span<const BatchRow> rows);
};

Status Engine::Parts::CheckTokens(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return Status::InvalidArgument("there is no token to run");
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= config.vocab) {
      return Status::InvalidArgument("token " + std::to_string(i) + " has id " +
                                     std::to_string(tokens[i]) + "; the vocabulary has ids 0 to " +
                                     std::to_string(config.vocab - 1));
    }
  }
  return Status::Ok();
}

Status Engine::Parts::CheckSequence(const Sequence& sequence) const {
  const KvGeometry& geometry = sequence.pool().geometry();
  const bool fits = geometry.layers == config.layers && geometry.kv_heads == config.kv_heads &&
                    geometry.head_dim == config.head_dim && geometry.dtype == options.dtype;
  if (fits) return Status::Ok();
  return Status::InvalidArgument("the sequence's pool was made for another model or dtype");
}

// Runs the call and advances the sequence, or leaves it as it was.
Status Engine::Parts::Run(const ForwardCall& call) {
  const uint64_t first = call.sequence.cached_tokens();
  ForwardCall tapped = call;
  if (tap) tapped.tap = &tap;
  Status status = std::visit([&](auto& set) { return set.Forward(tapped); }, kernels);
  if (!status.ok()) {
    ClearKvRows(call.sequence, first, call.tokens.size());
    return status;
  }
  call.sequence.Advance(call.tokens.size());
  return status;
}

// The same for a token of each sequence.
Status Engine::Parts::RunBatch(std::span<const BatchRow> rows) {
  const LogitsSink keep = [&](uint64_t index, std::span<const float> row) {
    std::copy(row.begin(), row.end(), rows[index].logits.begin());
  };
  auto* const native = std::get_if<NativeModel>(&kernels);
  if (native == nullptr) {
    for (uint64_t i = 0; i < rows.size(); ++i) {
      const LogitsSink keep_one = [&](uint64_t, std::span<const float> row) { keep(i, row); };
      KVBED_RETURN_IF_ERROR(Run({.tokens = {&rows[i].token, 1},
                                 .sequence = *rows[i].sequence,
                                 .first_logits = 0,
                                 .on_logits = keep_one}));
    }
    return Status::Ok();
  }
  std::vector<DecodeRow> calls;
  for (const BatchRow& row : rows) calls.push_back({row.token, row.sequence});
  const Status status = native->DecodeBatch({.rows = calls, .on_logits = keep});
  for (const BatchRow& row : rows) {
    if (status.ok()) {
      row.sequence->Advance(1);
    } else {
      ClearKvRows(*row.sequence, row.sequence->cached_tokens(), 1);
    }
  }
  return status;
}

Result<Engine> Engine::Open(const ModelFiles& model, const EngineOptions& options) {
  EngineOptions effective = options;
  if (options.kernels.empty()) effective.kernels = DefaultKernels();
  if (options.threads == 0) {
    effective.threads = std::max(1u, std::thread::hardware_concurrency());
  }
  if (effective.threads > kThreadsMax) {
    return Status::InvalidArgument(std::to_string(effective.threads) + " threads; at most " +
                                   std::to_string(kThreadsMax) + " can be used");
  }
  if (options.prefill_chunk == 0) {
    return Status::InvalidArgument("a prefill chunk has at least 1 token, not 0");
  }
  KVBED_ASSIGN_OR_RETURN(Kernels kernels, OpenKernels(model, effective));
  return Engine(std::make_unique<Parts>(Parts{.config = model.config,
                                              .options = effective,
                                              .rope_identity = RopeIdentityOf(model.config),
                                              .kernels = std::move(kernels),
                                              .counters = {},
                                              .tap = {}}));
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

const ModelConfig& Engine::config() const { return parts_->config; }
DType Engine::dtype() const { return parts_->options.dtype; }
const EngineCounters& Engine::counters() const { return parts_->counters; }
uint64_t Engine::rope_identity() const { return parts_->rope_identity; }

uint64_t Engine::weight_bytes() const {
  return std::visit([](const auto& set) { return set.weight_bytes(); }, parts_->kernels);
}

uint64_t Engine::weight_bytes_per_call() const {
  if (config().tie_word_embeddings) return weight_bytes();
  const uint64_t element = dtype() == DType::kBf16 ? 2 : 4;
  return weight_bytes() - uint64_t{config().vocab} * config().hidden * element;
}

NumericEnvironment Engine::environment() const {
  NumericEnvironment environment =
      std::visit([](const auto& set) { return set.environment(); }, parts_->kernels);
  environment.prefill_chunk = parts_->options.prefill_chunk;
  return environment;
}

KvGeometry Engine::Geometry(uint32_t block_tokens) const {
  return GeometryOf(parts_->config, parts_->options.dtype, block_tokens);
}

Status Engine::Prefill(Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
                       const Progress& progress) {
  KVBED_CHECK(logits.size() == parts_->config.vocab);
  KVBED_RETURN_IF_ERROR(parts_->CheckTokens(tokens));
  KVBED_RETURN_IF_ERROR(parts_->CheckSequence(sequence));
  KVBED_RETURN_IF_ERROR(sequence.Reserve(sequence.cached_tokens() + tokens.size()));
  const LogitsSink keep = [&](uint64_t, std::span<const float> row) {
    std::copy(row.begin(), row.end(), logits.begin());
  };
  for (size_t done = 0; done < tokens.size();) {
    const auto chunk =
        tokens.subspan(done, std::min<size_t>(parts_->options.prefill_chunk, tokens.size() - done));
    done += chunk.size();
    const bool last = done == tokens.size();
    KVBED_RETURN_IF_ERROR(parts_->Run({.tokens = chunk,
                                       .sequence = sequence,
                                       .first_logits = chunk.size() - (last ? 1 : 0),
                                       .on_logits = keep}));
    parts_->counters.prefill_tokens += chunk.size();
    if (progress && !progress(done)) return Status::IoError("prefill: interrupted");
  }
  return Status::Ok();
}

Status Engine::Decode(Sequence& sequence, TokenId token, std::span<float> logits) {
  KVBED_CHECK(logits.size() == parts_->config.vocab);
  const std::span<const TokenId> tokens(&token, 1);
  KVBED_RETURN_IF_ERROR(parts_->CheckTokens(tokens));
  KVBED_RETURN_IF_ERROR(parts_->CheckSequence(sequence));
  KVBED_RETURN_IF_ERROR(sequence.Reserve(sequence.cached_tokens() + 1));
  const LogitsSink keep = [&](uint64_t, std::span<const float> row) {
    std::copy(row.begin(), row.end(), logits.begin());
  };
  KVBED_RETURN_IF_ERROR(
      parts_->Run({.tokens = tokens, .sequence = sequence, .first_logits = 0, .on_logits = keep}));
  ++parts_->counters.decode_calls;
  if (parts_->counters.decode_calls == parts_->options.perturb_decode_call) {
    logits[0] = StepUp(logits[0], parts_->options.dtype);
  }
  return Status::Ok();
}

Status Engine::DecodeBatch(std::span<const BatchRow> rows) {
  if (rows.empty()) return Status::InvalidArgument("there is no sequence to decode");
  std::vector<const Sequence*> sequences;
  for (const BatchRow& row : rows) {
    KVBED_CHECK(row.logits.size() == parts_->config.vocab);
    KVBED_RETURN_IF_ERROR(parts_->CheckTokens({&row.token, 1}));
    KVBED_RETURN_IF_ERROR(parts_->CheckSequence(*row.sequence));
    sequences.push_back(row.sequence);
  }
  std::ranges::sort(sequences);
  if (std::ranges::adjacent_find(sequences) != sequences.end()) {
    return Status::InvalidArgument("a sequence is in the batch twice");
  }
  for (const BatchRow& row : rows) {
    KVBED_RETURN_IF_ERROR(row.sequence->Reserve(row.sequence->cached_tokens() + 1));
  }
  KVBED_RETURN_IF_ERROR(parts_->RunBatch(rows));
  ++parts_->counters.decode_calls;
  if (parts_->counters.decode_calls == parts_->options.perturb_decode_call) {
    rows[0].logits[0] = StepUp(rows[0].logits[0], parts_->options.dtype);
  }
  return Status::Ok();
}

Status Engine::Recompute(
    Sequence& sequence, std::span<const TokenId> tokens, uint64_t first_logits,
    const std::function<void(uint64_t position, std::span<const float>)>& on_logits) {
  KVBED_RETURN_IF_ERROR(parts_->CheckTokens(tokens));
  KVBED_RETURN_IF_ERROR(parts_->CheckSequence(sequence));
  if (sequence.cached_tokens() != 0) {
    return Status::InvalidArgument("a sequence to recompute into must be empty");
  }
  KVBED_RETURN_IF_ERROR(sequence.Reserve(tokens.size()));
  KVBED_RETURN_IF_ERROR(
      parts_->Run({.tokens = tokens,
                   .sequence = sequence,
                   .first_logits = std::min<uint64_t>(first_logits, tokens.size()),
                   .on_logits = on_logits}));
  parts_->counters.recompute_tokens += tokens.size();
  return Status::Ok();
}

void Engine::SetTap(OpTap tap) { parts_->tap = std::move(tap); }

std::string DefaultKernels() { return HasNativeKernels() ? "native" : "torch"; }

std::vector<std::string> KernelSets() {
  std::vector<std::string> sets;
  if (HasNativeKernels()) sets.emplace_back("native");
  if (HasTorchKernels()) sets.emplace_back("torch");
  return sets;
}

std::vector<std::string> NativeInstructionSets(DType dtype) {
  std::vector<std::string> names;
  for (const KernelTable& table : KernelTables(dtype)) names.push_back(table.name);
  return names;
}

bool HasNativeArithmetic(DType dtype, const std::string& arithmetic) {
  return std::ranges::any_of(KernelTables(dtype), [&](const KernelTable& table) {
    return table.arithmetic == arithmetic;
  });
}

Result<std::string> DescribeLibtorch() { return DescribeTorch(); }

}  // namespace kvbed
