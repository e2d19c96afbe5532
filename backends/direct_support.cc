#include "backends/direct_support.h"

#include <fmt/format.h>

#include <utility>

#include "backends/direct_io.h"
#include "backends/store_identity.h"
#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

Status ReadProbe(Io& io, const std::string& path) {
  KVBED_ASSIGN_OR_RETURN(const File file, io.Open(path, {.direct = true}));
  if (file.alignment_bytes() > kPageBytes) {
    return Status::NotSupported(
        fmt::format("{}: direct I/O here needs an alignment of {} bytes, records have {}", path,
                    file.alignment_bytes(), kPageBytes));
  }
  KVBED_ASSIGN_OR_RETURN(AlignedBuffer page, AlignedBuffer::Allocate(kPageBytes));
  KVBED_ASSIGN_OR_RETURN(auto queue, io.OpenQueue({.iodepth = 1, .synchronous = true}));
  IoRequest read{.op = IoOp::kRead, .file = &file, .offset = 0, .buffer = page.bytes()};
  return MoveAlone(*queue, read);
}

Status Probe(Io& io, const std::string& directory, bool write) {
  if (write) {
    const auto probe = ProbeDirect(io, directory);
    if (probe.ok() && probe->alignment_bytes > kPageBytes) {
      return Status::NotSupported(
          fmt::format("direct I/O needs an alignment of {} bytes, records have {}",
                      probe->alignment_bytes, kPageBytes));
    }
    if (probe.ok() || probe.status().code() != StatusCode::kOutOfSpace) {
      return probe.ok() ? Status::Ok() : probe.status();
    }
  }
  return ReadProbe(io, directory + "/" + std::string(kIdentityFileName));
}

}  // namespace

Result<DirectSupport> FindDirectSupport(Io& io, const std::string& directory, DirectMode mode,
                                        bool write) {
  DirectSupport support;
  KVBED_ASSIGN_OR_RETURN(support.filesystem, FilesystemType(directory));
  if (mode == DirectMode::kOff) {
    support.reason = "direct=off";
    return support;
  }
  const Status probe = Probe(io, directory, write);
  support.direct = probe.ok();
  if (probe.ok()) {
    if (support.filesystem == "tmpfs") {
      support.reason = "tmpfs takes the flag and keeps files in memory";
    }
    return support;
  }
  if (mode == DirectMode::kOptional) {
    support.reason = probe.message();
    return support;
  }
  return Status(probe.code(),
                fmt::format("direct I/O is required and can't be had in {} ({}): {}; use another "
                            "filesystem, or direct=optional to go through the page cache",
                            directory, support.filesystem, probe.message()));
}

}  // namespace kvbed
