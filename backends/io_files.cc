#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "backends/io.h"

namespace kvbed {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr size_t kRandomDigits = 16;

std::string DirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

// Moves all of `buffer` with a queue of its own, by plain system calls.
Status MoveWhole(Io& io, IoOp op, const File& file, MutableBytes buffer) {
  KVBED_ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue,
                         io.OpenQueue({.iodepth = 1, .synchronous = true}));
  IoRequest request{.op = op, .file = &file, .buffer = buffer};
  return MoveAlone(*queue, request);
}

Status WriteAndSync(Io& io, const std::string& path, Bytes contents) {
  KVBED_ASSIGN_OR_RETURN(const File file,
                         io.Open(path, {.write = true, .create = true, .exclusive = true}));
  // A write only reads its buffer.
  const MutableBytes buffer(const_cast<std::byte*>(contents.data()), contents.size());
  KVBED_RETURN_IF_ERROR(MoveWhole(io, IoOp::kWrite, file, buffer));
  return io.SyncFile(file);
}

bool OnlyOf(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

std::string TemporaryPath(const std::string& path) {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return fmt::format("{}.{}-{:0{}x}{}", path, ::getpid(), number, kRandomDigits, kTemporarySuffix);
}

bool IsTemporaryPath(std::string_view path) {
  if (!path.ends_with(kTemporarySuffix)) return false;
  path.remove_suffix(kTemporarySuffix.size());
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view tag = path.substr(dot + 1);
  const size_t dash = tag.find('-');
  return dash != std::string_view::npos && OnlyOf(tag.substr(0, dash), "0123456789") &&
         tag.size() - dash - 1 == kRandomDigits && OnlyOf(tag.substr(dash + 1), "0123456789abcdef");
}

Result<std::string> ReadFile(Io& io, const std::string& path, uint64_t size_max_bytes) {
  KVBED_ASSIGN_OR_RETURN(const File file, io.Open(path, {}));
  KVBED_ASSIGN_OR_RETURN(const uint64_t size_bytes, io.FileSize(file));
  if (size_bytes > size_max_bytes) {
    return Status::Corruption(
        fmt::format("{} has {} bytes; at most {} make sense", path, size_bytes, size_max_bytes));
  }
  std::string contents(size_bytes, '\0');
  const MutableBytes buffer(reinterpret_cast<std::byte*>(contents.data()), contents.size());
  const Status status = MoveWhole(io, IoOp::kRead, file, buffer);
  if (status.code() == StatusCode::kNotFound) {
    return Status::IoError(
        fmt::format("{}; it became shorter while it was read", status.message()));
  }
  KVBED_RETURN_IF_ERROR(status);
  return contents;
}

Status PublishFile(Io& io, const std::string& path, Bytes contents, RenameMode mode) {
  const std::string temporary = TemporaryPath(path);
  Status status = WriteAndSync(io, temporary, contents);
  if (status.ok()) status = io.Rename(temporary, path, mode);
  if (!status.ok()) {
    io.Unlink(temporary).IgnoreError();
    return status.WithContext(fmt::format("publish {}", path));
  }
  return io.SyncDirectory(DirectoryOf(path))
      .WithContext(fmt::format("{} is published, but a power cut may take it back", path));
}

}  // namespace kvbed
