// The command on files that somebody prepared: one line, a documented exit code, little memory, and
// nothing written outside the store.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAllowedBytes = 100'000'000;

struct MeasuredRun {
  int exit_code = -1;  // -1: ended by a signal
  std::string text;    // both outputs
  int64_t peak_bytes = 0;
};

MeasuredRun Measure(std::vector<std::string> arguments) {
  const TempDir folder;
  const std::string out = folder / "out";
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int fd = ::open(out.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(pid, &status, 0, &usage), pid);
  std::ifstream file(out, std::ios::binary);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .text = {std::istreambuf_iterator<char>(file), {}},
          .peak_bytes = int64_t{usage.ru_maxrss} * 1024};
}

int64_t IdlePeak() {
  static const int64_t peak = Measure({KVBED_COMMAND, "--version"}).peak_bytes;
  return peak;
}

// The codes are those documented for a file of no use.
void ExpectRefused(std::vector<std::string> arguments, const std::set<int>& codes) {
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  SCOPED_TRACE(line);
  arguments.insert(arguments.begin(), KVBED_COMMAND);
  const MeasuredRun run = Measure(arguments);
  EXPECT_TRUE(codes.contains(run.exit_code)) << run.exit_code << ": " << run.text;
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1) << run.text;
  EXPECT_LE(run.peak_bytes, IdlePeak() + kAllowedBytes);
}

std::vector<std::string> Corpus(const std::string& name) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(KVBED_SOURCE_DIR "/tests/fuzz/corpus/" + name)) {
    if (entry.path().filename().string().starts_with("refused")) paths.push_back(entry.path());
  }
  EXPECT_FALSE(paths.empty()) << name;
  return paths;
}

TEST(HostileFiles, ModelsAreRefusedInOneLineAndLittleMemory) {
  const TempDir folder;
  const std::string golden = KVBED_GOLDEN_DIR "/model/malformed/";
  for (const std::string& path : Corpus("gguf")) {
    const std::string model = folder / "m.gguf";
    fs::copy_file(path, model, fs::copy_options::overwrite_existing);
    ExpectRefused({"tokenize", "-m", model, "--prompt", "x"}, {4});
  }
  fs::copy(golden + "valid_dir", folder / "m");
  for (const auto& [corpus, file] : {std::pair{"hf_config", "config.json"},
                                     {"tokenizer_json", "tokenizer.json"},
                                     {"safetensors", "model.safetensors"}}) {
    for (const std::string& path : Corpus(corpus)) {
      fs::copy_file(path, folder / "m/" + file, fs::copy_options::overwrite_existing);
      ExpectRefused({"tokenize", "-m", folder / "m", "--prompt", "x"}, {4});
    }
    fs::copy_file(golden + "valid_dir/" + file, folder / "m/" + file,
                  fs::copy_options::overwrite_existing);
  }
  // The control.
  EXPECT_EQ(RunKvbed({"tokenize", "-m", folder / "m", "--prompt", "x"}).exit_code, 0);
}

TEST(HostileFiles, ShapesAndRowsAreRefusedInOneLineAndLittleMemory) {
  const TempDir folder;
  for (const std::string& path : Corpus("hf_config")) {
    const std::string shape = folder / "config.json";
    fs::copy_file(path, shape, fs::copy_options::overwrite_existing);
    ExpectRefused({"plan", "--shape", shape}, {4});
  }
  // A gigabyte of nothing.
  std::ofstream(folder / "sparse");
  fs::resize_file(folder / "sparse", 1 << 30);
  for (const std::string name : {"config.json", "rows.jsonl", "m.gguf"}) {
    fs::rename(folder / "sparse", folder / name);
    if (name == "config.json") ExpectRefused({"plan", "--shape", folder / name}, {4});
    if (name == "rows.jsonl") ExpectRefused({"report", folder / name, "--out", folder / "o"}, {4});
    if (name == "m.gguf") ExpectRefused({"tokenize", "-m", folder / name, "--prompt", "x"}, {4});
    fs::rename(folder / name, folder / "sparse");
  }
}

TEST(HostileFiles, StoresAreRefusedInOneLineAndLittleMemory) {
  const TempDir folder;
  const std::string store = folder / "kv";
  for (const std::string& path : Corpus("store_identity")) {
    fs::remove_all(store);
    fs::create_directories(store + "/manifests");
    fs::copy_file(path, store + "/STORE");
    // Damaged is a failed check; another version's is of no use here.
    ExpectRefused({"store", "ls", "slab:" + store}, {1, 4});
  }
}

TEST(HostileNames, NeverLeaveTheStoresFolder) {
  const TempDir folder;
  std::ofstream(folder / "x.manifest") << "mine";
  fs::create_directory(folder / "x");
  const std::string store = "slab:" + (folder / "kv");
  for (const char* name : {"../x", "..", ".", "../../x", "a/../../../x", "/etc/passwd", "x/y"}) {
    for (const char* verb : {"rm", "info", "dump"}) {
      const CommandRun run = RunKvbed({"store", verb, store + "#" + name});
      EXPECT_EQ(run.exit_code, 2) << verb << name << run.out << run.err;
    }
    EXPECT_EQ(RunKvbed({"snapshot", "-m", "toy:8m", "--store", store, "--name", name}).exit_code, 2)
        << name;
  }
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    left.push_back(entry.path().filename().string());
  }
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"x", "x.manifest"}));
}

// The control: memory that is used shows.
TEST(HostileFiles, TheMeasureSeesMemory) {
  const MeasuredRun run =
      Measure({"sh", "-c", "x=$(head -c 150000000 /dev/zero | tr '\\0' x); echo ${#x}"});
  EXPECT_EQ(run.text, "150000000\n");
  EXPECT_GT(run.peak_bytes, IdlePeak() + kAllowedBytes);
}

}  // namespace
}  // namespace kvbed
