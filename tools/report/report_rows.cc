#include "tools/report/report_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <optional>

#include "tools/system_text.h"

namespace kvbed {
namespace {

constexpr int kRowDepthMax = 32;
constexpr uint64_t kRowValuesMax = 4 << 20;
constexpr size_t kNotesOfAFile = 20;
constexpr std::array<std::string_view, 2> kSchemas = {"kvbed-bench/1", "kvbed-sweep/1"};
// Above this a browser rounds whole numbers.
constexpr uint64_t kExactMax = uint64_t{1} << 53;

// Values print and destroy themselves by recursion, and each takes more memory than its text.
bool IsShallowAndSmall(std::string_view text) {
  int depth = 0;
  uint64_t values = 1;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string && c == '\\') ++at;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' || c == '[' || c == '{') ++values;
    if (depth > kRowDepthMax || values > kRowValuesMax) return false;
  }
  return true;
}

std::optional<Json> ParseRow(std::string_view text) {
  if (!IsShallowAndSmall(text)) return std::nullopt;
  Json parsed = Json::parse(text.begin(), text.end(), nullptr, false);
  return parsed.is_discarded() ? std::nullopt : std::optional(std::move(parsed));
}

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
  if (!row.is_object()) return "is no object";
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

std::string WhyNoJson(std::string_view line, bool last) {
  const bool whole = line.starts_with('{') && line.ends_with('}');
  if (!whole && last) return "is cut off or no JSON object";
  return "is no JSON object";
}

// What one file leaves out: each reason once, with the first line that has it.
class LeftOut {
 public:
  explicit LeftOut(std::string file) : file_(std::move(file)) {}

  void Add(size_t line, const std::string& why) {
    const auto same = std::find_if(notes_.begin(), notes_.end(),
                                   [&](const Note& note) { return note.why == why; });
    if (same != notes_.end()) {
      same->lines.push_back(line);
    } else {
      notes_.push_back({why, {line}});
    }
  }
  void MoveTo(std::vector<std::string>& texts) const {
    for (size_t i = 0; i < std::min(notes_.size(), kNotesOfAFile); ++i) {
      texts.push_back(Text(notes_[i]));
    }
    if (notes_.size() > kNotesOfAFile) {
      texts.push_back(fmt::format("{}: {} more reasons to leave out lines", file_,
                                  notes_.size() - kNotesOfAFile));
    }
  }

 private:
  struct Note {
    std::string why;
    std::vector<size_t> lines;
  };
  std::string Text(const Note& note) const {
    const size_t shown = std::min<size_t>(note.lines.size(), 5);
    const std::vector<size_t> first(note.lines.begin(),
                                    note.lines.begin() + static_cast<ptrdiff_t>(shown));
    const size_t more = note.lines.size() - shown;
    return fmt::format("{} line{} {}{}: {}; left out", file_, note.lines.size() > 1 ? "s" : "",
                       fmt::join(first, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                       note.why);
  }

  std::string file_;
  std::vector<Note> notes_;
};

Status AddRow(const std::string& file, size_t line, Json row, LeftOut& left_out, Json& rows) {
  const std::string why = WhyNoRow(row);
  if (!why.empty()) {
    left_out.Add(line, why);
    return Status::Ok();
  }
  if (rows.size() >= kReportRowsMax) {
    return Status::Corruption(fmt::format("{} line {}: more than {} rows; give a report fewer",
                                          file, line, kReportRowsMax));
  }
  KeepExact(row);
  rows.push_back({{"file", file}, {"line", line}, {"row", std::move(row)}});
  return Status::Ok();
}

// What -o json wrote. All rows are said to be of the line where the list begins.
Status AddList(const std::string& file, std::string_view text, LeftOut& left_out, Json& rows) {
  auto list = ParseRow(text);
  if (!list) {
    left_out.Add(1, "begins a JSON list that is cut off, wrong, or too large");
    return Status::Ok();
  }
  for (Json& row : *list) {
    KVBED_RETURN_IF_ERROR(AddRow(file, 1, std::move(row), left_out, rows));
  }
  return Status::Ok();
}

Status AddLines(const std::string& file, std::string_view text, LeftOut& left_out, Json& rows) {
  const std::vector<std::string_view> lines = SplitLines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = Trimmed(lines[i]);
    if (line.empty()) continue;
    if (line.size() > kReportLineBytesMax) {
      left_out.Add(i + 1, fmt::format("is longer than {} bytes", kReportLineBytesMax));
      continue;
    }
    auto row = ParseRow(line);
    if (!row) {
      left_out.Add(i + 1, WhyNoJson(line, i + 1 == lines.size()));
      continue;
    }
    KVBED_RETURN_IF_ERROR(AddRow(file, i + 1, *std::move(row), left_out, rows));
  }
  return Status::Ok();
}

// A pipe has no size to ask for before.
Result<std::string> ReadReportFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return StatusFromErrno(errno, fmt::format("open {}", path));
  const auto too_large = [&] {
    return Status::Corruption(
        fmt::format("{} has more than {} bytes: these are no rows of one report; split it", path,
                    kReportFileBytesMax));
  };
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  std::string text;
  std::vector<char> buffer(1 << 16);
  Status status;
  if (known && static_cast<uint64_t>(info.st_size) > kReportFileBytesMax) status = too_large();
  while (status.ok()) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = StatusFromErrno(errno, fmt::format("read {}", path));
    if (got <= 0) break;
    if (text.size() + static_cast<size_t>(got) > kReportFileBytesMax) {
      status = too_large();
      break;
    }
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  ::close(fd);
  if (!status.ok()) return status;
  return text;
}

}  // namespace

Status AddReportRows(const std::string& file, std::string_view text, ReportRows& rows) {
  LeftOut left_out(file);
  const size_t before = rows.rows.size();
  const std::string_view trimmed = Trimmed(text);
  const Status status = trimmed.starts_with('[') ? AddList(file, trimmed, left_out, rows.rows)
                                                 : AddLines(file, text, left_out, rows.rows);
  left_out.MoveTo(rows.left_out);
  if (status.ok() && trimmed.empty() && rows.rows.size() == before) {
    rows.left_out.push_back(fmt::format("{}: is empty; left out", file));
  }
  return status;
}

Result<ReportRows> ReadReportRows(const std::vector<std::string>& files) {
  ReportRows rows;
  for (const std::string& file : files) {
    KVBED_ASSIGN_OR_RETURN(const std::string text, ReadReportFile(file));
    KVBED_RETURN_IF_ERROR(AddReportRows(file, text, rows));
  }
  if (!rows.rows.empty()) return rows;
  const size_t more = rows.left_out.size() - 1;
  return Status::Corruption(fmt::format("no row of bench or sweep (-o jsonl) to report: {}{}",
                                        rows.left_out.front(),
                                        more > 0 ? fmt::format(", and {} more", more) : ""));
}

}  // namespace kvbed
