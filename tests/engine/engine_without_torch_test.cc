#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/status_matchers.h"

namespace kvbed {
namespace {

TEST(EngineWithoutTorch, SaysThatItsKernelsAreNotInThisBuild) {
  ASSERT_OK_AND_ASSIGN(const ModelFiles model, OpenModel("toy:8m"));
  EXPECT_TRUE(FailsWith(Engine::Open(model, {.kernels = "torch"}).status(),
                        StatusCode::kNotSupported, "built without torch"));
}

}  // namespace
}  // namespace kvbed
