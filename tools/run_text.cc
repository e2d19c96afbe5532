// The text report of run, snapshot and resume: short, and for people who run storage, not models.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "tools/console.h"
#include "tools/drift/drift_text.h"
#include "tools/finding_text.h"
#include "tools/rates.h"
#include "tools/run_report.h"
#include "tools/store_access.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr size_t kShownTokens = 12;
constexpr size_t kShownFindings = 5;
constexpr size_t kShownFlips = 5;

// Lines of "label     text", the label only on the first line of its section.
class Page {
 public:
  template <class... Arguments>
  void Line(std::string_view label, fmt::format_string<Arguments...> format,
            Arguments&&... arguments) {
    text_ += fmt::format("{:<11} {}\n", label,
                         fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  void Blank() { text_ += "\n"; }
  void Raw(std::string_view text) { text_ += text; }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string Rate(uint64_t bytes, uint64_t ns) {
  const auto rate = GbPerS(bytes, ns);
  return rate ? fmt::format("{:.3f} GB/s", *rate) : "nothing moved";
}

// The first tokens with their ids, and how many more there are.
std::string TokenList(const std::vector<TokenView>& tokens) {
  std::string text;
  for (size_t i = 0; i < std::min(tokens.size(), kShownTokens); ++i) {
    text += ShowToken(tokens[i]) + (tokens[i].text.empty() ? " " : "  ");
  }
  if (tokens.size() > kShownTokens)
    text += fmt::format("... {} more", tokens.size() - kShownTokens);
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// "0 -> 5 prefill, 5 -> 6 decode 1, ..., 14 -> 15 decode 10"
std::string GrowthLine(const std::vector<CacheGrowth>& growth) {
  std::string text;
  uint64_t decode = 0;
  for (size_t i = 0; i < growth.size(); ++i) {
    const CacheGrowth& one = growth[i];
    if (one.decode) ++decode;
    if (i >= 3 && i + 1 < growth.size()) {
      if (i == 3) text += "..., ";
      continue;
    }
    text += fmt::format("{} -> {} {}", one.before, one.after,
                        one.decode ? fmt::format("decode {}", decode) : "prefill");
    if (i + 1 < growth.size()) text += ", ";
  }
  return text;
}

void WriteModel(Page& page, const RunReport& report) {
  const ModelConfig& config = report.model.config;
  const KvGeometry& geometry = report.model.geometry;
  page.Line("Model", "{}, {}: {}, {}, head dim {}; {} kernels, {}", Printable(report.model.name),
            DTypeName(geometry.dtype), Count(config.layers, "layer", "layers"),
            Count(config.kv_heads, "KV head", "KV heads"), config.head_dim,
            report.environment.kernel_set, Count(report.environment.threads, "thread", "threads"));
  for (const std::string& warning : report.warnings) page.Line("", "note: {}", Printable(warning));
}

void WriteTokens(Page& page, const RunReport& report) {
  const KvGeometry& geometry = report.model.geometry;
  if (!report.prompt.empty()) {
    page.Line("Prompt", "{}: {}", Count(report.prompt.size(), "token", "tokens"),
              TokenList(report.prompt));
  }
  if (!report.generated.empty()) {
    page.Line("Generated", "{}: {}", Count(report.generated.size(), "token", "tokens"),
              report.generated_text.empty() ? TokenList(report.generated)
                                            : Printable(report.generated_text));
  }
  if (!report.growth.empty()) page.Line("KV cache", "{}", GrowthLine(report.growth));
  const uint64_t measured = geometry.payload_bytes() / geometry.block_tokens;
  page.Line(report.growth.empty() ? "KV cache" : "",
            "{} bytes per token in the pool; formula 2 x {} layers x {} KV heads x {} dims x {} "
            "bytes = {}",
            Thousands(measured), geometry.layers, geometry.kv_heads, geometry.head_dim,
            geometry.element_bytes(),
            Thousands(KvBytesPerToken(report.model.config, geometry.element_bytes())));
}

void WriteSnapshot(Page& page, const SnapshotReport& snapshot, const RunReport& report,
                   std::string_view label) {
  const OffloadReport& offload = snapshot.offload;
  page.Line(label, "{}: {} cached, after decode call {}; {} of {} bytes, {} written",
            snapshot.kept ? snapshot.name : "temporary", Count(snapshot.tokens, "token", "tokens"),
            snapshot.at_decode_call, Count(offload.blocks, "record", "records"),
            Thousands(report.model.geometry.record_bytes()), offload.blocks_written);
  const bool durable = offload.d1_ns != 0;
  page.Line("", "written (D0) {}{}; {}; published (D2) {}", Duration(offload.d0_ns),
            durable ? "" : " = " + Rate(offload.written_bytes, offload.d0_ns),
            durable ? fmt::format("durable (D1) {} = {}", Duration(offload.d1_ns),
                                  Rate(offload.written_bytes, offload.d1_ns))
                    : "not waited until durable (D1)",
            Duration(offload.d2_ns));
  if (!snapshot.kept || report.store->kind == "memory") return;
  if (report.injected.empty()) {
    page.Line("", "kept: kvbed resume -m MODEL --store '{}'", snapshot.spec);
  } else {
    page.Line("", "kept damaged; to remove it: kvbed store rm '{}'", snapshot.spec);
  }
}

void WriteStore(Page& page, const RunReport& report) {
  const StoreInfo& store = *report.store;
  const bool temporary = report.snapshot && !report.snapshot->kept;
  page.Line("Store", "{}{}", store.spec, temporary ? " (removed at the end)" : "");
  if (!store.design.empty()) page.Line("", "{}", store.design);
  page.Line("", "{}", DescribeIo(store));
  if (!store.ioengine_reason.empty()) page.Line("", "not io_uring: {}", store.ioengine_reason);
  if (!store.direct_reason.empty()) page.Line("", "not direct: {}", store.direct_reason);
  if (!store.registered_buffers_reason.empty()) {
    page.Line("", "buffers not registered: {}", store.registered_buffers_reason);
  }
  page.Line("", "pool {} bytes, {} of them on huge pages", Thousands(report.pool_bytes),
            Thousands(std::min(report.huge_page_bytes, report.pool_bytes)));
}

void WriteRestore(Page& page, const RunReport& report) {
  const RestoreSummary& summary = *report.restore;
  const RestoreReport& restore = summary.restore;
  page.Line("Restore", "in {} (pid {}{}): {} of {} verified",
            summary.fresh_process ? "a fresh process" : "this process", summary.pid,
            summary.fresh_process ? fmt::format(", the run's is {}", ::getpid()) : "",
            restore.blocks_restored, Count(restore.blocks, "record", "records"));
  page.Line("", "{}{}; reading {}, hashing {}, of which {} while reading",
            Duration(restore.wall_ns),
            restore.whole() ? " = " + Rate(restore.stored_bytes, restore.wall_ns) : "",
            Duration(restore.read_ns), Duration(restore.verify_ns), Duration(restore.overlap_ns));
  page.Line("", "{} prefilled after the restore{}",
            Count(summary.prefill_tokens_after_restore, "token", "tokens"),
            summary.recomputed ? ": the lost part of the cache was recomputed (--on-miss)" : "");
  if (!report.resumed.empty()) {
    page.Line(
        "Resumed", "{}: {}", Count(report.resumed.size(), "token", "tokens"),
        report.resumed_text.empty() ? TokenList(report.resumed) : Printable(report.resumed_text));
  }
}

void WriteFinding(Page& page, const Finding& finding) {
  for (const std::string& line : FindingLines(finding)) page.Line("", "{}", line);
}

void WriteFindings(Page& page, const RunReport& report) {
  const auto& findings = report.bytes->findings;
  for (size_t i = 0; i < std::min(findings.size(), kShownFindings); ++i) {
    WriteFinding(page, findings[i]);
  }
  if (findings.size() > kShownFindings) {
    page.Line("", "          and {} more findings (all in --json)",
              findings.size() - kShownFindings);
  }
  if (!report.restore) return;
  for (const FailedRead& read : report.restore->restore.failed_reads) {
    page.Line("", "UNREAD    block {}: {}", read.block, read.status.message());
  }
}

std::string Headline(const RunReport& report) {
  if (report.control && report.control->status == VerdictStatus::kDiffers) {
    return "NO VERDICT: two cached runs differ from each other, so there is nothing to compare "
           "with";
  }
  switch (report.bytes->status) {
    case VerdictStatus::kEqual:
      if ((report.logits && report.logits->status == VerdictStatus::kDiffers) ||
          (report.tokens && report.tokens->status == VerdictStatus::kDiffers)) {
        return "FAIL: the restored bytes are right, but the resumed run differs from the cached "
               "run";
      }
      return "EQUAL: what was restored is, bit for bit, what was in memory";
    case VerdictStatus::kDiffers: return "FAIL: what was restored is not what was in memory";
    case VerdictStatus::kNotAssessable: break;
  }
  return fmt::format("NO VERDICT: {}", report.bytes->reason);
}

void WriteKvVerdict(Page& page, const BytesVerdict& bytes) {
  const std::string reason = bytes.reason.empty() ? "" : fmt::format(" ({})", bytes.reason);
  const std::string compared = Count(bytes.compared_bytes, "byte", "bytes");
  if (bytes.compared_bytes == 0) {
    page.Line("", "KV        not compared{}", reason);
  } else if (!bytes.differing_bits) {
    page.Line("", "KV        {} compared by their digests, which differ{}", compared, reason);
  } else {
    page.Line("", "KV        {} compared, {} differ{}", compared,
              Count(*bytes.differing_bits, "bit", "bits"), reason);
  }
}

// Why fewer steps were compared than there are; empty when all were.
std::string StepsLeftOut(uint64_t compared, uint64_t expected, uint64_t resumed) {
  std::string text;
  if (compared < expected) text += fmt::format("; the ledger has {}", expected);
  if (compared < resumed) {
    text += fmt::format("; nothing is there to compare the {} after them with", resumed - compared);
  }
  return text;
}

void WriteVerdict(Page& page, const RunReport& report) {
  page.Line("BYTES", "{}", Headline(report));
  if (report.control) {
    page.Line("", "control   {}",
              report.control->status == VerdictStatus::kEqual
                  ? "two cached runs are equal, bit for bit"
                  : report.control->reason);
  }
  WriteKvVerdict(page, *report.bytes);
  if (report.logits) {
    const LogitsVerdict& logits = *report.logits;
    if (logits.status == VerdictStatus::kNotAssessable) {
      page.Line("", "logits    not assessable: {}", logits.reason);
    } else {
      const std::string bits =
          logits.differing_bits.value_or(0) > 0
              ? fmt::format(", in {}", Count(*logits.differing_bits, "bit", "bits"))
              : "";
      page.Line("", "logits    {} of {} steps equal{}{}", logits.steps - logits.differing_steps,
                logits.steps, bits,
                StepsLeftOut(logits.steps, logits.expected_steps, report.resumed.size()));
    }
  }
  if (report.tokens) {
    const TokensVerdict& tokens = *report.tokens;
    if (tokens.status == VerdictStatus::kNotAssessable) {
      page.Line("", "tokens    not assessable: {}", tokens.reason);
    } else {
      page.Line("", "tokens    {} of {} equal{}", tokens.steps - tokens.differing_steps,
                tokens.steps,
                StepsLeftOut(tokens.steps, tokens.expected_steps, report.resumed.size()));
    }
  }
  WriteFindings(page, report);
}

bool Identical(const DriftReport& drift) {
  const DriftPart total = drift.kv.total();
  return total.identical == total.elements;
}

// "the same 11 tokens are picked", or how many aren't.
std::string PicksText(const DriftReport& drift) {
  if (!drift.flips.empty()) {
    return fmt::format("{} of {} picks would be another token", drift.flips.size(),
                       drift.positions);
  }
  std::string text =
      fmt::format("the same {} picked", Count(drift.positions, "token is", "tokens are"));
  if (drift.positions_left_out > 0) {
    text += fmt::format("; {} could not be compared, their logits weren't kept",
                        drift.positions_left_out);
  }
  return text;
}

// Two lines for a set of kernels, and its flips.
void WriteDriftOf(Page& page, const DriftReport& drift, DType dtype) {
  const DriftPart total = drift.kv.total();
  std::string text = fmt::format("{} % of {} elements identical", IdenticalPercent(total),
                                 Thousands(total.elements));
  std::string more = PicksText(drift);
  if (!Identical(drift)) {
    text += fmt::format("; largest difference {:.3g}", total.max_abs);
    more = fmt::format("(largest |K| {:.3g}), from layer {} and position {} on; {}",
                       drift.kv.k_abs_max, *drift.kv.first_layer, *drift.kv.first_position, more);
  } else if (drift.kernels == "native") {
    more = "the same bits: each row is summed in one order; " + more;
  }
  page.Line("", "{:<9} {}", drift.kernels, text);
  page.Line("", "          {}", more);
  for (size_t i = 0; i < std::min(drift.flips.size(), kShownFlips); ++i) {
    page.Line("", "          {}", FlipText(drift, i, dtype));
  }
}

void WriteDrift(Page& page, const RunReport& report) {
  page.Blank();
  if (!report.drift) {
    page.Line("DRIFT", "not measured: {}", report.drift_skipped);
    return;
  }
  const DType dtype = report.model.geometry.dtype;
  page.Line("DRIFT",
            "no part of the verdict: what a cache that is computed again, in one call and");
  page.Line("", "without the snapshot, differs by from the cached one");
  WriteDriftOf(page, *report.drift, dtype);
  bool differs = !Identical(*report.drift);
  for (const KernelsDrift& arm : report.drift_arms) {
    if (!arm.drift) {
      page.Line("", "{:<9} not measured: {}", arm.kernels, arm.reason);
      continue;
    }
    WriteDriftOf(page, *arm.drift, dtype);
    differs = differs || !Identical(*arm.drift);
  }
  if (!differs) return;
  page.Line("", "What differs is rounding: sums are taken in another order, so the last bits");
  page.Line("", "differ. It is not corruption.");
}

void WriteTimings(Page& page, const RunReport& report) {
  const uint64_t decode_ns =
      std::accumulate(report.decode_ns.begin(), report.decode_ns.end(), uint64_t{0});
  std::string text = fmt::format("load {}", Duration(report.load_ns));
  if (report.prefill_ns > 0) text += fmt::format(", prefill {}", Duration(report.prefill_ns));
  if (!report.decode_ns.empty()) {
    text += fmt::format(", decode {} a token", Duration(decode_ns / report.decode_ns.size()));
  }
  page.Line("Times", "{}, in all {}", text, Duration(report.total_ns));
}

}  // namespace

std::string RunText(const RunReport& report) {
  Page page;
  WriteModel(page, report);
  WriteTokens(page, report);
  if (report.snapshot) WriteSnapshot(page, *report.snapshot, report, "Snapshot");
  if (report.store) WriteStore(page, report);
  if (!report.injected.empty()) page.Line("Injected", "{}", report.injected);
  if (report.restore) WriteRestore(page, report);
  if (report.saved) WriteSnapshot(page, *report.saved, report, "Saved");
  if (!report.not_saved_reason.empty()) page.Line("Not saved", "{}", report.not_saved_reason);
  WriteTimings(page, report);
  if (report.bytes) {
    page.Blank();
    WriteVerdict(page, report);
  }
  if (report.drift || !report.drift_skipped.empty()) WriteDrift(page, report);
  return page.Take();
}

}  // namespace kvbed
