// `kvbed plugin-host LIBRARY [KEY=VALUE ...]`, which kvbed runs for each plug-in: loads the library
// (backends/store_plugin.h) and serves it over docs/store-protocol.md on the standard streams.
// Nobody else is to call it, so it is in no --help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvbed {

inline constexpr std::string_view kPluginHostCommand = "plugin-host";

// Returns the exit code when the standard input ends, or after the close verb.
int HostPlugin(const std::string& library, const std::vector<std::string>& options);

}  // namespace kvbed
