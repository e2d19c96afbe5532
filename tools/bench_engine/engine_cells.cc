#include "tools/bench_engine/engine_cells.h"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "offload/block_pool.h"
#include "offload/clock.h"
#include "offload/sequence.h"
#include "tools/interrupt.h"
#include "tools/verify/seeded_kv.h"

namespace kvbed {
namespace {

constexpr uint64_t kWarmUpPrefills = 1;
constexpr uint64_t kWarmUpCalls = 3;
constexpr int kPeakSamples = 3;  // at each end of a cell

uint64_t WarmUps(EnginePhase phase) {
  return phase == EnginePhase::kPrefill ? kWarmUpPrefills : kWarmUpCalls;
}

// The operations of `tokens` tokens of which each has `ctx` before it on average, and of which
// `with_logits` go through the output matrix.
double OperationsOf(const ModelConfig& config, double tokens, double ctx, double with_logits) {
  const double hidden = config.hidden, queries = config.query_rows(), kv = config.kv_rows();
  const double layer =
      hidden * (queries + 2 * kv) + queries * hidden + 3 * hidden * config.intermediate;
  const double attention = 2 * queries * ctx;  // scores, and the sum over V
  return 2 * (tokens * config.layers * (layer + attention) + with_logits * hidden * config.vocab);
}

// Threads that never wait, while it lives.
class BusyThreads {
 public:
  explicit BusyThreads(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      threads_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

class CellRun {
 public:
  CellRun(Engine& engine, const EngineCell& cell, uint64_t seed, const std::function<bool()>& step)
      : engine_(engine), cell_(cell), random_(seed), step_(step) {}

  Status Prepare(uint32_t block_tokens) {
    const KvGeometry geometry = engine_.Geometry(block_tokens);
    const uint64_t sequences = cell_.phase == EnginePhase::kPrefill ? 1 : cell_.batch;
    const uint64_t blocks = sequences * geometry.BlocksFor(cell_.tokens_max() / sequences);
    KVBED_ASSIGN_OR_RETURN(pool_, BlockPool::Create(geometry, static_cast<uint32_t>(blocks)));
    if (cell_.phase == EnginePhase::kPrefill) return Status::Ok();
    for (uint64_t i = 0; i < cell_.batch; ++i) {
      KVBED_RETURN_IF_ERROR(AddSequence());
      if (cell_.ctx_tokens == 0) continue;
      KVBED_RETURN_IF_ERROR(
          GrowSeeded(*sequences_.back(), cell_.ctx_tokens, SeededValues::kFinite));
      if (Interrupted()) return InterruptedStatus();
    }
    return Status::Ok();
  }

  Status Run(EngineMeasurement& measured) {
    for (uint64_t i = 0; i < WarmUps(cell_.phase) + cell_.samples; ++i) {
      KVBED_ASSIGN_OR_RETURN(const uint64_t ns,
                             cell_.phase == EnginePhase::kPrefill ? PrefillOnce() : DecodeOnce());
      if (i >= WarmUps(cell_.phase)) measured.samples_ns.push_back(ns);
      if (!step_()) return InterruptedStatus();
    }
    return Status::Ok();
  }

 private:
  Status AddSequence() {
    sequences_.push_back(std::make_unique<Sequence>(*pool_, SeededIdentity(sequences_.size() + 1)));
    return Status::Ok();
  }
  TokenId AnyToken() { return static_cast<TokenId>(random_() % engine_.config().vocab); }

  Result<uint64_t> PrefillOnce() {
    sequences_.clear();
    KVBED_RETURN_IF_ERROR(AddSequence());
    std::vector<TokenId> tokens(cell_.prompt_tokens);
    for (TokenId& token : tokens) token = AnyToken();
    std::vector<float> logits(engine_.config().vocab);
    const uint64_t start_ns = MonotonicNs();
    KVBED_RETURN_IF_ERROR(engine_.Prefill(*sequences_[0], tokens, logits));
    return MonotonicNs() - start_ns;
  }

  Result<uint64_t> DecodeOnce() {
    if (logits_.empty()) logits_.assign(cell_.batch, std::vector<float>(engine_.config().vocab));
    std::vector<Engine::BatchRow> rows;
    for (uint64_t i = 0; i < cell_.batch; ++i) {
      rows.push_back({sequences_[i].get(), AnyToken(), logits_[i]});
    }
    const uint64_t start_ns = MonotonicNs();
    KVBED_RETURN_IF_ERROR(engine_.DecodeBatch(rows));
    return MonotonicNs() - start_ns;
  }

  Engine& engine_;
  const EngineCell& cell_;
  std::mt19937_64 random_;
  const std::function<bool()>& step_;
  std::unique_ptr<BlockPool> pool_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<std::vector<float>> logits_;
};

void MeasurePeaks(MachinePeaks* peaks, EngineMeasurement& measured) {
  if (peaks == nullptr) return;
  for (int i = 0; i < kPeakSamples; ++i) {
    measured.stream_gb_per_s.push_back(peaks->StreamGbPerS());
    measured.peak_gflop_per_s.push_back(peaks->GemmGflopPerS());
  }
}

void CountWork(const Engine& engine, EngineMeasurement& measured) {
  const EngineCell& cell = measured.cell;
  const ModelConfig& config = engine.config();
  if (cell.phase == EnginePhase::kPrefill) {
    const double tokens = static_cast<double>(cell.prompt_tokens);
    measured.operations = OperationsOf(config, tokens, (tokens + 1) / 2, 1);
    return;
  }
  const uint64_t ctx = cell.ctx_tokens + kWarmUpCalls + cell.samples / 2 + 1;
  measured.weight_bytes = engine.weight_bytes_per_call();
  measured.kv_bytes = cell.batch * ctx * engine.Geometry(1).kv_bytes_per_token();
  const double batch = static_cast<double>(cell.batch);
  measured.operations = OperationsOf(config, batch, static_cast<double>(ctx), batch);
}

}  // namespace

uint64_t EngineCell::tokens_max() const {
  if (phase == EnginePhase::kPrefill) return prompt_tokens;
  return batch * (ctx_tokens + kWarmUpCalls + samples);
}

Result<EngineMeasurement> MeasureEngineCell(Engine& engine, const EngineCell& cell,
                                            uint32_t block_tokens, uint64_t seed,
                                            MachinePeaks* peaks,
                                            const std::function<bool()>& step) {
  EngineMeasurement measured;
  measured.cell = cell;
  CellRun run(engine, measured.cell, seed, step);
  KVBED_RETURN_IF_ERROR(run.Prepare(block_tokens));
  MeasurePeaks(peaks, measured);
  {
    const BusyThreads beside(cell.busy_threads);
    KVBED_RETURN_IF_ERROR(run.Run(measured));
  }
  MeasurePeaks(peaks, measured);
  CountWork(engine, measured);
  return measured;
}

}  // namespace kvbed
