// Bytes written for a token, and the tokens that a drive's rating buys.
#include "tools/bench/endurance.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(Endurance, IsWhatTheDeviceWritesForAToken) {
  const Json out =
      EnduranceJson({.stored_bytes_per_token = 100'000, .write_amplification = 1.25, .tbw = 600});
  EXPECT_EQ(out["bytes_per_token"], 125'000);
  EXPECT_EQ(out["tbw_bytes"], 600'000'000'000'000u);
  EXPECT_EQ(out["tbw_tokens"], 4'800'000'000u);
}

TEST(Endurance, IsNotKnownWithoutTheDevicesCounters) {
  const Json out = EnduranceJson(
      {.stored_bytes_per_token = 100'000, .no_amplification_reason = "tmpfs", .tbw = 600});
  EXPECT_EQ(out["stored_bytes_per_token"], 100'000);
  for (const char* name : {"bytes_per_token", "write_amplification", "tbw_tokens"}) {
    EXPECT_EQ(out[name], nullptr) << name;
    EXPECT_EQ(out[std::string(name) + "_reason"], "tmpfs") << name;
  }
}

TEST(Endurance, IsNotKnownWhereTheDeviceCountedNothing) {
  const Json out =
      EnduranceJson({.stored_bytes_per_token = 100'000, .write_amplification = 0, .tbw = 1e6});
  EXPECT_EQ(out["tbw_bytes"], 1'000'000'000'000'000'000u);
  EXPECT_EQ(out["tbw_tokens"], nullptr);
  EXPECT_EQ(out["tbw_tokens_reason"], "the device counted no writes");
}

TEST(Endurance, NeedsARatingForItsTokens) {
  const Json out = EnduranceJson({.stored_bytes_per_token = 100'000, .write_amplification = 1});
  EXPECT_EQ(out["tbw_tokens"], nullptr);
  EXPECT_NE(out["tbw_tokens_reason"].get<std::string>().find("--tbw"), std::string::npos);
}

}  // namespace
}  // namespace kvbed
