// What kvbed this is and which libraries it runs with.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kvbed {

// "0.1.0"
std::string VersionNumber();
// The text of --version: kvbed's version and git commit, then one library a line.
std::string VersionText();
// The commit it was built from, with "-dirty" when the tree differed; empty when not built in git.
// Defined in a file that each build writes (cmake/GitCommit.cmake).
std::string GitCommit();
// Name and version of each library; an empty version is one that this build lacks.
std::vector<std::pair<std::string, std::string>> LibraryVersions();
// "Linux 6.1.0 x86_64": what runs now.
std::string KernelVersion();

}  // namespace kvbed
