#include "tools/drift/drift_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "offload/clock.h"
#include "tools/drift/recompute_drift.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/run_report.h"
#include "tools/session.h"

namespace kvbed {
namespace {

// The pool's, an image of the arm's cache, and one of the base's.
constexpr uint64_t kKvCopies = 3;

Status CheckModelsContext(const ModelFiles& model, uint64_t prompt_tokens, uint64_t decode_calls) {
  const uint64_t most = model.config.max_position;
  if (most == 0 || prompt_tokens + decode_calls <= most) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} tokens and {} decode calls are more than {} was made for ({} positions), and "
                  "what differs there says nothing of it: take a smaller -c or -n",
                  prompt_tokens, decode_calls, model.name, most));
}

// The engine's operations go to a trace while it lives; none with null.
class OpWatch {
 public:
  OpWatch(Engine& engine, OpTrace* trace) : engine_(engine) {
    if (trace != nullptr) engine_.SetTap([trace](const OpOutput& output) { trace->Note(output); });
  }
  ~OpWatch() { engine_.SetTap({}); }
  OpWatch(const OpWatch&) = delete;
  OpWatch& operator=(const OpWatch&) = delete;

 private:
  Engine& engine_;
};

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
      Result<DriftArmResult> result = RunArm(i);
      if (!result.ok() && NotAskedFor(arms_[i]) && !Interrupted()) {
        run_.warnings.push_back(fmt::format("{} kernels are left out: {}",
                                            arms_[i].settings.kernels, result.status().message()));
        continue;
      }
      if (!result.ok()) return result.status();
      run_.arms.push_back(std::move(*result));
    }
    run_.begin = FindDriftBegin(Contexts());
    run_.total_ns = MonotonicNs() - start_ns;
    return std::move(run_);
  }

 private:
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
        CheckMemoryToRecompute(opened.files.config, work.geometry, tokens, kKvCopies));
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
                        options_.kernels};
    if (lists.ctx_tokens.empty()) lists.ctx_tokens = {run_.prompt.ids.size()};
    if (lists.kernels.empty()) lists.kernels = {DefaultKernels()};
    // A limit is for what was asked for.
    if (options_.kernels.empty() && !options_.fail_above_pct) {
      for (std::string& set : KernelSets()) lists.kernels.push_back(std::move(set));
    }
    with_native_ = std::ranges::find(lists.kernels, "native") != lists.kernels.end();
    arms_ = PlanDriftArms(lists);
  }

  bool NotAskedFor(const DriftArm& arm) const {
    return arm.factor == DriftFactor::kKernels && options_.kernels.empty();
  }

  ModelOptions ModelOptionsOf(const DriftSettings& settings) const {
    ModelOptions model = options_.model;
    model.prefill_chunk = settings.prefill_chunk;
    model.threads = settings.threads;
    model.kernels = settings.kernels;
    // --isa is of the native kernels: beside them the others don't refuse it.
    if (settings.kernels != "native" && with_native_) model.isa.clear();
    return model;
  }

  // An engine computes in one way for all its life.
  Status PutInEffect(const DriftSettings& settings) {
    DriftSettings same_context = in_effect_;
    same_context.ctx_tokens = settings.ctx_tokens;
    if (same_context == settings) return Status::Ok();
    in_effect_ = {};  // there is no engine after an error
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
    const std::span<const TokenId> prompt =
        std::span(run_.prompt.ids).first(arm.settings.ctx_tokens);
    // The base's picks, so that one thing alone is changed.
    const std::span<const TokenId> forced = OfTheBasesTokens(arm)
                                                ? std::span(base_->tokens).subspan(prompt.size())
                                                : std::span<const TokenId>();
    MadeCache cached;
    OpTrace cached_ops, recomputed_ops;
    {
      const OpWatch watch(model_->engine, options_.first_op ? &cached_ops : nullptr);
      Sequence sequence = NewSequence();
      KVBED_ASSIGN_OR_RETURN(cached,
                             MakeCache(model_->engine, sequence, {prompt, decode_calls_, forced},
                                       [&bar](uint64_t done) { bar.Update(done); }));
    }

    DriftArmResult result;
    result.arm = arm;
    result.environment = model_->engine.environment();
    result.arm.settings.threads = result.environment.threads;
    result.prefill_ns = cached.prefill_ns;
    result.decode_ns = cached.decode_ns;
    result.decoded_ids.assign(cached.tokens.begin() + static_cast<ptrdiff_t>(prompt.size()),
                              cached.tokens.end());
    const uint64_t start_ns = MonotonicNs();
    Sequence recomputed = NewSequence();
    {
      const OpWatch watch(model_->engine, options_.first_op ? &recomputed_ops : nullptr);
      KVBED_ASSIGN_OR_RETURN(result.drift, CompareWithRecompute(model_->engine, model_->files,
                                                                cached.AsCachedRun(), recomputed));
    }
    result.recompute_ns = MonotonicNs() - start_ns;
    if (options_.first_op) result.operations = CompareOperations(cached_ops, recomputed_ops);
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
  bool with_native_ = false;  // is one of the sets of kernels
  std::unique_ptr<BlockPool> pool_;
  std::optional<LoadedModel> model_;
  DriftSettings in_effect_;
  std::optional<MadeCache> base_;
};

}  // namespace

bool Exceeds(const DriftArmResult& result, double limit_pct) {
  return result.drift.kv.total().differing_pct() > limit_pct;
}

Result<DriftRun> RunDrift(const DriftOptions& options) { return DriftJob(options).Run(); }

}  // namespace kvbed
