#include "backends/nearest_name.h"

#include <gtest/gtest.h>

namespace kvbed {
namespace {

TEST(NearestName, ForgivesOneSlipOfTheFingers) {
  const std::vector<std::string_view> commands = {"run", "snapshot", "resume", "generate", "store"};
  EXPECT_EQ(NearestName("rnu", commands), "run");
  EXPECT_EQ(NearestName("runn", commands), "run");
  EXPECT_EQ(NearestName("snapshto", commands), "snapshot");
  EXPECT_EQ(NearestName("resum", commands), "resume");
  EXPECT_EQ(NearestName("genrate", commands), "generate");
  EXPECT_EQ(NearestName("strore", commands), "store");
}

TEST(NearestName, HasNoneForWhatIsNearNothing) {
  EXPECT_EQ(NearestName("quantize", {"run", "store"}), "");
  EXPECT_EQ(NearestName("", {"run", "store"}), "");
  EXPECT_EQ(NearestName("run", {}), "");
}

}  // namespace
}  // namespace kvbed
