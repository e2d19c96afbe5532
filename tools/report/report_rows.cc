#include "tools/report/report_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/row_file.h"
#include "tools/system_text.h"

namespace kvbed {
namespace {

constexpr std::array<std::string_view, 2> kSchemas = {"kvbed-bench/1", "kvbed-sweep/1"};
// Above this a browser rounds whole numbers.
constexpr uint64_t kExactMax = uint64_t{1} << 53;

// Whole numbers that a browser can't hold become text.
void KeepExact(Json& value) {
  if (value.is_structured()) {
    for (Json& one : value) KeepExact(one);
  } else if (value.is_number_unsigned() && value.get<uint64_t>() > kExactMax) {
    value = value.dump();
  }
}

std::string CutForMessage(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

// Why this is no row of a report; empty when it is one.
std::string WhyNoRow(const Json& row) {
  const auto schema = row.find("schema");
  if (schema == row.end() || !schema->is_string()) return "has no schema: no result of kvbed";
  const std::string name = schema->get<std::string>();
  if (std::find(kSchemas.begin(), kSchemas.end(), name) == kSchemas.end()) {
    return fmt::format("is of schema {}, and a report shows {}", CutForMessage(name),
                       fmt::join(kSchemas, " and "));
  }
  const auto cell = row.find("cell");
  if (cell == row.end() || !cell->is_object()) return "has no cell: it says not what was measured";
  return "";
}

}  // namespace

Status AddReportRows(const std::string& file, std::string_view text, ReportRows& rows) {
  LeftOutRows left_out(file);
  const Status status = ForEachRow(text, left_out, [&](const RowPlace& place, Json row) {
    const std::string why = WhyNoRow(row);
    if (!why.empty()) {
      left_out.Add(place, why);
      return Status::Ok();
    }
    if (rows.rows.size() >= kReportRowsMax) {
      return Status::Corruption(fmt::format("{} {}: more than {} rows; give a report fewer", file,
                                            place.ToString(), kReportRowsMax));
    }
    KeepExact(row);
    rows.rows.push_back({{"file", file}, {"line", place.line}, {"row", std::move(row)}});
    return Status::Ok();
  });
  for (std::string& note : left_out.Texts()) rows.left_out.push_back(std::move(note));
  if (status.ok() && Trimmed(text).empty()) {
    rows.left_out.push_back(fmt::format("{}: is empty; left out", file));
  }
  return status;
}

Result<ReportRows> ReadReportRows(const std::vector<std::string>& files) {
  ReportRows rows;
  for (const std::string& file : files) {
    KVBED_ASSIGN_OR_RETURN(const std::string text, ReadRowFile(file));
    KVBED_RETURN_IF_ERROR(AddReportRows(file, text, rows));
  }
  if (!rows.rows.empty()) return rows;
  const size_t more = rows.left_out.size() - 1;
  return Status::Corruption(fmt::format("no row of bench or sweep (-o jsonl) to report: {}{}",
                                        rows.left_out.front(),
                                        more > 0 ? fmt::format(", and {} more", more) : ""));
}

}  // namespace kvbed
