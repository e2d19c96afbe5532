#include <algorithm>

#include "backends/record_path.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {
namespace {

// Three names below the store's folder of records, none of which leads anywhere else.
void CheckStaysBelow(const RecordId& id) {
  const std::string path = RecordPath(id);
  KVBED_CHECK(path.starts_with(RecordFolder(id.key) + "/"));
  KVBED_CHECK(std::count(path.begin(), path.end(), '/') == 2);
  KVBED_CHECK(path.find("..") == std::string::npos && path.find('\0') == std::string::npos);
  KVBED_CHECK(path.front() != '/' && path.front() != '.');
}

}  // namespace

bool FuzzRecordPath(Bytes input) {
  if (input.size() >= kRecordIdBytes) CheckStaysBelow(RecordId::Decode(input));
  const std::string_view text = AsText(input);
  const size_t first = text.find('/'), second = text.find('/', first + 1);
  if (second == std::string_view::npos) return false;
  const auto id = RecordAtPath(text.substr(0, first), text.substr(first + 1, second - first - 1),
                               text.substr(second + 1));
  if (!id) return false;
  CheckStaysBelow(*id);
  KVBED_CHECK(RecordPath(*id) == text);
  return true;
}

}  // namespace kvbed
