// Reads the expected values in tests/golden/engine, which were made by other software
// (transformers and numpy). It doesn't know the engine.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbed {

inline std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(KVBED_GOLDEN_DIR "/engine/") + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline nlohmann::json GoldenJson(const std::string& name) {
  return nlohmann::json::parse(ReadGolden(name));
}

// The numbers of a version 1 .npy file of little-endian float32 in C order (numpy.lib.format).
inline std::vector<float> GoldenNpy(const std::string& name) {
  const std::string bytes = ReadGolden(name);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8)) << name;
  const size_t header_length =
      static_cast<unsigned char>(bytes.at(8)) + 256u * static_cast<unsigned char>(bytes.at(9));
  const std::string header = bytes.substr(10, header_length);
  EXPECT_NE(header.find("'<f4'"), std::string::npos) << header;
  EXPECT_NE(header.find("'fortran_order': False"), std::string::npos) << header;
  std::vector<float> values((bytes.size() - 10 - header_length) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + 10 + header_length, values.size() * sizeof(float));
  return values;
}

}  // namespace kvbed
