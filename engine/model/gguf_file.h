// Parses a GGUF file, version 2 or 3: its metadata and tensors, without copying either.
// It doesn't know models; keys and tensor names mean nothing here.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/stored_type.h"
#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct GgufValue {
  GgufType type = GgufType::kU8;
  // A scalar's bytes, a string's characters, or an array's elements one after the other (strings
  // each with their 8-byte length before them).
  Bytes bytes;
  GgufType element_type = GgufType::kU8;  // of an array
  uint64_t count = 0;                     // of an array
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims;  // as in the file: the fastest first, [columns, rows]
  StoredType type = StoredType::kF32;
  Bytes data;
};

class GgufFile {
 public:
  // `file` is the whole file and must outlive the result. Messages don't name the file. Corruption
  // for a malformed one; not supported for another version, byte order or tensor type.
  static Result<GgufFile> Parse(Bytes file);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Null when the key is absent.
  const GgufValue* Find(std::string_view key) const;
  // Nullopt when the key is absent; corruption, naming the key, when the value is of another
  // type or range. Any integer type will do for a whole number.
  Result<std::optional<uint64_t>> WholeNumber(std::string_view key) const;
  Result<std::optional<double>> Number(std::string_view key) const;
  Result<std::optional<bool>> Flag(std::string_view key) const;
  Result<std::optional<std::string_view>> Text(std::string_view key) const;
  // Empty when the key is absent.
  Result<std::vector<std::string_view>> Texts(std::string_view key) const;
  Result<std::vector<int64_t>> WholeNumbers(std::string_view key) const;

  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }

 private:
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace kvbed
