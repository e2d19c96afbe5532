#include "tools/bench_engine/engine_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/row_fields.h"
#include "tools/bench/statistics.h"

namespace kvbed {
namespace {

constexpr double kNoisyCv = 0.10;

constexpr RowColumn kEngineColumns[] = {
    {"phase", "phase", "/cell/phase", -1},
    {"prompt", "prompt_tokens", "/cell/prompt_tokens", -1},
    {"ctx", "ctx_tokens", "/cell/ctx_tokens", -1},
    {"batch", "batch", "/cell/batch", -1},
    {"busy", "busy_threads", "/cell/busy_threads", -1},
    {"tok/s", "tok_per_s", "/tok_per_s", 1},
    {"median ms", "median_ms", "/median_ms", 3},
    {"spread", "cv", "/cv", 3},
    {"n", "n", "/n", -1},
    {"weights GB/s", "weight_gb_per_s", "/weight_gb_per_s", 2},
    {"KV GB/s", "kv_gb_per_s", "/kv_gb_per_s", 2},
    {"stream GB/s", "stream_gb_per_s", "/stream_gb_per_s", 2},
    {"of stream", "stream_share", "/stream_share", 3},
    {"GFLOP/s", "gflop_per_s", "/gflop_per_s", 1},
    {"peak GFLOP/s", "peak_gflop_per_s", "/peak_gflop_per_s", 1},
    {"of peak", "peak_share", "/peak_share", 3},
    {nullptr, "kernels", "/cell/kernels", -1},
    {nullptr, "isa", "/cell/isa", -1},
    {nullptr, "threads", "/cell/threads", -1},
    {nullptr, "dtype", "/model/dtype", -1},
};

Json EngineCellJson(const EngineMeasurement& measured, const Engine& engine,
                    uint32_t block_tokens) {
  const EngineCell& cell = measured.cell;
  const NumericEnvironment environment = engine.environment();
  const bool prefill = cell.phase == EnginePhase::kPrefill;
  Json out;
  out["phase"] = prefill ? "prefill" : "decode";
  if (prefill) {
    out["prompt_tokens"] = cell.prompt_tokens;
    SetNull(out, "ctx_tokens", "a prefill begins with an empty cache");
    SetNull(out, "batch", "a prefill is of one sequence");
  } else {
    SetNull(out, "prompt_tokens", "a decode call has one token of each sequence");
    out["ctx_tokens"] = cell.ctx_tokens;
    out["batch"] = cell.batch;
  }
  out["busy_threads"] = cell.busy_threads;
  out["kernels"] = environment.kernel_set;
  out["isa"] = environment.isa;
  out["threads"] = environment.threads;
  out["prefill_chunk"] = environment.prefill_chunk;
  out["block_tokens"] = block_tokens;
  return out;
}

// `ours` as a share of the machine's median, and that median; null where there is none.
void SetPeak(Json& row, const char* name, const char* share, const std::vector<double>& peaks,
             std::optional<double> ours, const std::string& no_peaks_reason,
             const std::string& no_share_reason) {
  const auto peak = MedianOf(peaks);
  SetOrReason(row, name, peak, no_peaks_reason);
  SetOrReason(row, share, peak && ours ? std::optional(*ours / *peak) : std::nullopt,
              peak ? no_share_reason : no_peaks_reason);
}

}  // namespace

Json EngineRowJson(const EngineMeasurement& measured, const Engine& engine,
                   const EngineRowContext& context) {
  const EngineCell& cell = measured.cell;
  Json row = MakeResult(context.header);
  row["env"] = context.env;
  row["model"] = context.model;
  row["cell"] = EngineCellJson(measured, engine, context.block_tokens);
  std::vector<double> samples(measured.samples_ns.begin(), measured.samples_ns.end());
  const double median_ns = Median(samples), cv = CoefficientOfVariation(samples);
  row["tok_per_s"] = static_cast<double>(cell.tokens_per_sample()) / median_ns * 1e9;
  row["n"] = samples.size();
  row["samples_ns"] = measured.samples_ns;
  row["median_ns"] = median_ns;
  row["median_ms"] = median_ns / 1e6;
  row["min_ns"] = *std::ranges::min_element(measured.samples_ns);
  row["max_ns"] = *std::ranges::max_element(measured.samples_ns);
  row["cv"] = cv;
  row["noisy"] = cv > kNoisyCv;
  const std::string cached = "a prefill reads weights, K and V again and again, from the caches";
  const bool decode = cell.phase == EnginePhase::kDecode;
  const auto rate = [&](uint64_t bytes) {
    return decode ? std::optional(static_cast<double>(bytes) / median_ns) : std::nullopt;
  };
  SetOrReason(row, "weight_gb_per_s", rate(measured.weight_bytes), cached);
  SetOrReason(row, "kv_gb_per_s", rate(measured.kv_bytes), cached);
  SetPeak(row, "stream_gb_per_s", "stream_share", measured.stream_gb_per_s,
          rate(measured.weight_bytes + measured.kv_bytes), context.no_peaks_reason, cached);
  const double gflop_per_s = measured.operations / median_ns;
  row["gflop_per_s"] = gflop_per_s;
  SetPeak(row, "peak_gflop_per_s", "peak_share", measured.peak_gflop_per_s, gflop_per_s,
          context.no_peaks_reason, "");
  const ModelConfig& config = engine.config();
  const uint64_t last = cell.tokens_max() / (decode ? cell.batch : 1);
  if (config.max_position > 0 && last > config.max_position) {
    AddReason(row, fmt::format("{} positions are more than the model was made for, {}: the time is "
                               "right, the tokens would not be",
                               last, config.max_position));
  }
  if (cv > kNoisyCv) AddReason(row, fmt::format("noisy: samples vary by {:.0f} %", 100 * cv));
  return row;
}

std::string EngineHeadLine(const Json& row) {
  const auto text = [&](const char* path) { return ShownText(row, path, -1, "unknown"); };
  return fmt::format("{}; {}, {}, {} kernels ({}), {} threads\n", MachineText(row),
                     text("/model/name"), text("/model/dtype"), text("/cell/kernels"),
                     text("/cell/isa"), text("/cell/threads"));
}

RowColumns EngineColumns() { return {kEngineColumns}; }

std::string EngineRowText(const Json& row) {
  const auto text = [&](const char* path, int digits = -1) {
    return ShownText(row, path, digits, "?");
  };
  const bool decode = row.at("cell").at("phase") == "decode";
  std::string line = decode
                         ? fmt::format("decode at {} tokens, batch {}: ", text("/cell/ctx_tokens"),
                                       text("/cell/batch"))
                         : fmt::format("prefill of {} tokens: ", text("/cell/prompt_tokens"));
  if (row.at("cell").at("busy_threads") > 0) {
    line += fmt::format("beside {} busy threads: ", text("/cell/busy_threads"));
  }
  line += fmt::format("{} tok/s ({} ms, spread {:.0f} %)", text("/tok_per_s", 1),
                      text("/median_ms", 2), 100 * row.at("cv").get<double>());
  if (FindField(row, "/stream_share")) {
    line +=
        fmt::format("; {:.1f} GB/s read, {:.2f} of the memory stream",
                    row.at("weight_gb_per_s").get<double>() + row.at("kv_gb_per_s").get<double>(),
                    row.at("stream_share").get<double>());
  }
  if (FindField(row, "/peak_share")) {
    line += fmt::format("; {} GFLOP/s, {:.2f} of the peak", text("/gflop_per_s", 1),
                        row.at("peak_share").get<double>());
  }
  return line + "\n";
}

}  // namespace kvbed
