// The inference engine: tokens in, K and V into a sequence's pool records, logits out. KV lives
// only in the pool. It doesn't know stores or text, and no torch type shows here. One thread at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "engine/op_output.h"
#include "offload/kv_geometry.h"
#include "offload/numeric_environment.h"
#include "offload/sequence.h"
#include "offload/status.h"

namespace kvbed {

struct EngineOptions {
  DType dtype = DType::kBf16;  // of weights, activations and KV
  // "native" or "torch"; empty: DefaultKernels(). An unknown set is refused with the names of those
  // there are.
  std::string kernels;
  // Of the native kernels: an instruction set ("avx2") or an arithmetic ("portable"); empty: the
  // fastest here.
  std::string isa;
  uint32_t threads = 0;          // 0: as many as the process may run on
  uint32_t prefill_chunk = 512;  // tokens of one call
  // Test hook of the control verdict: adds one step of the dtype to one logit in this decode call,
  // counted from 1 over the engine's life. 0: never.
  uint64_t perturb_decode_call = 0;
};

struct EngineCounters {
  uint64_t prefill_tokens = 0;  // run through Prefill
  uint64_t decode_calls = 0;
  uint64_t recompute_tokens = 0;  // run through Recompute
};

class Engine {
 public:
  // Reads the weights into the kernels' form; `model` may go afterwards. Out of space when memory
  // doesn't suffice, not supported for kernels that this build or this CPU doesn't have.
  static Result<Engine> Open(const ModelFiles& model, const EngineOptions& options);

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const ModelConfig& config() const;
  DType dtype() const;
  uint64_t weight_bytes() const;  // as held in memory
  // Of them, what a decode call reads: an untied model takes single rows of its embedding.
  uint64_t weight_bytes_per_call() const;
  NumericEnvironment environment() const;
  const EngineCounters& counters() const;
  KvGeometry Geometry(uint32_t block_tokens) const;
  // Digest of the RoPE parameters that rotate K, kept in each record.
  uint64_t rope_identity() const;

  // Called after each chunk with the tokens done so far. False stops: Prefill returns
  // "interrupted".
  using Progress = std::function<bool(uint64_t tokens_done)>;

  // Runs `tokens` (at least 1) at the positions from sequence.cached_tokens() on, in chunks of
  // prefill_chunk; their K and V are in the sequence afterwards. `logits`, vocab floats, get those
  // of the last token. Out of space when the pool can't hold them: nothing was run then. Invalid
  // argument for an id outside the vocabulary.
  Status Prefill(Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
                 const Progress& progress = {});

  // One token at position sequence.cached_tokens().
  Status Decode(Sequence& sequence, TokenId token, std::span<float> logits);

  // One token of a sequence, and where the vocab logits behind it go.
  struct BatchRow {
    Sequence* sequence = nullptr;
    TokenId token = 0;
    std::span<float> logits;
  };
  // As Decode for each row, all in one call: the native kernels pass over their weights once, torch
  // runs row after row. Each row has a sequence of its own. Out of space when the pool can't hold
  // all of them: nothing was run then.
  Status DecodeBatch(std::span<const BatchRow> rows);

  // The same tokens without a cache, in one call: what a recomputed cache would be. Its K and V are
  // written to `sequence`, which must be empty. `on_logits` gets the logits of each position from
  // `first_logits` on, in order.
  Status Recompute(Sequence& sequence, std::span<const TokenId> tokens, uint64_t first_logits,
                   const std::function<void(uint64_t position, std::span<const float>)>& on_logits);

  // From here on `tap` sees the output of each operation, but of batches; an empty one ends that.
  void SetTap(OpTap tap);

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// "native" where this CPU has the instructions, else "torch".
std::string DefaultKernels();
// The sets of kernels that this build and this CPU have, the default first.
std::vector<std::string> KernelSets();

// The instruction sets that the native kernels can take here, the fastest first.
std::vector<std::string> NativeInstructionSets(DType dtype);
// Whether some of them have this arithmetic (NumericEnvironment::isa).
bool HasNativeArithmetic(DType dtype, const std::string& arithmetic);

// libtorch and what of it is in effect here, e.g. "torch 2.13.0, AVX2, BLAS mkl"; empty for a build
// without it. Loads it; not supported where that fails.
Result<std::string> DescribeLibtorch();

}  // namespace kvbed
