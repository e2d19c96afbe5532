#include "tools/version.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <xxhash.h>

namespace kvbed {
namespace {

std::string XxHashVersion() {
  const unsigned version = XXH_versionNumber();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string FmtVersion() {
  return fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

}  // namespace

std::string VersionNumber() { return KVBED_VERSION; }

std::vector<std::pair<std::string, std::string>> LibraryVersions() {
  return {
      {"libtorch", KVBED_LIBTORCH_VERSION},
      {"liburing", KVBED_LIBURING_VERSION},
      {"RocksDB", KVBED_ROCKSDB_VERSION},
      {"xxHash", XxHashVersion()},
      {"PCRE2", KVBED_PCRE2_VERSION},
      {"fmt", FmtVersion()},
      {"nlohmann-json", KVBED_NLOHMANN_JSON_VERSION},
      {"CLI11", KVBED_CLI11_VERSION},
      {"Chart.js", KVBED_CHARTJS_VERSION},
  };
}

std::string KernelVersion() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine)
                             : "unknown";
}

std::string VersionText() {
  const std::string commit = GitCommit();
  std::string text = fmt::format("kvbed {} ({})", VersionNumber(),
                                 commit.empty() ? "not built from git" : "commit " + commit);
  for (const auto& [library, version] : LibraryVersions()) {
    text += fmt::format("\n  {:<14} {}", library, version.empty() ? "none in this build" : version);
  }
  return text + fmt::format("\n  {:<14} {}", "kernel", KernelVersion());
}

}  // namespace kvbed
