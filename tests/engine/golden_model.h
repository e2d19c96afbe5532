// Where the model files in tests/golden/model lie, and their bytes.
// It doesn't know what is in them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvbed {

inline std::string GoldenModelPath(std::string_view name) {
  return std::string(KVBED_GOLDEN_DIR "/model/") + std::string(name);
}

inline std::string ReadFileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFileBytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

inline std::string ReadGoldenModel(std::string_view name) {
  return ReadFileBytes(GoldenModelPath(name));
}

inline nlohmann::json ReadGoldenModelJson(std::string_view name) {
  return nlohmann::json::parse(ReadGoldenModel(name));
}

}  // namespace kvbed
