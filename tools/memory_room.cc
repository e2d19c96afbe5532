#include "tools/memory_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/block_device.h"
#include "tools/system_text.h"

namespace kvbed {

std::optional<uint64_t> AvailableMemoryBytes() {
  auto bytes = MemInfoBytes(ReadSystemFile("/proc/meminfo").value_or(""), "MemAvailable");
  // Of a container, which sees its own control group as the root (cgroups(7), version 2).
  const auto limit = WholeNumber(Trimmed(ReadSystemFile("/sys/fs/cgroup/memory.max").value_or("")));
  if (bytes && limit) bytes = std::min(*bytes, *limit);
  return bytes;
}

Status CheckMemoryFor(uint64_t count, uint64_t bytes_each, std::string_view what) {
  const auto available_bytes = AvailableMemoryBytes();
  // Divided, so that no product wraps round.
  if (!available_bytes || count <= *available_bytes / 10 * 9 / std::max<uint64_t>(bytes_each, 1)) {
    return Status::Ok();
  }
  return Status::OutOfSpace(
      fmt::format("{} need about {:.1f} GiB of memory, and {:.1f} GiB are available: take fewer "
                  "tokens",
                  what, static_cast<double>(count) * static_cast<double>(bytes_each) / (1 << 30),
                  static_cast<double>(*available_bytes) / (1 << 30)));
}

}  // namespace kvbed
