// A KV dump in a file, mapped and never read whole: safetensors, or raw elements of a given shape.
// It gives the K and V in it as a KvDump; which engine wrote them is in the options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/mapped_file.h"
#include "offload/status.h"
#include "verify/kv_dump.h"

namespace kvbed {

// How a file is to be read. What isn't given is found out where the file says it.
struct DumpOptions {
  std::optional<std::string> key_pattern;
  std::optional<std::string> layout;
  std::optional<std::string> block_table;      // as ReadBlockTable takes it
  std::optional<std::vector<uint64_t>> shape;  // then the file is raw
  KvElement element = KvElement::kBf16;        // of a raw file
  std::optional<uint64_t> kv_heads;            // where they share a dimension: (HD)
  std::optional<uint64_t> block_tokens;        // where they do: (NT)
  std::optional<uint64_t> tokens;              // that are compared: the rest needn't be right
};

// What was found out, for the report.
struct DumpDescription {
  std::string format;   // "safetensors", "raw"
  std::string pattern;  // empty for raw
  std::string layout;
  std::vector<uint64_t> tensor_shape;
  std::vector<std::string> not_compared;  // tensors that the pattern doesn't match
};

class DumpFile {
 public:
  // Invalid argument for options that don't fit each other or the file; what is wrong with the file
  // otherwise (corruption, not supported, not found, I/O error). Messages name the file.
  static Result<DumpFile> Open(const std::string& path, const DumpOptions& options);

  // Borrowed from this object, also after it was moved.
  const KvDump& dump() const { return dump_; }
  const DumpDescription& description() const { return description_; }

 private:
  struct Tensors;
  explicit DumpFile(MappedFile file) : file_(std::move(file)) {}
  Status ReadSafetensors(const DumpOptions& options);
  Status ReadRaw(const DumpOptions& options);
  Status Place(const Tensors& tensors, const DumpOptions& options);

  MappedFile file_;
  std::vector<uint64_t> block_table_;
  KvDump dump_;
  DumpDescription description_;
};

}  // namespace kvbed
