// What kvbed this is and which libraries it runs with.
#pragma once

#include <string>

namespace kvbed {

// "0.1.0"
std::string VersionNumber();
// The text of --version: kvbed's version and git commit, then one library a line.
std::string VersionText();
// The commit it was built from, with "-dirty" when the tree differed; empty when not built in git.
std::string GitCommit();

}  // namespace kvbed
