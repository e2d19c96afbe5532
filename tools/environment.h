// The machine that a result was measured on, as one object of a result file.
// What can't be read is absent, with the reason; nothing is guessed. It measures nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/block_device.h"
#include "tools/result_json.h"

namespace kvbed {

// A value, or why there is none.
template <class T>
struct Known {
  std::optional<T> value;
  std::string reason;
};

struct EnvironmentQuery {
  std::string path;  // of the store; empty: no filesystem or disk is asked about
  std::optional<uint64_t> huge_page_bytes;  // that the pool obtained
  uint64_t seed = 0;
  std::optional<std::string> model_fingerprint;
};

struct Environment {
  std::string cpu;
  std::vector<std::string> cpu_features;
  Known<uint64_t> cores;
  Known<uint64_t> sockets;
  uint64_t cpus_online = 0;
  uint64_t cpus_usable = 0;  // that this process may run on
  Known<uint64_t> numa_nodes;
  Known<uint64_t> memory_bytes;
  Known<uint64_t> memory_available_bytes;
  std::string kernel;
  Known<std::string> os;
  Known<std::string> fs_type;
  Known<std::string> mount_point;
  Known<std::string> mount_options;
  Known<uint64_t> free_bytes;
  std::vector<DiskDescription> block_devices;
  std::string block_devices_reason;  // why there is none
  Known<std::string> container;      // "no", "docker", ...
  Known<std::string> vm;             // "no", or what the hypervisor calls itself
  Known<std::string> governor;
  Known<std::string> transparent_huge_pages;
  Known<uint64_t> huge_page_bytes;  // obtained
  std::vector<std::pair<std::string, std::string>> libraries;
  Known<std::string> git_commit;
  std::vector<std::string> command_line;
  uint64_t seed = 0;
  Known<std::string> model_fingerprint;
  Known<std::string> ld_preload;
};

Environment ReadEnvironment(const EnvironmentQuery& query, const SystemRoots& roots = {});
Json EnvironmentJson(const Environment& environment);

}  // namespace kvbed
