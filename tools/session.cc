#include "tools/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "offload/clock.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"
#include "tools/progress.h"

namespace kvbed {
namespace {

SequenceIdentity NewIdentity(const LoadedModel& model) {
  return {model.digests.Fingerprint(), model.engine.rope_identity(), RandomId()};
}

EngineOptions EngineOptionsOf(const ModelOptions& options) {
  return {.dtype = options.dtype,
          .kernels = options.kernels,
          .isa = options.isa,
          .threads = options.threads,
          .prefill_chunk = options.prefill_chunk};
}

}  // namespace

Result<OpenedModel> OpenModelFiles(const ModelOptions& options) {
  const uint64_t start_ns = MonotonicNs();
  KVBED_ASSIGN_OR_RETURN(ModelFiles files, OpenModel(options.model));
  return OpenedModel{std::move(files), MonotonicNs() - start_ns};
}

Result<LoadedModel> LoadModel(OpenedModel model, const ModelOptions& options,
                              uint64_t perturb_decode_call) {
  const uint64_t start_ns = MonotonicNs();
  EngineOptions engine_options = EngineOptionsOf(options);
  engine_options.perturb_decode_call = perturb_decode_call;
  KVBED_ASSIGN_OR_RETURN(Engine engine, Engine::Open(model.files, engine_options));
  const ModelDigests digests = DigestModel(model.files);
  return LoadedModel{std::move(model.files), digests, std::move(engine),
                     model.open_ns + MonotonicNs() - start_ns};
}

Result<uint64_t> ReopenEngine(LoadedModel& model, const ModelOptions& options) {
  const uint64_t start_ns = MonotonicNs();
  { const Engine old = std::move(model.engine); }
  KVBED_ASSIGN_OR_RETURN(model.engine, Engine::Open(model.files, EngineOptionsOf(options)));
  return MonotonicNs() - start_ns;
}

Result<std::unique_ptr<BlockPool>> MakePool(const KvGeometry& geometry, const PoolOptions& options,
                                            uint64_t tokens) {
  KVBED_RETURN_IF_ERROR(geometry.Validate());
  const uint64_t needed = geometry.BlocksFor(tokens);
  if (needed > UINT32_MAX) {
    return Status::InvalidArgument(
        fmt::format("{} tokens are too many: a pool has at most {} records", tokens, UINT32_MAX));
  }
  uint64_t records = needed;
  if (options.pool_bytes) {
    records = *options.pool_bytes / geometry.record_bytes();
    if (records < needed) {
      return Status::InvalidArgument(
          fmt::format("--pool-bytes {} holds {} records of {} bytes, {} tokens need {}: give at "
                      "least {}, or fewer tokens",
                      *options.pool_bytes, records, geometry.record_bytes(), tokens, needed,
                      needed * geometry.record_bytes()));
    }
  }
  records = std::min<uint64_t>(records, UINT32_MAX);
  const std::string what = options.pool_bytes
                               ? fmt::format("--pool-bytes {}: its records", *options.pool_bytes)
                               : fmt::format("the KV records of {} tokens", tokens);
  KVBED_RETURN_IF_ERROR(CheckMemoryFor(records, geometry.record_bytes(), what));
  return BlockPool::Create(geometry, static_cast<uint32_t>(records));
}

Result<Workload> PrepareWorkload(const ModelFiles& model, const WorkloadOptions& options) {
  Workload workload;
  workload.geometry = GeometryOf(model.config, options.model.dtype, options.pool.block_tokens);
  const uint64_t token_bytes =
      options.copies * workload.geometry.kv_bytes_per_token() + kPromptBytesPerToken;
  KVBED_ASSIGN_OR_RETURN(workload.prompt,
                         ResolvePrompt(options.prompt, model, options.seed, token_bytes));
  const uint64_t tokens = workload.prompt.ids.size() + options.more_tokens;
  KVBED_RETURN_IF_ERROR(CheckMemoryFor(tokens, token_bytes, fmt::format("{} tokens", tokens)));
  if (model.config.max_position != 0 && tokens > model.config.max_position) {
    workload.prompt.warnings.push_back(
        fmt::format("{} tokens are more than the model was made for ({}): the text gets worse, the "
                    "bytes are as good",
                    tokens, model.config.max_position));
  }
  KVBED_ASSIGN_OR_RETURN(workload.pool, MakePool(workload.geometry, options.pool, tokens));
  return workload;
}

Decoding::Decoding(LoadedModel& model, Sequence sequence, Sampler sampler,
                   uint64_t kept_logits_bytes_max)
    : model_(&model),
      sequence_(std::move(sequence)),
      sampler_(std::move(sampler)),
      logits_(model.engine.config().vocab),
      trace_(kept_logits_bytes_max) {}

Result<Decoding> Decoding::Start(LoadedModel& model, BlockPool& pool, const SamplerState& state,
                                 uint64_t kept_logits_bytes_max) {
  KVBED_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create(state));
  return Decoding(model, Sequence(pool, NewIdentity(model)), std::move(sampler),
                  kept_logits_bytes_max);
}

Result<Decoding> Decoding::Resume(LoadedModel& model, Sequence sequence, const Manifest& manifest,
                                  uint64_t kept_logits_bytes_max) {
  if (!manifest.pending_token()) {
    return Status::NotSupported(
        fmt::format("snapshot {} has no pending token to go on with", manifest.name));
  }
  KVBED_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create(manifest.sampler));
  Decoding decoding(model, std::move(sequence), std::move(sampler), kept_logits_bytes_max);
  decoding.tokens_ = manifest.token_ids;
  decoding.prompt_tokens_ = manifest.prompt_tokens;
  return decoding;
}

Status Decoding::RunPrefill(std::span<const TokenId> tokens) {
  const uint64_t before = sequence_.cached_tokens();
  const uint64_t start_ns = MonotonicNs();
  Progress progress("prefill", tokens.size(), "tokens");
  KVBED_RETURN_IF_ERROR(
      model_->engine.Prefill(sequence_, tokens, logits_, [&progress](uint64_t done) {
        progress.Update(done);
        return !Interrupted();
      }));
  prefill_ns_ += MonotonicNs() - start_ns;
  growth_.push_back({before, sequence_.cached_tokens(), false});
  return Status::Ok();
}

Status Decoding::Prefill(std::span<const TokenId> prompt) {
  KVBED_CHECK(tokens_.empty() && !prompt.empty());
  KVBED_RETURN_IF_ERROR(RunPrefill(prompt));
  tokens_.assign(prompt.begin(), prompt.end());
  prompt_tokens_ = prompt.size();
  tokens_.push_back(sampler_.Pick(logits_));
  trace_.Append(logits_, tokens_.back());
  return Status::Ok();
}

Status Decoding::RecomputeLost() {
  const uint64_t cached = sequence_.cached_tokens();
  KVBED_CHECK(cached < tokens_.size());
  const std::span<const TokenId> lost =
      std::span(tokens_).subspan(cached).first(tokens_.size() - 1 - cached);
  return lost.empty() ? Status::Ok() : RunPrefill(lost);
}

Status Decoding::Decode(uint64_t calls, const char* label) {
  Progress progress(label, calls, "tokens");
  for (uint64_t call = 0; call < calls; ++call) {
    if (Interrupted()) return InterruptedStatus();
    const uint64_t before = sequence_.cached_tokens();
    const uint64_t start_ns = MonotonicNs();
    KVBED_RETURN_IF_ERROR(model_->engine.Decode(sequence_, tokens_.back(), logits_));
    tokens_.push_back(sampler_.Pick(logits_));
    decode_ns_.push_back(MonotonicNs() - start_ns);
    growth_.push_back({before, sequence_.cached_tokens(), true});
    trace_.Append(logits_, tokens_.back());
    if (observer_) KVBED_RETURN_IF_ERROR(observer_(logits_, tokens_.back()));
    progress.Update(call + 1);
  }
  return Status::Ok();
}

Manifest Decoding::Describe(const std::string& name) const {
  Manifest manifest;
  manifest.name = name;
  manifest.model_name = model_->files.name;
  manifest.model = model_->digests;
  manifest.prompt_tokens = prompt_tokens_;
  manifest.token_ids = tokens_;
  manifest.sampler = sampler_.state();
  manifest.environment = model_->engine.environment();
  return manifest;
}

}  // namespace kvbed
