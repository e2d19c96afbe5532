#include "tools/diff/block_table.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "engine/model/mapped_file.h"

namespace kvbed {
namespace {

// 16 Mi blocks in decimal, with room to spare.
constexpr uint64_t kTableBytesMax = uint64_t{256} << 20;

bool IsSeparator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

Result<std::vector<uint64_t>> ParseNumbers(std::string_view text) {
  std::vector<uint64_t> blocks;
  bool ended = false;
  for (size_t at = 0; at < text.size();) {
    if (IsSeparator(text[at])) {
      ++at;
      continue;
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    const auto stop = static_cast<size_t>(end - text.data());
    if (error != std::errc() || (stop < text.size() && !IsSeparator(text[stop]))) {
      return Status::Corruption(fmt::format("byte {} begins no block number", at));
    }
    if (ended && number >= 0) {
      return Status::Corruption(
          fmt::format("block {} stands behind a number below 0, which ends the table", number));
    }
    ended = number < 0;
    if (!ended) blocks.push_back(static_cast<uint64_t>(number));
    at = stop;
  }
  if (blocks.empty()) return Status::Corruption("it holds no block number");
  return blocks;
}

// Without the brackets of one list, or of a list in a list.
Result<std::string_view> InsideBrackets(std::string_view text) {
  for (int depth = 0; depth < 2; ++depth) {
    while (!text.empty() && IsSeparator(text.front())) text.remove_prefix(1);
    while (!text.empty() && IsSeparator(text.back())) text.remove_suffix(1);
    if (!text.starts_with('[')) break;
    if (!text.ends_with(']')) return Status::Corruption("its list has no end");
    text = text.substr(1, text.size() - 2);
  }
  if (text.find('[') == text.npos) return text;
  return Status::Corruption("it holds more than one list: give the row of the sequence to compare");
}

}  // namespace

Result<std::vector<uint64_t>> ReadBlockTable(const std::string& value) {
  if (value.empty()) return Status::InvalidArgument("--block-table needs numbers or a file");
  if (value.find_first_not_of("0123456789,-") == value.npos) {
    auto blocks = ParseNumbers(value);
    if (blocks.ok()) return blocks;
    return Status::InvalidArgument(
        fmt::format("--block-table {}: {}", value, blocks.status().message()));
  }
  KVBED_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(value));
  if (file.bytes().size() > kTableBytesMax) {
    return Status::Corruption(
        fmt::format("{} has {} bytes: too long for a block table", value, file.bytes().size()));
  }
  const auto numbers = InsideBrackets(AsText(file.bytes()));
  if (!numbers.ok()) return numbers.status().WithContext("block table " + value);
  auto blocks = ParseNumbers(*numbers);
  if (!blocks.ok()) return blocks.status().WithContext("block table " + value);
  return blocks;
}

}  // namespace kvbed
