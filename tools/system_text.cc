#include "tools/system_text.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <utility>

namespace kvbed {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr uint64_t kSectorBytes = 512;

// mountinfo and mountstats write blanks and backslashes in paths as \ooo.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr ==
            text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<std::pair<uint32_t, uint32_t>> ParseDeviceNumber(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto major_number = WholeNumber(text.substr(0, colon));
  const auto minor_number = WholeNumber(text.substr(colon + 1));
  if (!major_number || !minor_number) return std::nullopt;
  return std::pair(static_cast<uint32_t>(*major_number), static_cast<uint32_t>(*minor_number));
}

// "key: value" among the lines, for texts whose values are bare numbers.
std::optional<uint64_t> NumberOfKey(std::string_view text, std::string_view key) {
  const auto value = ValueOfKey(text, key);
  return value ? WholeNumber(*value) : std::nullopt;
}

bool LiesUnder(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (folder == "/" || path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = Trimmed(text)).empty()) {
    words.push_back(text.substr(0, text.find_first_of(kBlank)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> ValueOfKey(std::string_view text, std::string_view key) {
  for (std::string_view line : SplitLines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || Trimmed(line.substr(0, colon)) != key) continue;
    return std::string(Trimmed(line.substr(colon + 1)));
  }
  return std::nullopt;
}

std::optional<uint64_t> MemInfoBytes(std::string_view text, std::string_view key) {
  const auto value = ValueOfKey(text, key);
  if (!value) return std::nullopt;
  const auto words = SplitWords(*value);
  const auto number = words.empty() ? std::nullopt : WholeNumber(words[0]);
  if (!number) return std::nullopt;
  return words.size() > 1 && words[1] == "kB" ? *number * 1024 : *number;
}

CpuInfo ParseCpuInfo(std::string_view text) {
  constexpr std::string_view kFeatures[] = {"sse4_2",      "avx",      "avx2",     "avx512f",
                                            "avx512_bf16", "amx_tile", "amx_bf16", "asimd",
                                            "sve",         "bf16"};
  CpuInfo info;
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket;
  for (std::string_view line : SplitLines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = Trimmed(line.substr(0, colon));
    const std::string value(Trimmed(line.substr(colon + 1)));
    if (key == "processor") ++info.logical;
    if (key == "model name" && info.model.empty()) info.model = value;
    if (key == "physical id") sockets.insert(socket = value);
    if (key == "core id") cores.insert({socket, value});
    if ((key == "flags" || key == "Features") && info.features.empty()) {
      for (std::string_view word : SplitWords(value)) {
        if (word == "hypervisor") info.hypervisor = true;
        if (std::ranges::find(kFeatures, word) != std::end(kFeatures)) {
          info.features.emplace_back(word);
        }
      }
    }
  }
  info.sockets = sockets.size();
  info.cores = cores.size();
  return info;
}

std::vector<Mount> ParseMountInfo(std::string_view text) {
  std::vector<Mount> mounts;
  for (std::string_view line : SplitLines(text)) {
    // ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [FIELDS...] - TYPE SOURCE SUPER_OPTIONS
    const auto words = SplitWords(line);
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || words.end() - dash < 3 || dash - words.begin() < 6) continue;
    const auto device = ParseDeviceNumber(words[2]);
    if (!device) continue;
    Mount mount;
    std::tie(mount.device_major, mount.device_minor) = *device;
    mount.mount_point = Unescaped(words[4]);
    mount.options = std::string(words[5]);
    mount.fs_type = std::string(dash[1]);
    mount.source = Unescaped(dash[2]);
    if (words.end() - dash > 3) mount.options += "," + Unescaped(dash[3]);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

const Mount* MountOf(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (!LiesUnder(path, mount.mount_point)) continue;
    // A later mount on the same point hides the earlier one.
    if (best == nullptr || mount.mount_point.size() >= best->mount_point.size()) best = &mount;
  }
  return best;
}

std::optional<std::string> MountOption(std::string_view options, std::string_view name) {
  for (size_t begin = 0; begin <= options.size();) {
    const size_t end = std::min(options.find(',', begin), options.size());
    const std::string_view option = options.substr(begin, end - begin);
    if (option.starts_with(name) && option.substr(name.size()).starts_with('=')) {
      return std::string(option.substr(name.size() + 1));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<ByteCounts> ParseProcessIo(std::string_view text) {
  const auto read = NumberOfKey(text, "read_bytes");
  const auto written = NumberOfKey(text, "write_bytes");
  if (!read || !written) return std::nullopt;
  return ByteCounts{*read, *written};
}

std::optional<ByteCounts> ParseDiskStat(std::string_view text) {
  // Documentation/block/stat.rst: sectors read are the third field, sectors written the seventh.
  const auto words = SplitWords(text);
  if (words.size() < 11) return std::nullopt;
  const auto read = WholeNumber(words[2]);
  const auto written = WholeNumber(words[6]);
  if (!read || !written) return std::nullopt;
  return ByteCounts{*read * kSectorBytes, *written * kSectorBytes};
}

std::optional<NfsByteCounts> ParseNfsMountStats(std::string_view text,
                                                std::string_view mount_point) {
  bool here = false;
  std::optional<NfsByteCounts> counts;
  for (std::string_view line : SplitLines(text)) {
    const auto words = SplitWords(line);
    // device SERVER:/EXPORT mounted on MOUNT_POINT with fstype nfs4 statvers=1.1
    if (words.size() >= 5 && words[0] == "device") {
      here = words[2] == "mounted" && Unescaped(words[4]) == mount_point;
    } else if (words.size() >= 2 && words[0] == "no" && words[1] == "device") {
      here = false;
    }
    // bytes: NORMAL_READ NORMAL_WRITE DIRECT_READ DIRECT_WRITE SERVER_READ SERVER_WRITE ...
    if (!here || words.size() < 7 || words[0] != "bytes:") continue;
    const auto direct_read = WholeNumber(words[3]), direct_written = WholeNumber(words[4]);
    const auto read = WholeNumber(words[5]), written = WholeNumber(words[6]);
    if (!direct_read || !direct_written || !read || !written) continue;
    // A later mount on the same point hides the earlier one.
    counts = {{*direct_read, *direct_written}, {*read, *written}};
  }
  return counts;
}

std::optional<ByteCounts> ParseLustreStats(std::string_view text, std::string_view read_name,
                                           std::string_view write_name) {
  // NAME COUNT samples [bytes] MIN MAX SUM; a kind that never happened has no line.
  ByteCounts counts;
  bool any = false;
  for (std::string_view line : SplitLines(text)) {
    const auto words = SplitWords(line);
    if (words.size() >= 2 && words[0] == "snapshot_time") any = true;
    if (words.size() < 7) continue;
    const auto sum = WholeNumber(words[6]);
    if (sum && words[0] == read_name) counts.read_bytes = *sum;
    if (sum && words[0] == write_name) counts.written_bytes = *sum;
  }
  return any ? std::optional(counts) : std::nullopt;
}

bool HasLustreLine(std::string_view text, std::string_view name) {
  return std::ranges::any_of(SplitLines(text), [&](std::string_view line) {
    const auto words = SplitWords(line);
    return !words.empty() && words[0] == name;
  });
}

bool IsKernelAtLeast(std::string_view release, uint64_t major, uint64_t minor) {
  const auto number = [&]() -> std::optional<uint64_t> {
    const size_t digits = std::min(release.find_first_not_of("0123456789"), release.size());
    const auto value = WholeNumber(release.substr(0, digits));
    release.remove_prefix(std::min(digits + 1, release.size()));
    return value;
  };
  const auto its_major = number();
  const auto its_minor = number();
  return its_major && its_minor && std::pair(*its_major, *its_minor) >= std::pair(major, minor);
}

std::string SelectedWord(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    return std::string(Trimmed(text));
  }
  return std::string(text.substr(open + 1, close - open - 1));
}

}  // namespace kvbed
