#include "tools/drift/drift_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "offload/clock.h"
#include "tools/drift/recompute_drift.h"
#include "tools/interrupt.h"
#include "tools/memory_room.h"
#include "tools/progress.h"
#include "tools/run_report.h"
#include "tools/session.h"
#include "verify/kv_image.h"

namespace kvbed {
namespace {

// The pool's, an image of the arm's cache, and one of the base's.
constexpr uint64_t kKvCopies = 3;

// Working memory of a token in the one call that recomputes: hidden states, queries, keys, values
// and MLP, in fp32. An estimate.
uint64_t RecomputeBytesPerToken(const ModelConfig& config) {
  const uint64_t floats = 4 * uint64_t{config.hidden} + 2 * uint64_t{config.query_rows()} +
                          4 * uint64_t{config.kv_rows()} + 4 * uint64_t{config.intermediate};
  return floats * sizeof(float);
}

Status CheckModelsContext(const ModelFiles& model, uint64_t prompt_tokens, uint64_t decode_calls) {
  const uint64_t most = model.config.max_position;
  if (most == 0 || prompt_tokens + decode_calls <= most) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} tokens and {} decode calls are more than {} was made for ({} positions), and "
                  "what differs there says nothing of it: take a smaller -c or -n",
                  prompt_tokens, decode_calls, model.name, most));
}

class DriftJob {
 public:
  explicit DriftJob(const DriftOptions& options)
      : options_(options), decode_calls_(options.new_tokens - 1) {}

  Result<DriftRun> Run() {
    const uint64_t start_ns = MonotonicNs();
    run_.header = {"kvbed-drift/1", CommandLineOfThisProcess(), options_.seed, UnixNs()};
    run_.new_tokens = options_.new_tokens;
    run_.fail_above_pct = options_.fail_above_pct;
    KVBED_RETURN_IF_ERROR(Prepare());
    for (size_t i = 0; i < arms_.size(); ++i) {
      KVBED_ASSIGN_OR_RETURN(DriftArmResult result, RunArm(i));
      run_.arms.push_back(std::move(result));
    }
    run_.begin = FindDriftBegin(Contexts());
    run_.total_ns = MonotonicNs() - start_ns;
    return std::move(run_);
  }

 private:
  // Cached tokens, their K and V, and the logits from the last prompt token on.
  struct CachedArm {
    std::vector<TokenId> tokens;
    LogitsTrace trace;
    KvImage image;
    uint64_t prefill_ns = 0;
    uint64_t decode_ns = 0;
  };

  // All that can be refused is looked at before the weights are read.
  Status Prepare() {
    KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(options_.model));
    PromptOptions prompt = options_.prompt;
    if (!options_.ctx_tokens.empty()) {
      prompt.ctx = *std::max_element(options_.ctx_tokens.begin(), options_.ctx_tokens.end());
      KVBED_RETURN_IF_ERROR(CheckModelsContext(opened.files, *prompt.ctx, decode_calls_));
    }
    KVBED_ASSIGN_OR_RETURN(
        Workload work, PrepareWorkload(opened.files, {options_.model, prompt, options_.pool,
                                                      options_.seed, decode_calls_, kKvCopies}));
    const uint64_t tokens = work.prompt.ids.size() + decode_calls_;
    KVBED_RETURN_IF_ERROR(CheckModelsContext(opened.files, work.prompt.ids.size(), decode_calls_));
    KVBED_RETURN_IF_ERROR(
        CheckMemoryFor(tokens,
                       kKvCopies * work.geometry.kv_bytes_per_token() +
                           RecomputeBytesPerToken(opened.files.config),
                       fmt::format("{} tokens that are recomputed in one call", tokens)));
    run_.prompt = std::move(work.prompt);
    run_.warnings = run_.prompt.warnings;
    pool_ = std::move(work.pool);
    PlanArms();

    const ModelOptions base = ModelOptionsOf(arms_.front().settings);
    KVBED_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(std::move(opened), base));
    model_.emplace(std::move(model));
    in_effect_ = arms_.front().settings;
    run_.load_ns = model_->load_ns;
    run_.warnings.insert(run_.warnings.end(), model_->files.warnings.begin(),
                         model_->files.warnings.end());
    run_.model = DescribeModel(*model_, work.geometry);
    run_.environment = model_->engine.environment();
    return Status::Ok();
  }

  void PlanArms() {
    DriftLists lists = {options_.ctx_tokens, options_.prefill_chunks, options_.threads,
                        options_.model.kernels};
    if (lists.ctx_tokens.empty()) lists.ctx_tokens = {run_.prompt.ids.size()};
    arms_ = PlanDriftArms(lists);
  }

  ModelOptions ModelOptionsOf(const DriftSettings& settings) const {
    ModelOptions model = options_.model;
    model.prefill_chunk = settings.prefill_chunk;
    model.threads = settings.threads;
    model.kernels = settings.kernels;
    return model;
  }

  // An engine computes in one way for all its life.
  Status PutInEffect(const DriftSettings& settings) {
    DriftSettings same_context = in_effect_;
    same_context.ctx_tokens = settings.ctx_tokens;
    if (same_context == settings) return Status::Ok();
    KVBED_ASSIGN_OR_RETURN(const uint64_t load_ns, ReopenEngine(*model_, ModelOptionsOf(settings)));
    run_.load_ns += load_ns;
    in_effect_ = settings;
    return Status::Ok();
  }

  Sequence NewSequence() {
    return {*pool_, {model_->digests.Fingerprint(), model_->engine.rope_identity(), RandomId()}};
  }

  Result<DriftArmResult> RunArm(size_t index) {
    const DriftArm& arm = arms_[index];
    KVBED_RETURN_IF_ERROR(PutInEffect(arm.settings));
    const uint64_t tokens = arm.settings.ctx_tokens + decode_calls_;
    Progress bar(fmt::format("arm {} of {}", index + 1, arms_.size()), 2 * tokens, "tokens");
    KVBED_ASSIGN_OR_RETURN(CachedArm cached, RunCached(arm, bar));

    DriftArmResult result;
    result.arm = arm;
    result.arm.settings.threads = model_->engine.environment().threads;
    result.prefill_ns = cached.prefill_ns;
    result.decode_ns = cached.decode_ns;
    result.decoded_ids.assign(
        cached.tokens.begin() + static_cast<ptrdiff_t>(arm.settings.ctx_tokens),
        cached.tokens.end());
    const uint64_t start_ns = MonotonicNs();
    Sequence recomputed = NewSequence();
    KVBED_ASSIGN_OR_RETURN(result.drift,
                           CompareWithRecompute(model_->engine, model_->files,
                                                {cached.image.view(), cached.tokens,
                                                 arm.settings.ctx_tokens, cached.trace},
                                                recomputed));
    result.recompute_ns = MonotonicNs() - start_ns;
    if (OfTheBasesTokens(arm)) {
      KVBED_ASSIGN_OR_RETURN(result.against_base,
                             MeasureKvDrift(base_->image.view(), cached.image.view(), tokens,
                                            arm.settings.ctx_tokens));
    }
    if (index == 0) base_ = std::move(cached);
    return result;
  }

  static bool OfTheBasesTokens(const DriftArm& arm) {
    return arm.factor != DriftFactor::kBase && arm.factor != DriftFactor::kContext;
  }

  // Prefill and decode calls over the greedy picks, or over the base's, so that one thing alone
  // is changed.
  Result<CachedArm> RunCached(const DriftArm& arm, Progress& bar) {
    const uint64_t prompt_tokens = arm.settings.ctx_tokens;
    CachedArm cached;
    cached.tokens.assign(run_.prompt.ids.begin(),
                         run_.prompt.ids.begin() + static_cast<ptrdiff_t>(prompt_tokens));
    std::vector<float> logits(model_->engine.config().vocab);
    KVBED_ASSIGN_OR_RETURN(Sampler greedy, Sampler::Create({}));
    Sequence sequence = NewSequence();
    const uint64_t start_ns = MonotonicNs();
    KVBED_RETURN_IF_ERROR(
        model_->engine.Prefill(sequence, cached.tokens, logits, [&bar](uint64_t done) {
          bar.Update(done);
          return !Interrupted();
        }));
    const uint64_t prefilled_ns = MonotonicNs();
    cached.prefill_ns = prefilled_ns - start_ns;
    cached.trace.Append(logits, greedy.Pick(logits));
    for (uint64_t call = 0; call < decode_calls_; ++call) {
      if (Interrupted()) return InterruptedStatus();
      cached.tokens.push_back(OfTheBasesTokens(arm) ? base_->tokens[prompt_tokens + call]
                                                    : cached.trace.picked(call));
      KVBED_RETURN_IF_ERROR(model_->engine.Decode(sequence, cached.tokens.back(), logits));
      cached.trace.Append(logits, greedy.Pick(logits));
      bar.Update(cached.tokens.size());
    }
    cached.decode_ns = MonotonicNs() - prefilled_ns;
    cached.image = KvImage::CopyOf(sequence);
    return cached;
  }

  std::vector<ContextDrift> Contexts() const {
    std::vector<ContextDrift> contexts;
    for (const DriftArmResult& result : run_.arms) {
      if (OfTheBasesTokens(result.arm)) continue;
      const auto& flips = result.drift.flips;
      contexts.push_back({result.arm.settings.ctx_tokens, result.drift.kv,
                          flips.empty() ? std::nullopt : std::optional(flips.front().position)});
    }
    return contexts;
  }

  const DriftOptions& options_;
  const uint64_t decode_calls_;
  DriftRun run_;
  std::vector<DriftArm> arms_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<LoadedModel> model_;
  DriftSettings in_effect_;
  std::optional<CachedArm> base_;
};

}  // namespace

bool Exceeds(const DriftArmResult& result, double limit_pct) {
  return result.drift.kv.total().differing_pct() > limit_pct;
}

Result<DriftRun> RunDrift(const DriftOptions& options) { return DriftJob(options).Run(); }

}  // namespace kvbed
