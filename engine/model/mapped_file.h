// A regular file mapped read-only into memory.
// It doesn't know what is in it. Whoever truncates the file while it is mapped kills the process
// with SIGBUS, as with any mapping: model files must not be written in place while in use.
#pragma once

#include <string>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

class MappedFile {
 public:
  // Not found, an I/O error, or invalid argument for what is no regular file. An empty file maps to
  // no bytes. `path` is kept for messages.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid while this object, or the one it was moved into, lives.
  Bytes bytes() const { return {static_cast<const std::byte*>(address_), size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, void* address, size_t size);

  std::string path_;
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvbed
