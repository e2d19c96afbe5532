// A temporary folder that goes with the test. It lies under the build folder and not in /tmp,
// which may be a tmpfs, where direct I/O means nothing.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvbed {

class TempDir {
 public:
  TempDir() {
    std::filesystem::create_directories(KVBED_TEST_TEMP_ROOT);
    path_ = KVBED_TEST_TEMP_ROOT "/test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      ADD_FAILURE() << "can't make a folder in " KVBED_TEST_TEMP_ROOT;
    }
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace kvbed
