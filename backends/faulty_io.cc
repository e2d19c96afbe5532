#include "backends/faulty_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

namespace kvbed {
namespace {

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class FaultyIo final : public Io {
 public:
  FaultyIo(std::unique_ptr<Io> base, FaultDevice& device)
      : base_(std::move(base)), device_(device) {}

  Result<File> Open(const std::string& path, const OpenOptions& options) override {
    std::error_code ignored;
    const bool creates = options.create && !std::filesystem::exists(path, ignored);
    const std::string line = fmt::format("{} {}", creates ? "create" : "open", NameOf(path));
    return Play(FaultTarget::kOpen, line, "open " + path, [&] {
      Result<File> file = base_->Open(path, options);
      if (file.ok() && creates) device_.Note([&](UnsyncedLog& log) { log.Created(path); });
      return file;
    });
  }

  Result<uint64_t> FileSize(const File& file) override {
    return Play(FaultTarget::kAny, "", "fstat " + file.path(),
                [&] { return base_->FileSize(file); });
  }

  Status Preallocate(const File& file, uint64_t size_bytes) override {
    const Result<uint64_t> size_before = base_->FileSize(file);  // it never shrinks
    KVBED_RETURN_IF_ERROR(size_before.status());
    return Resize("preallocate", file, size_bytes, std::max(size_bytes, *size_before),
                  [&] { return base_->Preallocate(file, size_bytes); });
  }

  Status Truncate(const File& file, uint64_t size_bytes) override {
    return Resize("truncate", file, size_bytes, size_bytes,
                  [&] { return base_->Truncate(file, size_bytes); });
  }

  Status SyncFile(const File& file) override {
    uint64_t ticket = 0;
    device_.Note([&](UnsyncedLog& log) { ticket = log.SyncBegins(file); });
    const Status status =
        Play(FaultTarget::kSync, "fsync " + NameOf(file.path()), "fsync " + file.path(),
             [&] { return device_.syncs() ? base_->SyncFile(file) : Status::Ok(); });
    device_.Note([&](UnsyncedLog& log) { log.SyncEnds(ticket, status.ok()); });
    return status;
  }

  Status Rename(const std::string& from, const std::string& to, RenameMode mode) override {
    return Play(
        FaultTarget::kRename, fmt::format("rename {} -> {}", NameOf(from), NameOf(to)),
        fmt::format("rename {} to {}", from, to), [&]() -> Status {
          KVBED_ASSIGN_OR_RETURN(HeldFile replaced, UnsyncedLog::Holding(to));
          KVBED_RETURN_IF_ERROR(base_->Rename(from, to, mode));
          device_.Note([&](UnsyncedLog& log) { log.Renamed(from, to, std::move(replaced)); });
          return Status::Ok();
        });
  }

  Status Unlink(const std::string& path) override {
    return Play(FaultTarget::kUnlink, "unlink " + NameOf(path), "unlink " + path, [&]() -> Status {
      KVBED_ASSIGN_OR_RETURN(HeldFile removed, UnsyncedLog::Holding(path));
      KVBED_RETURN_IF_ERROR(base_->Unlink(path));
      device_.Note([&](UnsyncedLog& log) { log.Unlinked(path, std::move(removed)); });
      return Status::Ok();
    });
  }

  Status MakeDirectories(const std::string& path) override {
    return Play(FaultTarget::kAny, "mkdir " + NameOf(path), "mkdir " + path,
                [&] { return base_->MakeDirectories(path); });
  }

  Status RemoveDirectory(const std::string& path) override {
    return Play(FaultTarget::kAny, "rmdir " + NameOf(path), "rmdir " + path,
                [&] { return base_->RemoveDirectory(path); });
  }

  Status SyncDirectory(const std::string& path) override {
    const Status status =
        Play(FaultTarget::kSync, "sync_dir " + NameOf(path), "fsync directory " + path,
             [&] { return device_.syncs() ? base_->SyncDirectory(path) : Status::Ok(); });
    device_.Note([&](UnsyncedLog& log) { log.DirectorySynced(path, status.ok()); });
    return status;
  }

  Result<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return Play(FaultTarget::kAny, "", "list " + path, [&] { return base_->List(path); });
  }

  Result<std::unique_ptr<IoQueue>> OpenQueue(const IoQueueOptions& options) override {
    KVBED_CHECK(options.faults == nullptr);  // one device decides, not two
    return Play(FaultTarget::kAny, "", "open a queue", [&] {
      IoQueueOptions faulty = options;
      faulty.faults = &device_;
      return base_->OpenQueue(faulty);
    });
  }

 private:
  template <class Call>
  auto Play(FaultTarget target, const std::string& line, const std::string& operation, Call call)
      -> decltype(call()) {
    if (const int error = device_.Enter(target, line); error != 0) {
      return StatusFromErrno(error, operation + " (injected)");
    }
    auto outcome = call();
    device_.Leave(line, outcome.ok());
    return outcome;
  }

  template <class Call>
  Status Resize(std::string_view verb, const File& file, uint64_t asked_bytes, uint64_t size_after,
                Call call) {
    const std::string line = fmt::format("{} {} {}", verb, NameOf(file.path()), asked_bytes);
    return Play(
        FaultTarget::kAllocate, line, fmt::format("{} {}", verb, file.path()), [&]() -> Status {
          Result<uint64_t> ticket = uint64_t{0};
          device_.Note([&](UnsyncedLog& log) { ticket = log.ResizeBegins(file, size_after); });
          KVBED_RETURN_IF_ERROR(ticket.status());
          const Status status = call();
          device_.Note([&](UnsyncedLog& log) { log.ChangeEnds(*ticket, status.ok()); });
          return status;
        });
  }

  std::unique_ptr<Io> base_;
  FaultDevice& device_;
};

}  // namespace

std::unique_ptr<Io> MakeFaultyIo(std::unique_ptr<Io> base, FaultDevice& device) {
  return std::make_unique<FaultyIo>(std::move(base), device);
}

}  // namespace kvbed
