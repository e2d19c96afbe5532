// Rows of results from a file of them, as -o jsonl, -o json, --json and --out write it: an object a
// line, or one list of objects. It knows nothing of what a row says.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"
#include "tools/result_json.h"

namespace kvbed {

// More are no rows of benchmarks.
inline constexpr uint64_t kRowFileBytesMax = 64 << 20;
inline constexpr uint64_t kRowLineBytesMax = 2 << 20;

struct RowPlace {
  uint64_t line = 1;    // all rows of a list are of the first one
  uint64_t number = 0;  // in a list, from 1 on; 0 in a file of lines

  // "line 3", "row 2"
  std::string ToString() const;
};

// What one file leaves out: each reason once, with the first places that have it.
class LeftOutRows {
 public:
  explicit LeftOutRows(std::string file) : file_(std::move(file)) {}

  void Add(const RowPlace& place, const std::string& why);
  // "rows.jsonl line 7: ...; left out", one for each reason, the first 20 of them.
  std::vector<std::string> Texts() const;

 private:
  struct Note {
    std::string why;
    std::vector<RowPlace> first;
    uint64_t places = 0;
  };
  std::string Text(const Note& note) const;

  std::string file_;
  std::vector<Note> notes_;
};

// A regular file's text or a pipe's. Not found, an I/O error, or corruption when it is larger than
// files of rows may be.
Result<std::string> ReadRowFile(const std::string& path);

// Hands on each object. What is none, is too long, or has too many values to be a row is left out.
// The first error of `take` ends it and is returned.
using TakeFileRow = std::function<Status(const RowPlace& place, Json row)>;
Status ForEachRow(std::string_view text, LeftOutRows& left_out, const TakeFileRow& take);

}  // namespace kvbed
