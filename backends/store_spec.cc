#include "backends/store_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "backends/byte_size.h"
#include "backends/nearest_name.h"
#include "backends/split_command.h"
#include "offload/aligned_buffer.h"
#include "offload/bytes.h"
#include "offload/manifest.h"

namespace kvbed {
namespace {

constexpr std::string_view kGrammar = "KIND:PATH[?key=value&...][#SNAPSHOT]";
constexpr std::string_view kExecGrammar = "exec:[key=value ...] COMMAND LINE [#SNAPSHOT]";
constexpr uint32_t kIodepthMax = 4096;
constexpr uint64_t kTimeoutMsMax = 86'400'000;
constexpr uint64_t kWindowBytesMax = uint64_t{1} << 40;

constexpr std::array<std::pair<StoreKind, std::string_view>, 6> kKinds{{
    {StoreKind::kSlab, "slab"},
    {StoreKind::kRocksDb, "rocksdb"},
    {StoreKind::kFiles, "files"},
    {StoreKind::kMemory, "memory"},
    {StoreKind::kPlugin, "plugin"},
    {StoreKind::kExec, "exec"},
}};
constexpr std::array<std::pair<DirectMode, std::string_view>, 3> kDirectModes{{
    {DirectMode::kRequired, "required"},
    {DirectMode::kOptional, "optional"},
    {DirectMode::kOff, "off"},
}};
constexpr std::array<std::pair<SyncMode, std::string_view>, 4> kSyncModes{{
    {SyncMode::kFull, "full"},
    {SyncMode::kNone, "none"},
    {SyncMode::kCommit, "commit"},
    {SyncMode::kBlock, "block"},
}};

constexpr std::array<std::pair<RecordLayout, std::string_view>, 2> kLayouts{{
    {RecordLayout::kBlob, "blob"},
    {RecordLayout::kIndex, "index"},
}};
constexpr std::array<std::pair<WalMode, std::string_view>, 2> kWalModes{{
    {WalMode::kOff, "off"},
    {WalMode::kOn, "on"},
}};
constexpr std::array<std::pair<DbFileSystem, std::string_view>, 2> kFileSystems{{
    {DbFileSystem::kSeam, "kvbed"},
    {DbFileSystem::kPosix, "posix"},
}};
constexpr std::array<std::pair<DbChecksum, std::string_view>, 2> kChecksums{{
    {DbChecksum::kFast, "fast"},
    {DbChecksum::kStock, "stock"},
}};

std::vector<std::string_view> OptionsOf(StoreKind kind) {
  if (kind == StoreKind::kMemory) return {"iodepth", "capacity"};
  if (IsExternal(kind)) return {"iodepth", "timeout", "window", "manifests"};
  if (kind == StoreKind::kRocksDb) {
    return {"iodepth", "ioengine", "direct", "capacity", "layout", "wal", "fs", "crc"};
  }
  return {"iodepth", "ioengine", "direct", "capacity", "sync"};
}

std::vector<SyncMode> SyncModesOf(StoreKind kind) {
  if (kind == StoreKind::kFiles) {
    return {SyncMode::kFull, SyncMode::kNone, SyncMode::kCommit, SyncMode::kBlock};
  }
  if (kind == StoreKind::kRocksDb || IsExternal(kind)) return {SyncMode::kFull};
  return {SyncMode::kFull, SyncMode::kNone};
}

template <class Table>
std::vector<std::string_view> NamesOf(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& [value, name] : table) names.push_back(name);
  return names;
}

template <class Table, class Value>
std::string_view NameIn(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

// "store kind 'slap' is not one of slab, memory; did you mean 'slab'?"
Status UnknownName(std::string_view what, std::string_view text,
                   const std::vector<std::string_view>& known) {
  std::string message = fmt::format("{} '{}' is not one of {}", what, text, fmt::join(known, ", "));
  if (const std::string_view nearest = NearestName(text, known); !nearest.empty()) {
    message += fmt::format("; did you mean '{}'?", nearest);
  }
  return Status::InvalidArgument(std::move(message));
}

template <class Table>
auto ParseName(const Table& table, std::string_view what, std::string_view text)
    -> Result<typename Table::value_type::first_type> {
  for (const auto& [value, name] : table) {
    if (name == text) return value;
  }
  return UnknownName(what, text, NamesOf(table));
}

Result<std::string> DecodePath(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (text[i] == '&') {
        return Status::InvalidArgument(
            fmt::format("'&' in the path '{}' must be written as %26", text));
      }
      path += text[i];
      continue;
    }
    const auto byte = i + 2 < text.size() ? FromHex(text.substr(i + 1, 2)) : std::nullopt;
    if (!byte || byte->front() == '\0') {
      return Status::InvalidArgument(fmt::format(
          "'%' in the path '{}' is not followed by two hexadecimal digits of a byte above 0; "
          "a percent sign is written as %25",
          text));
    }
    path += byte->front();
    i += 2;
  }
  return path;
}

// A quote and control characters too, so that a spec between single quotes is one for a shell.
std::string EncodePath(std::string_view path) {
  std::string text;
  for (char c : path) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (std::string_view("?#&%'").find(c) == std::string_view::npos && !control) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

Result<uint32_t> ParseIodepth(std::string_view text) {
  uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value == 0 ||
      value > kIodepthMax) {
    return Status::InvalidArgument(fmt::format("iodepth '{}' is not 1 to {}", text, kIodepthMax));
  }
  return value;
}

// Seconds with at most three decimals.
Result<uint64_t> ParseTimeoutMs(std::string_view text) {
  double seconds = 0;
  const char* const stop = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), stop, seconds, std::chars_format::fixed);
  const bool number = parsed.ec == std::errc() && parsed.ptr == stop;
  const double ms = number && seconds > 0 && seconds <= 1e6 ? std::round(seconds * 1000) : 0;
  if (ms < 1 || ms > static_cast<double>(kTimeoutMsMax)) {
    return Status::InvalidArgument(fmt::format(
        "timeout '{}' is not a number of seconds from 0.001 to {}", text, kTimeoutMsMax / 1000));
  }
  return static_cast<uint64_t>(ms);
}

Result<uint64_t> ParseWindow(std::string_view text) {
  KVBED_ASSIGN_OR_RETURN(const uint64_t bytes, ParseByteSize(text, "window"));
  if (bytes > 0 && bytes <= kWindowBytesMax) return RoundUp(bytes, kPageBytes);
  return Status::InvalidArgument(fmt::format("window '{}' is not 1 byte to 1 TiB", text));
}

Result<std::string> ParseFolder(std::string_view key, std::string_view text) {
  if (!text.empty()) return std::string(text);
  return Status::InvalidArgument(fmt::format("{}= names no folder", key));
}

Status ParseOption(std::string_view key, std::string_view value, StoreSpec& spec) {
  const std::vector<std::string_view> known = OptionsOf(spec.kind);
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    if (spec.kind == StoreKind::kPlugin && !key.empty()) {
      for (const auto& [other, ignored] : spec.plugin_options) {
        if (other == key) {
          return Status::InvalidArgument(fmt::format("option '{}' is given twice", key));
        }
      }
      spec.plugin_options.emplace_back(key, value);
      return Status::Ok();
    }
    return UnknownName(fmt::format("option of a {} store", StoreKindName(spec.kind)), key, known);
  }
  const auto set = [&](auto& field, auto parsed) -> Status {
    if (!parsed.ok()) return parsed.status();
    if (field) return Status::InvalidArgument(fmt::format("option '{}' is given twice", key));
    field = *parsed;
    return Status::Ok();
  };
  if (key == "iodepth") return set(spec.iodepth, ParseIodepth(value));
  if (key == "ioengine") return set(spec.ioengine, ParseIoEngine(value));
  if (key == "direct") return set(spec.direct, ParseDirectMode(value));
  if (key == "capacity") return set(spec.capacity_bytes, ParseByteSize(value, "capacity"));
  if (key == "sync") return set(spec.sync, ParseSyncMode(value));
  if (key == "layout") return set(spec.layout, ParseName(kLayouts, "layout", value));
  if (key == "wal") return set(spec.wal, ParseName(kWalModes, "wal", value));
  if (key == "fs") return set(spec.fs, ParseName(kFileSystems, "fs", value));
  if (key == "timeout") return set(spec.timeout_ms, ParseTimeoutMs(value));
  if (key == "window") return set(spec.window_bytes, ParseWindow(value));
  if (key == "manifests") return set(spec.manifests, ParseFolder(key, value));
  return set(spec.crc, ParseName(kChecksums, "crc", value));
}

Status ParseOptions(std::string_view text, StoreSpec& spec) {
  while (true) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view option = text.substr(0, end);
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos) {
      return Status::InvalidArgument(fmt::format("option '{}' is not key=value", option));
    }
    std::string value(option.substr(equals + 1));
    if (spec.kind == StoreKind::kPlugin) {
      KVBED_ASSIGN_OR_RETURN(value, DecodePath(value));
    }
    KVBED_RETURN_IF_ERROR(ParseOption(option.substr(0, equals), value, spec));
    if (end == text.size()) return Status::Ok();
    text.remove_prefix(end + 1);
  }
}

// What is asked for by name and can't be had is refused; a command's defaults give way.
Status CheckFileSystem(const StoreSpec& spec) {
  if (spec.fs != DbFileSystem::kPosix || spec.layout == RecordLayout::kIndex) return Status::Ok();
  const bool direct = spec.direct == DirectMode::kRequired;
  if (!direct && spec.ioengine != IoEngine::kIoUring) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("fs=posix is RocksDB's own file system, buffered and without io_uring: leave {} "
                  "out",
                  direct ? "direct=required" : "ioengine=io_uring"));
}

bool IsOptionWord(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<ptrdiff_t>(equals),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// Options, the command, and a snapshot: `exec:timeout=5 python3 store.py --dir /x #s1`.
Result<StoreSpec> ParseExec(std::string_view text) {
  StoreSpec spec;
  spec.kind = StoreKind::kExec;
  KVBED_ASSIGN_OR_RETURN(std::vector<CommandWord> words, SplitCommand(text));
  size_t begin = 0;
  while (begin < words.size() && IsOptionWord(words[begin].text)) {
    const std::string& word = words[begin++].text;
    const size_t equals = word.find('=');
    KVBED_RETURN_IF_ERROR(ParseOption(word.substr(0, equals), word.substr(equals + 1), spec));
  }
  if (begin < words.size() && words.back().written.starts_with('#')) {
    spec.snapshot = words.back().text.substr(1);
    KVBED_RETURN_IF_ERROR(ValidateSnapshotName(spec.snapshot));
    words.pop_back();
  }
  if (begin == words.size()) {
    return Status::InvalidArgument("it names no command; write exec:COMMAND LINE");
  }
  for (size_t i = begin; i < words.size(); ++i) {
    spec.path += (i > begin ? " " : "") + QuoteWord(words[i].text);
  }
  KVBED_RETURN_IF_ERROR(CheckSettings(spec.kind, EffectiveSettings(spec, {})));
  return spec;
}

Result<StoreSpec> Parse(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos ||
      text.substr(0, colon).find('/') != std::string_view::npos) {
    return Status::InvalidArgument(
        fmt::format("it has no kind; write slab:PATH, rocksdb:PATH, files:PATH, memory:, "
                    "plugin:LIBRARY or exec:COMMAND"));
  }
  StoreSpec spec;
  KVBED_ASSIGN_OR_RETURN(spec.kind, ParseName(kKinds, "store kind", text.substr(0, colon)));
  text.remove_prefix(colon + 1);
  if (spec.kind == StoreKind::kExec) return ParseExec(text);

  if (const size_t hash = text.find('#'); hash != std::string_view::npos) {
    spec.snapshot = std::string(text.substr(hash + 1));
    KVBED_RETURN_IF_ERROR(ValidateSnapshotName(spec.snapshot));
    text = text.substr(0, hash);
  }
  if (const size_t question = text.find('?'); question != std::string_view::npos) {
    KVBED_RETURN_IF_ERROR(ParseOptions(text.substr(question + 1), spec));
    text = text.substr(0, question);
  }
  KVBED_ASSIGN_OR_RETURN(spec.path, DecodePath(text));
  if (spec.kind == StoreKind::kMemory && !spec.path.empty()) {
    return Status::InvalidArgument("a memory store has no path; write memory:");
  }
  if (spec.kind != StoreKind::kMemory && spec.path.empty()) {
    return Status::InvalidArgument(fmt::format(
        "it names no {}; write {}:PATH", spec.kind == StoreKind::kPlugin ? "library" : "folder",
        StoreKindName(spec.kind)));
  }
  KVBED_RETURN_IF_ERROR(CheckSettings(spec.kind, EffectiveSettings(spec, {})));
  KVBED_RETURN_IF_ERROR(CheckFileSystem(spec));
  return spec;
}

// "5", "0.25"
std::string SecondsText(uint64_t ms) {
  std::string text = fmt::format("{}.{:03}", ms / 1000, ms % 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string ExecText(const StoreSpec& spec) {
  std::string text = "exec:";
  const auto add = [&](std::string_view key, auto&& value) {
    text += fmt::format("{} ", QuoteWord(fmt::format("{}={}", key, value)));
  };
  if (spec.iodepth) add("iodepth", *spec.iodepth);
  if (spec.timeout_ms) add("timeout", SecondsText(*spec.timeout_ms));
  if (spec.window_bytes) add("window", *spec.window_bytes);
  if (spec.manifests) add("manifests", *spec.manifests);
  text += spec.path;
  if (!spec.snapshot.empty()) text += " #" + spec.snapshot;
  return text;
}

}  // namespace

std::string_view StoreKindName(StoreKind kind) { return NameIn(kKinds, kind); }
std::string_view DirectModeName(DirectMode mode) { return NameIn(kDirectModes, mode); }
std::string_view SyncModeName(SyncMode mode) { return NameIn(kSyncModes, mode); }

std::string_view RecordLayoutName(RecordLayout layout) { return NameIn(kLayouts, layout); }

Result<DirectMode> ParseDirectMode(std::string_view name) {
  return ParseName(kDirectModes, "direct", name);
}
Result<SyncMode> ParseSyncMode(std::string_view name) {
  return ParseName(kSyncModes, "sync", name);
}

StoreSettings EffectiveSettings(const StoreSpec& spec, const StoreSettings& defaults) {
  return {.iodepth = spec.iodepth.value_or(defaults.iodepth),
          .ioengine = spec.ioengine.value_or(defaults.ioengine),
          .direct = spec.direct.value_or(defaults.direct),
          .capacity_bytes = spec.capacity_bytes.value_or(defaults.capacity_bytes),
          .sync = spec.sync.value_or(defaults.sync),
          .layout = spec.layout ? spec.layout : defaults.layout,
          .wal = spec.wal.value_or(defaults.wal),
          .fs = spec.fs.value_or(defaults.fs),
          .crc = spec.crc.value_or(defaults.crc),
          .timeout_ms = spec.timeout_ms.value_or(defaults.timeout_ms),
          .window_bytes = spec.window_bytes.value_or(defaults.window_bytes),
          .manifests = spec.manifests.value_or(defaults.manifests)};
}

Status CheckSettings(StoreKind kind, const StoreSettings& settings) {
  const std::vector<SyncMode> modes = SyncModesOf(kind);
  if (std::find(modes.begin(), modes.end(), settings.sync) != modes.end()) return Status::Ok();
  std::vector<std::string_view> names;
  for (const SyncMode mode : modes) names.push_back(SyncModeName(mode));
  return Status::InvalidArgument(fmt::format("sync={} is not one of a {} store's: {}",
                                             SyncModeName(settings.sync), StoreKindName(kind),
                                             fmt::join(names, ", ")));
}

Result<StoreSpec> ParseStoreSpec(std::string_view text) {
  auto spec = Parse(text);
  if (spec.ok()) return spec;
  const std::string_view grammar = text.starts_with("exec:") ? kExecGrammar : kGrammar;
  return spec.status().WithContext(fmt::format("store '{}' ({})", text, grammar));
}

std::string StoreSpec::ToString() const {
  if (kind == StoreKind::kExec) return ExecText(*this);
  std::string text = fmt::format("{}:{}", StoreKindName(kind), EncodePath(path));
  char separator = '?';
  const auto add = [&](std::string_view key, auto&& value) {
    text += fmt::format("{}{}={}", std::exchange(separator, '&'), key, value);
  };
  if (iodepth) add("iodepth", *iodepth);
  if (ioengine) add("ioengine", IoEngineName(*ioengine));
  if (direct) add("direct", DirectModeName(*direct));
  if (capacity_bytes) add("capacity", *capacity_bytes);
  if (sync) add("sync", SyncModeName(*sync));
  if (layout) add("layout", RecordLayoutName(*layout));
  if (wal) add("wal", NameIn(kWalModes, *wal));
  if (fs) add("fs", NameIn(kFileSystems, *fs));
  if (crc) add("crc", NameIn(kChecksums, *crc));
  if (timeout_ms) add("timeout", SecondsText(*timeout_ms));
  if (window_bytes) add("window", *window_bytes);
  if (manifests) add("manifests", EncodePath(*manifests));
  for (const auto& [key, value] : plugin_options) add(key, EncodePath(value));
  if (!snapshot.empty()) text += '#' + snapshot;
  return text;
}

}  // namespace kvbed
