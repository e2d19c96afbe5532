#include "tools/sweep/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/bench/row_fields.h"
#include "tools/console.h"

namespace kvbed {
namespace {

constexpr RowColumn kCsvColumns[] = {
    {nullptr, "op", "/cell/op"},
    {nullptr, "bs_bytes", "/cell/bs_bytes"},
    {nullptr, "iodepth", "/cell/iodepth"},
    {nullptr, "iodepth_achieved", "/iodepth_achieved"},
    {nullptr, "ioengine", "/cell/ioengine"},
    {nullptr, "direct", "/cell/direct"},
    {nullptr, "registered", "/cell/registered"},
    {nullptr, "order", "/cell/order"},
    {nullptr, "bytes", "/cell/bytes"},
    {nullptr, "file_state", "/cell/file_state"},
    {nullptr, "cache_mode", "/cell/cache_mode"},
    {nullptr, "label", "/cell/label"},
    {nullptr, "gb_per_s", "/gb_per_s"},
    {nullptr, "iops", "/iops"},
    {nullptr, "n", "/n"},
    {nullptr, "cv", "/cv"},
    {nullptr, "lat_p50_ns", "/lat_ns/p50"},
    {nullptr, "lat_p99_ns", "/lat_ns/p99"},
    {nullptr, "lat_p99_9_ns", "/lat_ns/p99_9"},
    {nullptr, "cpu_s_per_gb", "/cpu_s_per_gb"},
    {nullptr, "fio_gb_per_s", "/ceiling/gb_per_s"},
    {nullptr, "fio_efficiency", "/ceiling/efficiency"},
    {nullptr, "device_ratio", "/bytes/ratio"},
    {nullptr, "knee_iodepth", "/knee/iodepth"},
    {nullptr, "knee_lat_p50_ns", "/knee/lat_p50_ns"},
    {nullptr, "peak_gb_per_s", "/knee/peak_gb_per_s"},
    {nullptr, "status", "/status"},
    {nullptr, "publishable", "/publishable"},
};

std::string SizeText(uint64_t bytes) {
  constexpr uint64_t kMi = uint64_t{1} << 20, kKi = uint64_t{1} << 10;
  if (bytes % kMi == 0) return fmt::format("{}m", bytes / kMi);
  if (bytes % kKi == 0) return fmt::format("{}k", bytes / kKi);
  return std::to_string(bytes);
}

std::string DurationText(double ns) {
  if (ns < 1e6) return fmt::format("{:.0f} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.2f} ms", ns / 1e6) : fmt::format("{:.2f} s", ns / 1e9);
}

double Number(const Json& row, const char* path) {
  const Json* field = FindField(row, path);
  return field != nullptr ? field->get<double>() : 0;
}

bool Is(const Json& row, const char* path) {
  const Json* field = FindField(row, path);
  return field != nullptr && field->is_boolean() && field->get<bool>();
}

// "ext4 on vda, Linux 6.1.0, EPYC 7003, 2 CPUs, kvbed 0.1.0"
std::string EnvironmentText(const Json& row) {
  std::vector<std::string> disks;
  if (const Json* devices = FindField(row, "/env/block_devices")) {
    for (const Json& disk : *devices) {
      disks.push_back(FieldText(disk, "/name", -1, "?"));
      if (FindField(disk, "/model")) disks.back() += " " + FieldText(disk, "/model", -1, "");
    }
  }
  return fmt::format(
      "{} on {}, {}, {}, {} CPUs, kvbed {}", FieldText(row, "/store/fs_type", -1, "?"),
      disks.empty() ? "no visible disk" : fmt::format("{}", fmt::join(disks, ", ")),
      FieldText(row, "/env/kernel", -1, "?"), FieldText(row, "/env/cpu", -1, "?"),
      FieldText(row, "/env/cpus_usable", -1, "?"), FieldText(row, "/kvbed_version", -1, "?"));
}

// "1.234*": the knee, "~": noisy, "!": failed.
std::string RateText(const Json& row) {
  std::string text = FieldText(row, "/gb_per_s", 3, "-");
  if (Number(row, "/knee/iodepth") == Number(row, "/cell/iodepth")) text += "*";
  if (Is(row, "/noisy")) text += "~";
  if (row.at("status") != "ok") text += "!";
  return text;
}

std::string GroupSizeText(const Json& row) {
  return SizeText(row.at("cell").at("bs_bytes").get<uint64_t>());
}

// "64k at depth 4"
std::string PointText(const Json& row) {
  return fmt::format("{} at depth {}", GroupSizeText(row),
                     FieldText(row, "/cell/iodepth", -1, "?"));
}

std::string KneeText(const Json& row) {
  return fmt::format("{}: depth {}: {:.3f} GB/s of {:.3f} at the peak, p50 {}{}",
                     GroupSizeText(row), FieldText(row, "/knee/iodepth", -1, "?"),
                     Number(row, "/knee/gb_per_s"), Number(row, "/knee/peak_gb_per_s"),
                     DurationText(Number(row, "/knee/lat_p50_ns")),
                     Is(row, "/knee/at_largest_depth") ? "; no depth above it was measured" : "");
}

// "write, io_uring, direct, registered: GB/s until durable, median of 3"
std::string HeadingText(const Json& row) {
  const bool write = row.at("cell").at("op") == "write";
  return fmt::format("{}, {}, {}, {}: GB/s{}, median of {}", write ? "write" : "read",
                     FieldText(row, "/cell/ioengine", -1, "?"),
                     Is(row, "/cell/direct") ? "direct" : "through the page cache",
                     Is(row, "/cell/registered") ? "registered" : "not registered",
                     write ? " until durable" : "", FieldText(row, "/n", -1, "?"));
}

constexpr const char* kLegend = "* knee, ~ noisy (varies by more than 10 %), ! failed\n";

}  // namespace

std::string SweepTable::Group(std::span<const Json> rows) {
  std::string out;
  if (!began_) out += EnvironmentText(rows[0]) + "; " + subject_ + "\n" + kLegend;
  began_ = true;
  if (const std::string heading = HeadingText(rows[0]); heading != heading_) {
    out += End();
    heading_ = heading;
    out += style_ == SweepTableStyle::kMarkdown ? fmt::format("\n### {}\n\n", heading)
                                                : fmt::format("\n{}\n", heading);
    out += Head(rows);
  }
  std::vector<std::string> rates = {GroupSizeText(rows[0])}, of_fio = {"of fio"};
  for (const Json& row : rows) {
    rates.push_back(RateText(row));
    of_fio.push_back(FieldText(row, "/ceiling/efficiency", 2, ""));
    for (const Json& reason : row.at("reasons")) {
      const auto text = reason.get<std::string>();
      // What is noisy is marked in the table.
      if (!text.starts_with("noisy")) Add(reasons_, Printable(text), PointText(row));
    }
  }
  points_ += rows.size();
  ++groups_;
  if (FindField(rows[0], "/knee") != nullptr) {
    knees_.push_back(KneeText(rows[0]));
  } else {
    Add(without_knee_, "none: " + FieldText(rows[0], "/knee_reason", -1, ""),
        GroupSizeText(rows[0]));
  }
  out += Line(rates);
  const bool has_fio = std::any_of(of_fio.begin() + 1, of_fio.end(),
                                   [](const std::string& text) { return !text.empty(); });
  return has_fio ? out + Line(of_fio) : out;
}

std::string SweepTable::End() {
  const std::vector<std::string> none = Texts(without_knee_, groups_);
  knees_.insert(knees_.end(), none.begin(), none.end());
  const std::string out =
      Section("Knee", knees_) + Section("Failed or not publishable", Texts(reasons_, points_));
  knees_.clear();
  without_knee_.clear();
  reasons_.clear();
  groups_ = points_ = 0;
  return out;
}

void SweepTable::Add(std::vector<Note>& notes, const std::string& text, const std::string& about) {
  auto note =
      std::find_if(notes.begin(), notes.end(), [&](const Note& one) { return one.text == text; });
  if (note == notes.end()) note = notes.insert(note, {text, {}});
  note->about.push_back(about);
}

std::vector<std::string> SweepTable::Texts(const std::vector<Note>& notes, size_t all) {
  constexpr size_t kNamedMost = 3;
  std::vector<std::string> texts;
  for (const Note& note : notes) {
    if (note.about.size() == all) {
      texts.push_back(note.text);
      continue;
    }
    const size_t named = std::min(note.about.size(), kNamedMost);
    std::string some = fmt::format("{}", fmt::join(std::span(note.about).first(named), ", "));
    if (named < note.about.size()) some += fmt::format(" and {} more", note.about.size() - named);
    texts.push_back(some + ": " + note.text);
  }
  return texts;
}

std::string SweepTable::Section(const char* title, const std::vector<std::string>& items) const {
  if (items.empty()) return "";
  const bool markdown = style_ == SweepTableStyle::kMarkdown;
  std::string out = markdown ? fmt::format("\n{}:\n\n", title) : fmt::format("{}\n", title);
  for (const std::string& item : items) out += (markdown ? "- " : "  ") + item + "\n";
  return out;
}

std::string SweepTable::Head(std::span<const Json> rows) const {
  std::vector<std::string> cells = {"bs"};
  for (const Json& row : rows) {
    cells.push_back("depth " + FieldText(row, "/cell/iodepth", -1, "?"));
  }
  std::string out = Line(cells);
  if (style_ == SweepTableStyle::kText) return out;
  for (size_t i = 0; i < cells.size(); ++i) out += "|----------:";
  return out + "|\n";
}

std::string SweepTable::Line(const std::vector<std::string>& cells) const {
  std::string out;
  for (const std::string& cell : cells) {
    out += style_ == SweepTableStyle::kMarkdown ? fmt::format("| {:>9} ", cell)
                                                : fmt::format("{:>11}", cell);
  }
  return out + (style_ == SweepTableStyle::kMarkdown ? "|\n" : "\n");
}

RowColumns SweepCsvColumns() { return {kCsvColumns}; }

}  // namespace kvbed
