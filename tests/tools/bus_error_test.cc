#include "tools/bus_error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/model/mapped_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

TEST(BusErrorDeathTest, AMappedFileThatIsCutEndsTheProcessWithALine) {
  const TempDir folder;
  const std::string path = folder / "model.gguf";
  std::ofstream(path) << std::string(1 << 16, 'x');
  const auto file = MappedFile::Open(path);
  ASSERT_OK(file);
  ASSERT_EQ(file->bytes().size(), size_t{1} << 16);
  std::filesystem::resize_file(path, 100);
  EXPECT_EXIT(
      {
        EndOnBusError();
        // The page that still has bytes of the file reads as before; those behind it are gone.
        if (file->bytes()[0] == std::byte{'x'}) std::exit(static_cast<int>(file->bytes()[1 << 15]));
      },
      testing::ExitedWithCode(kExitUnusable), "model file can't be read to its end");
}

}  // namespace
}  // namespace kvbed
