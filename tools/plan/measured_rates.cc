#include "tools/plan/measured_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/console.h"
#include "tools/result_json.h"
#include "tools/row_file.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

using RowPath = Json::json_pointer;

// What no disk, prefill or context is outside of; beyond it a row was damaged or made up.
constexpr double kMeasuredLeast = 1e-6;
constexpr double kMeasuredMost = 1e15;

// A row that can be taken.
struct MeasuredRow {
  std::string place;  // "line 3"
  std::string cell;   // "llama3-8b, 8,192 tokens, slab:/data/kv"
  bool same_shape = false;
  double ctx_distance = 0;  // |log(its context / the wanted one)|
  double gb_per_s = 0;
  std::optional<double> prefill_tok_per_s;
  std::string prefill_device;
  bool prefill_given = false;
  bool publishable = false;
};

struct MeasuredRows {
  std::vector<MeasuredRow> taken;
  std::vector<std::string> refused;  // "line 1: failed"
};

const Json* FieldAt(const Json& row, const char* path) {
  const RowPath pointer(path);
  return row.contains(pointer) ? &row.at(pointer) : nullptr;
}

std::optional<double> SaneAt(const Json& row, const char* path) {
  const Json* value = FieldAt(row, path);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  const bool sane = number >= kMeasuredLeast && number <= kMeasuredMost;
  return sane ? std::optional(number) : std::nullopt;
}

std::string TextAt(const Json& row, const char* path) {
  const Json* value = FieldAt(row, path);
  return value != nullptr && value->is_string() ? Printable(value->get<std::string>()) : "";
}

bool TrueAt(const Json& row, const char* path) {
  const Json* value = FieldAt(row, path);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

bool IsOfShape(const Json& row, const ModelShape& shape) {
  const auto equal = [&](const char* path, uint32_t wanted) {
    const Json* value = FieldAt(row, path);
    return value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() == wanted;
  };
  return !shape.latent && equal("/model/layers", shape.layers) &&
         equal("/model/heads", shape.heads) && equal("/model/kv_heads", shape.kv_heads) &&
         equal("/model/head_dim", shape.head_dim) && equal("/model/hidden", shape.hidden);
}

// Why a row says nothing of a disk; empty when it does.
std::string WhyRefused(const Json& row) {
  if (TextAt(row, "/schema") != "kvbed-bench/1") return "no row of kvbed bench (kvbed-bench/1)";
  if (TextAt(row, "/status") != "ok") return "its status isn't ok";
  if (!SaneAt(row, "/restore/gb_per_s")) return "no restore.gb_per_s";
  if (!SaneAt(row, "/cell/ctx_tokens")) return "no cell.ctx_tokens";
  if (TextAt(row, "/cell/store").starts_with("memory:")) return "a store in memory";
  if (!TrueAt(row, "/cell/direct")) return "read through the page cache";
  return "";
}

void AddPrefill(const Json& row, MeasuredRow& measured) {
  const auto prefill_ns = SaneAt(row, "/ttft/recompute/prefill_ns");
  if (!prefill_ns) return;
  measured.prefill_tok_per_s = *SaneAt(row, "/cell/ctx_tokens") / (*prefill_ns / 1e9);
  measured.prefill_device = TextAt(row, "/ttft/recompute/device");
  measured.prefill_given = TrueAt(row, "/ttft/recompute/given");
}

MeasuredRow TakeRow(const Json& row, std::string place, const ModelShape& shape,
                    uint64_t ctx_tokens) {
  MeasuredRow measured;
  const double ctx = *SaneAt(row, "/cell/ctx_tokens");
  measured.place = std::move(place);
  measured.cell = fmt::format("{}, {} tokens, {}", TextAt(row, "/model/name"),
                              Thousands(static_cast<uint64_t>(ctx)), TextAt(row, "/cell/store"));
  measured.same_shape = IsOfShape(row, shape);
  measured.ctx_distance = std::abs(std::log(ctx / static_cast<double>(ctx_tokens)));
  measured.gb_per_s = *SaneAt(row, "/restore/gb_per_s");
  measured.publishable = TrueAt(row, "/publishable");
  AddPrefill(row, measured);
  return measured;
}

Result<MeasuredRows> SortRows(std::string_view text, LeftOutRows& left_out, const ModelShape& shape,
                              uint64_t ctx_tokens) {
  MeasuredRows sorted;
  KVBED_RETURN_IF_ERROR(ForEachRow(text, left_out, [&](const RowPlace& place, const Json& row) {
    const std::string why = WhyRefused(row);
    if (why.empty()) {
      sorted.taken.push_back(TakeRow(row, place.ToString(), shape, ctx_tokens));
    } else {
      sorted.refused.push_back(fmt::format("{}: {}", place.ToString(), why));
    }
    return Status::Ok();
  }));
  // The best one last; among equals the one that was measured last.
  std::stable_sort(sorted.taken.begin(), sorted.taken.end(), [](const auto& a, const auto& b) {
    if (a.same_shape != b.same_shape) return b.same_shape;
    return a.ctx_distance > b.ctx_distance;
  });
  return sorted;
}

// `reasons`: of rows that were refused, and lines that are none.
Status NothingToTake(const std::string& path, const std::vector<std::string>& reasons) {
  constexpr size_t kShown = 3;
  const size_t shown = std::min(kShown, reasons.size());
  const std::vector<std::string> first(reasons.begin(), reasons.begin() + shown);
  std::string says = fmt::format("{}", fmt::join(first, "; "));
  if (reasons.size() > shown) says += fmt::format("; and {} more", reasons.size() - shown);
  return Status::NotFound(fmt::format(
      "--from: {} has no row that measured a disk ({}): give --disk-gb-per-s, or run kvbed bench",
      path, reasons.empty() ? "it is empty" : says));
}

void TakePrefill(const std::string& path, const MeasuredRows& rows, MeasuredRates& rates) {
  for (auto row = rows.taken.rbegin(); row != rows.taken.rend(); ++row) {
    // Another model's prefill says nothing of this one's.
    if (!row->prefill_tok_per_s || !row->same_shape) continue;
    rates.prefill_tok_per_s =
        SourcedValue{*row->prefill_tok_per_s,
                     fmt::format("{} by {} {} ({}{})", row->prefill_given ? "given" : "measured",
                                 path, row->place, row->cell,
                                 row->prefill_device.empty() ? "" : ", on " + row->prefill_device)};
    return;
  }
  rates.no_prefill_reason =
      fmt::format("no row of {} that was taken has ttft.recompute of this shape", path);
}

}  // namespace

Result<MeasuredRowFile> MeasuredRowFile::Read(const std::string& path) {
  if (path.empty()) return Status::InvalidArgument("--from needs a file's name");
  auto text = ReadRowFile(path);
  if (text.ok()) return MeasuredRowFile(path, std::move(*text));
  if (text.status().code() == StatusCode::kNotFound) {
    return Status::NotFound(fmt::format(
        "--from: there is no {}: make it with kvbed bench ... -o jsonl > {}", path, path));
  }
  return text.status().WithContext("--from");
}

Result<MeasuredRates> MeasuredRowFile::RatesFor(const ModelShape& shape,
                                                uint64_t ctx_tokens) const {
  LeftOutRows left_out(path_);
  KVBED_ASSIGN_OR_RETURN(MeasuredRows rows, SortRows(text_, left_out, shape, ctx_tokens));
  MeasuredRates rates;
  rates.left_out = left_out.Texts();
  if (rows.taken.empty()) {
    rows.refused.insert(rows.refused.end(), rates.left_out.begin(), rates.left_out.end());
    return NothingToTake(path_, rows.refused);
  }
  const MeasuredRow& best = rows.taken.back();
  rates.disk_gb_per_s = {best.gb_per_s,
                         fmt::format("measured by {} {} ({}{}{})", path_, best.place, best.cell,
                                     best.same_shape ? "" : ", another shape's records",
                                     best.publishable ? "" : ", not publishable")};
  TakePrefill(path_, rows, rates);
  return rates;
}

}  // namespace kvbed
