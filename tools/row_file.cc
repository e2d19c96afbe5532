#include "tools/row_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "tools/system_text.h"

namespace kvbed {
namespace {

constexpr int kRowDepthMax = 32;
constexpr uint64_t kRowValuesMax = 4 << 20;
constexpr size_t kNotesOfAFile = 20;
constexpr size_t kPlacesOfANote = 5;

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

Status TakeList(std::string_view text, LeftOutRows& left_out, const TakeFileRow& take) {
  auto list = ParseRow(text);
  if (!list) {
    left_out.Add({}, "begins a JSON list that is cut off, wrong, or too large");
    return Status::Ok();
  }
  RowPlace place;
  for (Json& row : *list) {
    ++place.number;
    if (row.is_object()) {
      KVBED_RETURN_IF_ERROR(take(place, std::move(row)));
    } else {
      left_out.Add(place, "is no JSON object");
    }
  }
  return Status::Ok();
}

std::string WhyNoObject(std::string_view line, bool last) {
  const bool whole = line.starts_with('{') && line.ends_with('}');
  return !whole && last ? "is cut off or no JSON object" : "is no JSON object";
}

Status TakeLines(std::string_view text, LeftOutRows& left_out, const TakeFileRow& take) {
  const std::vector<std::string_view> lines = SplitLines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const RowPlace place{.line = i + 1};
    const std::string_view line = Trimmed(lines[i]);
    if (line.empty()) continue;
    if (line.size() > kRowLineBytesMax) {
      left_out.Add(place, fmt::format("is longer than {} bytes", kRowLineBytesMax));
      continue;
    }
    auto row = ParseRow(line);
    if (row && row->is_object()) {
      KVBED_RETURN_IF_ERROR(take(place, *std::move(row)));
    } else {
      left_out.Add(place, WhyNoObject(line, i + 1 == lines.size()));
    }
  }
  return Status::Ok();
}

}  // namespace

std::string RowPlace::ToString() const {
  return number > 0 ? fmt::format("row {}", number) : fmt::format("line {}", line);
}

void LeftOutRows::Add(const RowPlace& place, const std::string& why) {
  const auto same =
      std::find_if(notes_.begin(), notes_.end(), [&](const Note& note) { return note.why == why; });
  Note& note = same != notes_.end() ? *same : notes_.emplace_back(Note{why, {}, 0});
  if (note.first.size() < kPlacesOfANote) note.first.push_back(place);
  ++note.places;
}

std::vector<std::string> LeftOutRows::Texts() const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(notes_.size(), kNotesOfAFile); ++i) {
    texts.push_back(Text(notes_[i]));
  }
  if (notes_.size() > kNotesOfAFile) {
    texts.push_back(fmt::format("{}: {} more reasons to leave out lines", file_,
                                notes_.size() - kNotesOfAFile));
  }
  return texts;
}

std::string LeftOutRows::Text(const Note& note) const {
  const bool in_list = note.first[0].number > 0;
  std::vector<uint64_t> first;
  for (const RowPlace& place : note.first) first.push_back(in_list ? place.number : place.line);
  const uint64_t more = note.places - first.size();
  return fmt::format("{} {}{} {}{}: {}; left out", file_, in_list ? "row" : "line",
                     note.places > 1 ? "s" : "", fmt::join(first, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "", note.why);
}

// Also a pipe's, so its size isn't asked.
Result<std::string> ReadRowFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return StatusFromErrno(errno, fmt::format("open {}", path));
  std::string text;
  std::vector<char> buffer(1 << 16);
  Status status;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = StatusFromErrno(errno, fmt::format("read {}", path));
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > kRowFileBytesMax) {
      status = Status::Corruption(
          fmt::format("{} has more than {} bytes, so it is no file of rows, or too many: split it",
                      path, kRowFileBytesMax));
      break;
    }
  }
  ::close(fd);
  if (!status.ok()) return status;
  return text;
}

Status ForEachRow(std::string_view text, LeftOutRows& left_out, const TakeFileRow& take) {
  const std::string_view trimmed = Trimmed(text);
  return trimmed.starts_with('[') ? TakeList(trimmed, left_out, take)
                                  : TakeLines(text, left_out, take);
}

}  // namespace kvbed
