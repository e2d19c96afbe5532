// The files that a command writes its results to. Each is looked at before the work, so that no
// result is lost to a misspelt folder, and written whole after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"

namespace kvbed {

enum class OutputKind {
  kAny,      // also a device or a pipe, as in --json /dev/stdout
  kRegular,  // to be read again
};

// What no output may take the place of: files, and folders with all that is in them. Empty texts
// count for nothing.
using KeptPlaces = std::vector<std::string>;

// Before the work: can a file be put at `path`? `option` is the one that named it. A usage error
// for an empty name, "-", a folder, a place that is or lies in one of `kept`, and one in any store;
// not found for a folder that isn't there; an I/O error where nothing may be written.
Status CheckOutputFile(std::string_view option, const std::string& path, OutputKind kind,
                       const KeptPlaces& kept);

// The old file or the new one, whole, also after a power cut. A symbolic link stays one: what it
// points to is replaced. Written in place: devices and pipes, and a file in a folder that nothing
// can be made in. Mode 0644.
Status ReplaceFile(const std::string& path, std::string_view text);

// Adds to the file, which is made when missing.
Status AppendToFile(const std::string& path, std::string_view text);

}  // namespace kvbed
