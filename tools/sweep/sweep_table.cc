#include "tools/sweep/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/bench/row_fields.h"
#include "tools/console.h"

namespace kvbed {
namespace {

struct CsvColumn {
  const char* name;
  const char* path;
};

constexpr CsvColumn kCsvColumns[] = {
    {"op", "/cell/op"},
    {"bs_bytes", "/cell/bs_bytes"},
    {"iodepth", "/cell/iodepth"},
    {"iodepth_achieved", "/iodepth_achieved"},
    {"ioengine", "/cell/ioengine"},
    {"direct", "/cell/direct"},
    {"registered", "/cell/registered"},
    {"order", "/cell/order"},
    {"bytes", "/cell/bytes"},
    {"file_state", "/cell/file_state"},
    {"cache_mode", "/cell/cache_mode"},
    {"label", "/cell/label"},
    {"gb_per_s", "/gb_per_s"},
    {"iops", "/iops"},
    {"n", "/n"},
    {"cv", "/cv"},
    {"lat_p50_ns", "/lat_ns/p50"},
    {"lat_p99_ns", "/lat_ns/p99"},
    {"lat_p99_9_ns", "/lat_ns/p99_9"},
    {"cpu_s_per_gb", "/cpu_s_per_gb"},
    {"fio_gb_per_s", "/ceiling/gb_per_s"},
    {"fio_efficiency", "/ceiling/efficiency"},
    {"device_ratio", "/bytes/ratio"},
    {"knee_iodepth", "/knee/iodepth"},
    {"knee_lat_p50_ns", "/knee/lat_p50_ns"},
    {"peak_gb_per_s", "/knee/peak_gb_per_s"},
    {"status", "/status"},
    {"publishable", "/publishable"},
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

// "ext4 on vda, kernel 6.1.0, 2 CPUs: ..."
std::string EnvironmentText(const Json& row) {
  std::vector<std::string> disks;
  if (const Json* devices = FindField(row, "/env/block_devices")) {
    for (const Json& disk : *devices) {
      disks.push_back(FieldText(disk, "/name", -1, "?"));
      if (FindField(disk, "/model")) disks.back() += " " + FieldText(disk, "/model", -1, "");
    }
  }
  return fmt::format("{} on {}, kernel {}, {}, {} CPUs, kvbed {}; {} bytes a point, {}, seed {}",
                     FieldText(row, "/store/fs_type", -1, "?"),
                     disks.empty() ? "no visible disk" : fmt::format("{}", fmt::join(disks, ", ")),
                     FieldText(row, "/env/kernel", -1, "?"), FieldText(row, "/env/cpu", -1, "?"),
                     FieldText(row, "/env/cpus_usable", -1, "?"),
                     FieldText(row, "/kvbed_version", -1, "?"),
                     FieldText(row, "/cell/bytes", -1, "?"), FieldText(row, "/cell/order", -1, "?"),
                     FieldText(row, "/seed", -1, "?"));
}

// "1.234*": the knee, "~": noisy, "!": failed.
std::string RateText(const Json& row) {
  std::string text = FieldText(row, "/gb_per_s", 3, "-");
  if (Number(row, "/knee/iodepth") == Number(row, "/cell/iodepth")) text += "*";
  if (Is(row, "/noisy")) text += "~";
  if (row.at("status") != "ok") text += "!";
  return text;
}

std::string KneeText(const Json& row) {
  const std::string size = SizeText(row.at("cell").at("bs_bytes").get<uint64_t>());
  if (FindField(row, "/knee") == nullptr) {
    return fmt::format("{}: no knee: {}", size, FieldText(row, "/knee_reason", -1, ""));
  }
  return fmt::format("{}: depth {}, {:.3f} of {:.3f} GB/s at the peak, p50 {}{}", size,
                     FieldText(row, "/knee/iodepth", -1, "?"), Number(row, "/knee/gb_per_s"),
                     Number(row, "/knee/peak_gb_per_s"),
                     DurationText(Number(row, "/knee/lat_p50_ns")),
                     Is(row, "/knee/at_largest_depth") ? "; no depth above it was measured" : "");
}

}  // namespace

std::string SweepTable::Group(std::span<const Json> rows) {
  std::string out;
  if (!began_) out += EnvironmentText(rows[0]) + "\n";
  began_ = true;
  if (const std::string heading = Heading(rows[0]); heading != heading_) {
    out += End();
    heading_ = heading;
    out += "\n" + std::string(style_ == SweepTableStyle::kMarkdown ? "### " : "") + heading + "\n";
    if (style_ == SweepTableStyle::kMarkdown) out += "\n";
    out += Head(rows);
  }
  std::vector<std::string> cells = {SizeText(rows[0].at("cell").at("bs_bytes").get<uint64_t>())};
  for (const Json& row : rows) cells.push_back(RateText(row));
  Note(rows);
  return out + Line(cells);
}

std::string SweepTable::End() {
  std::string out;
  const char* const item = style_ == SweepTableStyle::kMarkdown ? "- " : "  ";
  if (!knees_.empty()) out += style_ == SweepTableStyle::kMarkdown ? "\nKnee:\n\n" : "knee\n";
  for (const std::string& knee : knees_) out += fmt::format("{}{}\n", item, knee);
  if (!notes_.empty()) out += style_ == SweepTableStyle::kMarkdown ? "\nNotes:\n\n" : "notes\n";
  for (const std::string& note : notes_) out += fmt::format("{}{}\n", item, note);
  knees_.clear();
  notes_.clear();
  return out;
}

// "write, io_uring, direct, registered: GB/s until durable"
std::string SweepTable::Heading(const Json& row) const {
  const bool write = row.at("cell").at("op") == "write";
  return fmt::format("{}, {}, {}, {}: GB/s{}, median of {}", write ? "write" : "read",
                     FieldText(row, "/cell/ioengine", -1, "?"),
                     Is(row, "/cell/direct") ? "direct" : "through the page cache",
                     Is(row, "/cell/registered") ? "registered" : "not registered",
                     write ? " until durable" : "", FieldText(row, "/n", -1, "?"));
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

void SweepTable::Note(std::span<const Json> rows) {
  knees_.push_back(KneeText(rows[0]));
  for (const Json& row : rows) {
    for (const Json& reason : row.at("reasons")) {
      const std::string size = SizeText(row.at("cell").at("bs_bytes").get<uint64_t>());
      const std::string text = Printable(reason.get<std::string>());
      // What holds for all of them is said once; figures name their point.
      const bool own = text.find_first_of("%(") != std::string::npos || row.at("status") != "ok";
      const std::string note = own ? fmt::format("{} at depth {}: {}", size,
                                                 FieldText(row, "/cell/iodepth", -1, "?"), text)
                                   : text;
      if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
    }
  }
}

std::string SweepCsvHead() {
  std::vector<std::string> names;
  for (const CsvColumn& column : kCsvColumns) names.emplace_back(column.name);
  return fmt::format("{}\n", fmt::join(names, ","));
}

std::string SweepCsvLine(const Json& row) {
  std::vector<std::string> fields;
  for (const CsvColumn& column : kCsvColumns) {
    fields.push_back(CsvField(FieldText(row, column.path, -1, "")));
  }
  return fmt::format("{}\n", fmt::join(fields, ","));
}

}  // namespace kvbed
