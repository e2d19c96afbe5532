// The rules of the tree that no compiler checks, as tests. A rule is a function of a file's path
// and text, so that each is also fed a file that breaks it. The rules are those of ARCHITECTURE.md
// and CONTRIBUTING.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/source_text.h"

namespace kvbed {
namespace {

namespace fs = std::filesystem;
using Violations = std::vector<std::string>;
using Rule = Violations (*)(std::string_view path, std::string_view text);

// ---- the tree --------------------------------------------------------------------------------

struct SourceFile {
  std::string path;  // from the root of the tree
  std::string text;
};

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// All text of ours; golden files and corpora are data, some of it broken on purpose.
const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> tree = [] {
    const fs::path root = KVBED_SOURCE_DIR;
    const std::set<std::string> skipped = {".git",  ".venv",        ".deps",
                                           "build", "tests/golden", "tests/fuzz/corpus"};
    std::vector<SourceFile> files;
    for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
      const std::string path = fs::relative(it->path(), root).generic_string();
      if (it->is_directory() && skipped.contains(path)) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        files.push_back({path, ReadText(it->path())});
      }
    }
    return files;
  }();
  return tree;
}

testing::AssertionResult TreeObeys(Rule rule) {
  auto result = testing::AssertionSuccess();
  for (const SourceFile& file : Tree()) {
    for (const std::string& violation : rule(file.path, file.text)) {
      if (result) result = testing::AssertionFailure();
      result << "\n  " << file.path << ": " << violation;
    }
  }
  return result;
}

bool Breaks(Rule rule, std::string_view path, std::string_view text) {
  return !rule(path, text).empty();
}

// ---- reading a file --------------------------------------------------------------------------

bool IsHeader(std::string_view path) { return path.ends_with(".h"); }
bool IsCpp(std::string_view path) { return IsHeader(path) || path.ends_with(".cc"); }
bool InFolder(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}
bool InAnyFolder(std::string_view path, const std::vector<std::string_view>& folders) {
  return std::ranges::any_of(folders, [&](auto folder) { return InFolder(path, folder); });
}
// The libraries: what links into the command, which alone prints and reads the environment.
bool IsLibraryCode(std::string_view path) {
  return IsCpp(path) && InAnyFolder(path, {"offload", "engine", "backends", "verify"});
}

// ---- includes --------------------------------------------------------------------------------

struct FolderIncludes {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};
// The first row whose folder holds the file counts.
const std::vector<FolderIncludes> kIncludeTable = {
    {"offload", {"offload"}},
    {"engine/model", {"engine/model", "offload"}},
    {"engine", {"engine", "offload"}},
    {"backends", {"backends", "offload"}},
    {"verify", {"verify", "offload"}},
    {"tools", {"tools", "engine", "backends", "verify", "offload"}},
    {"tests", {"tests", "tools", "engine", "backends", "verify", "offload"}},
};

Violations IncludesObeyTheTable(std::string_view path, std::string_view text) {
  Violations violations;
  if (!IsCpp(path)) return violations;
  const auto row = std::ranges::find_if(
      kIncludeTable, [&](const auto& entry) { return InFolder(path, entry.folder); });
  if (row == kIncludeTable.end()) return {"lies in no folder of the include table"};
  for (const std::string& include : OurIncludes(text)) {
    if (!InAnyFolder(include, row->may_include)) {
      violations.push_back(std::string(row->folder) + "/ may not include \"" + include + "\"");
    }
  }
  return violations;
}

struct ThirdParty {
  std::vector<std::string_view> globs;
  std::vector<std::string_view> folders;
};
const std::vector<std::string_view> kAllFolders = {"offload", "engine", "backends",
                                                   "verify",  "tools",  "tests"};
const std::vector<std::string_view> kLibtorch = {"torch/*", "ATen/*", "c10/*"};
const std::vector<ThirdParty> kThirdParty = {
    {kLibtorch, {"engine"}},  // and see LibtorchStaysInside
    {{"liburing.h", "liburing/*"}, {"backends"}},
    {{"rocksdb/*"}, {"backends"}},
    {{"gtest/*", "gmock/*"}, {"tests"}},
    {{"benchmark/*"}, {"tests/benchmarks"}},
    {{"CLI/*"}, {"tools"}},
    {{"pcre2.h"}, {"engine/model", "tools", "tests"}},
    {{"xxhash.h", "xxh_x86dispatch.h"}, {"offload", "tools", "tests"}},
    {{"nlohmann/*"}, {"engine", "backends", "verify", "tools", "tests"}},
    {{"fmt/*"}, kAllFolders},
    {{"hwy/*"}, {"engine/kernels/native"}},
    {{"immintrin.h", "cpuid.h", "x86intrin.h", "arm_neon.h"}, {"engine", "backends"}},
    // The kernel's and the C library's.
    {{"sys/*", "linux/*", "asm/*", "arpa/*", "netinet/*"}, kAllFolders},
    {{"dirent.h", "dlfcn.h",   "errno.h",  "fcntl.h",   "getopt.h", "link.h",
      "malloc.h", "mntent.h",  "poll.h",   "pthread.h", "pwd.h",    "sched.h",
      "signal.h", "spawn.h",   "stddef.h", "stdint.h",  "stdio.h",  "stdlib.h",
      "string.h", "termios.h", "time.h",   "unistd.h"},
     kAllFolders},
};

Violations ThirdPartyStaysInQuarantine(std::string_view path, std::string_view text) {
  Violations violations;
  if (!IsCpp(path)) return violations;
  for (const std::string& include : OtherIncludes(text)) {
    if (include.find_first_of("./") == include.npos) continue;  // the C++ library's
    const auto row = std::ranges::find_if(kThirdParty, [&](const ThirdParty& entry) {
      return std::ranges::any_of(entry.globs,
                                 [&](auto glob) { return MatchesGlob(include, glob); });
    });
    if (row == kThirdParty.end()) {
      violations.push_back("<" + include + "> has no row in the table of third-party headers");
    } else if (!InAnyFolder(path, row->folders)) {
      violations.push_back("<" + include + "> is not for this folder");
    }
  }
  return violations;
}

// torch only in engine/*.cc and below engine/kernels/torch.
Violations LibtorchStaysInside(std::string_view path, std::string_view text) {
  if (!IsCpp(path) || InFolder(path, "engine/kernels/torch")) return {};
  const bool engine_source =
      InFolder(path, "engine") && path.ends_with(".cc") && path.find('/', 7) == path.npos;
  if (engine_source) return {};
  return IncludesAnyOf(text, kLibtorch) ? Violations{"includes libtorch"} : Violations{};
}

// torch brings an fmt of its own, so that a header with fmt would mean two things.
Violations LibraryHeadersAreFreeOfFmt(std::string_view path, std::string_view text) {
  if (!IsLibraryCode(path) || !IsHeader(path)) return {};
  return IncludesAnyOf(text, {"fmt/*"}) ? Violations{"a header includes fmt"} : Violations{};
}

TEST(Tidy, IncludesObeyTheTable) {
  EXPECT_TRUE(TreeObeys(IncludesObeyTheTable));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "offload/a.h", "#include \"engine/engine.h\"\n"));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "backends/a.cc", "\n# include \"verify/drift.h\"\n"));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "engine/model/a.cc", "#include \"engine/engine.h\"\n"));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "verify/a.h", "#include \"tools/report.h\"\n"));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "offload/a.cc", "#include \"status.h\"\n"));
  EXPECT_TRUE(Breaks(IncludesObeyTheTable, "extra/a.cc", ""));
  EXPECT_FALSE(Breaks(IncludesObeyTheTable, "engine/a.cc", "#include \"engine/model/b.h\"\n"));
}

TEST(Tidy, ThirdPartyHeadersStayInQuarantine) {
  EXPECT_TRUE(TreeObeys(ThirdPartyStaysInQuarantine));
  EXPECT_TRUE(
      Breaks(ThirdPartyStaysInQuarantine, "offload/a.cc", "#include <nlohmann/json.hpp>\n"));
  EXPECT_TRUE(Breaks(ThirdPartyStaysInQuarantine, "tools/a.cc", "#include <liburing.h>\n"));
  EXPECT_TRUE(Breaks(ThirdPartyStaysInQuarantine, "verify/a.cc", "#include <gtest/gtest.h>\n"));
  EXPECT_TRUE(Breaks(ThirdPartyStaysInQuarantine, "engine/a.cc", "#include <boost/any.hpp>\n"));
  EXPECT_FALSE(Breaks(ThirdPartyStaysInQuarantine, "backends/a.cc", "#include <liburing.h>\n"));
}

TEST(Tidy, LibtorchStaysInside) {
  EXPECT_TRUE(TreeObeys(LibtorchStaysInside));
  EXPECT_TRUE(Breaks(LibtorchStaysInside, "engine/engine.h", "#include <ATen/ATen.h>\n"));
  EXPECT_TRUE(Breaks(LibtorchStaysInside, "engine/model/a.cc", "#include <torch/torch.h>\n"));
  EXPECT_TRUE(Breaks(LibtorchStaysInside, "tests/engine/a_test.cc", "#include <c10/a.h>\n"));
  EXPECT_FALSE(Breaks(LibtorchStaysInside, "engine/a.cc", "#include <ATen/ATen.h>\n"));
  EXPECT_FALSE(Breaks(LibtorchStaysInside, "engine/kernels/torch/a.h", "#include <ATen/ATen.h>\n"));
}

TEST(Tidy, LibraryHeadersAreFreeOfFmt) {
  EXPECT_TRUE(TreeObeys(LibraryHeadersAreFreeOfFmt));
  EXPECT_TRUE(Breaks(LibraryHeadersAreFreeOfFmt, "offload/a.h", "#include <fmt/format.h>\n"));
}

// ---- what is built -----------------------------------------------------------------------------

// The words of each list of tests that kvbed_tests() of this folder is given: what follows TESTS up
// to the end of the call, and what set() and list(APPEND) put into ${tests}.
std::vector<std::string> RegisteredTests(const std::vector<std::string>& words,
                                         const std::string& folder) {
  std::vector<std::string> names;
  bool used = false, call = false, here = false, listed = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i + 1] == "(") {
      call = words[i] == "kvbed_tests";
      here = listed = false;
    }
    if (call && words[i] == "FOLDER" && words[i + 1] == folder) used = here = true;
    if (words[i] == ")") listed = false;
    if (listed) names.push_back(words[i]);
    const bool variable =
        i > 0 && words[i] == "tests" && (words[i - 1] == "APPEND" || words[i - 1] == "(");
    if ((words[i] == "TESTS" && here) || variable) listed = true;
  }
  return used ? names : std::vector<std::string>();
}

bool TestIsRegistered(std::string_view path, std::string_view cmake) {
  const fs::path file(path);
  const std::string parent = file.parent_path().generic_string();
  const std::string folder = parent == "tests" ? "." : parent.substr(sizeof("tests/") - 1);
  std::string name = file.stem().string();
  name.resize(name.size() - std::string_view("_test").size());
  const std::vector<std::string> names = RegisteredTests(CMakeWords(cmake), folder);
  return std::ranges::find(names, name) != names.end();
}

// The file's name as a word in its folder's CMakeLists.txt, or its path from the nearest one above.
bool FileIsListed(std::string_view path, std::string_view cmake_folder, std::string_view cmake) {
  const std::vector<std::string> words = CMakeWords(cmake);
  return std::ranges::find(words, path.substr(cmake_folder.size() + 1)) != words.end();
}

std::map<std::string, std::string> CMakeTexts() {
  std::map<std::string, std::string> texts;
  for (const SourceFile& file : Tree()) {
    const fs::path path(file.path);
    if (path.filename() == "CMakeLists.txt") texts[path.parent_path().generic_string()] = file.text;
  }
  return texts;
}

TEST(Tidy, EveryTestIsRegistered) {
  const auto cmake = CMakeTexts();
  for (const SourceFile& file : Tree()) {
    if (!InFolder(file.path, "tests") || !file.path.ends_with("_test.cc")) continue;
    const auto text = cmake.find(fs::path(file.path).parent_path().generic_string());
    EXPECT_TRUE(text != cmake.end() && TestIsRegistered(file.path, text->second))
        << file.path << " is in no kvbed_tests() of its folder's CMakeLists.txt";
  }
  const std::string_view call = "kvbed_tests(offload FOLDER offload LIBS x TESTS a b)\n";
  EXPECT_TRUE(TestIsRegistered("tests/offload/a_test.cc", call));
  EXPECT_TRUE(TestIsRegistered("tests/offload/b_test.cc", call));
  EXPECT_TRUE(TestIsRegistered("tests/tidy_test.cc", "kvbed_tests(tidy FOLDER . TESTS tidy)\n"));
  EXPECT_FALSE(TestIsRegistered("tests/offload/c_test.cc", call));
  EXPECT_FALSE(TestIsRegistered("tests/verify/a_test.cc", call));
  EXPECT_FALSE(TestIsRegistered("tests/offload/a_test.cc", "other(x FOLDER offload TESTS a)\n"));
  // The executable's, the folder's and a library's name register nothing.
  EXPECT_FALSE(TestIsRegistered("tests/offload/offload_test.cc", call));
  EXPECT_FALSE(TestIsRegistered("tests/offload/x_test.cc", call));
  const std::string_view list =
      "set(tests a)\nlist(APPEND tests b)\nkvbed_tests(e FOLDER e2e TESTS ${tests})\n";
  EXPECT_TRUE(TestIsRegistered("tests/e2e/a_test.cc", list));
  EXPECT_TRUE(TestIsRegistered("tests/e2e/b_test.cc", list));
  EXPECT_FALSE(TestIsRegistered("tests/e2e/e_test.cc", list));
  EXPECT_FALSE(TestIsRegistered("tests/offload/a_test.cc", "# " + std::string(call)));
}

TEST(Tidy, EveryHeaderAndSourceIsListed) {
  const auto cmake = CMakeTexts();
  for (const SourceFile& file : Tree()) {
    if (!IsLibraryCode(file.path) && !(IsCpp(file.path) && InFolder(file.path, "tools"))) continue;
    std::string folder = fs::path(file.path).parent_path().generic_string();
    while (!folder.empty() && !cmake.contains(folder)) {
      folder = fs::path(folder).parent_path().generic_string();
    }
    EXPECT_TRUE(!folder.empty() && FileIsListed(file.path, folder, cmake.at(folder)))
        << file.path << " is not in the CMakeLists.txt of its folder";
  }
  EXPECT_TRUE(FileIsListed("engine/model/a.h", "engine", "HEADERS\n  model/a.h\n"));
  EXPECT_TRUE(FileIsListed("engine/a.cc", "engine", "add_library(x a.cc)\n"));
  EXPECT_FALSE(FileIsListed("engine/model/a.h", "engine", "HEADERS\n  a.h\n"));
  EXPECT_FALSE(FileIsListed("engine/a.h", "engine", "HEADERS\n  # a.h\n  aa.h\n"));
}

// The `Suite.Name`s of a page: quoted words with one point between two capitals.
std::vector<std::string> TestsNamedIn(std::string_view text) {
  std::vector<std::string> names;
  for (size_t at = 0; (at = text.find('`', at)) != text.npos;) {
    const size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    const std::string word(text.substr(at + 1, end - at - 1));
    const size_t point = word.find('.');
    const auto is_capital = [&](size_t i) { return i < word.size() && std::isupper(word[i]); };
    if (is_capital(0) && point != word.npos && is_capital(point + 1)) names.push_back(word);
    at = end + 1;
  }
  return names;
}

bool DefinesTest(std::string_view text, const std::string& name) {
  std::string arguments = "(" + name + ")";
  arguments.replace(arguments.find('.'), 1, ", ");
  for (const char* macro : {"TEST", "TEST_F", "TEST_P"}) {
    if (text.find(macro + arguments) != text.npos) return true;
  }
  return false;
}

TEST(Tidy, TestsThatThePagesNameExist) {
  size_t named = 0;
  for (const SourceFile& page : Tree()) {
    if (!page.path.ends_with(".md")) continue;
    for (const std::string& name : TestsNamedIn(page.text)) {
      ++named;
      EXPECT_TRUE(std::ranges::any_of(
          Tree(), [&](const auto& file) { return DefinesTest(file.text, name); }))
          << page.path << " names " << name;
    }
  }
  EXPECT_GT(named, 0u);
  EXPECT_EQ(TestsNamedIn("`A.B`, `a.cc`, `sync=none`, `Suite.Name` and `V1.0`"),
            (std::vector<std::string>{"A.B", "Suite.Name"}));
  EXPECT_TRUE(DefinesTest("TEST_P(A, B) {", "A.B"));
  EXPECT_FALSE(DefinesTest("TEST_P(A, Bc) {", "A.B"));
}

// ---- text --------------------------------------------------------------------------------------

Violations NothingIsLeftUnfinished(std::string_view, std::string_view text) {
  // Spelt so that this file doesn't hold them.
  for (const char* mark : {"TO"
                           "DO",
                           "FIX"
                           "ME",
                           "XX"
                           "X:"}) {
    if (HasWord(text, mark)) return {std::string("a ") + mark + " is left"};
  }
  return {};
}

// Paths that exist on one machine only.
Violations NoMachinePaths(std::string_view, std::string_view text) {
  Violations violations;
  for (const std::string& place :
       {std::string("/wo") + "rk/", std::string("/ro") + "ot/", std::string("/ho") + "me/"}) {
    for (size_t at = text.find(place); at != text.npos; at = text.find(place, at + 1)) {
      const char before = at == 0 ? ' ' : text[at - 1];
      if (!IsWordChar(before) && before != '.' && before != '/' && before != '}') {
        violations.push_back("names " + place);
      }
    }
  }
  return violations;
}

Violations FileNamesSayWhatIsInside(std::string_view path, std::string_view) {
  const std::string stem = fs::path(path).stem().string();
  for (std::string_view name : {"common", "misc", "util", "utils", "helper", "helpers"}) {
    if (stem == name || stem.ends_with("_" + std::string(name))) {
      return {"a file of that name could hold anything"};
    }
  }
  return {};
}

Violations TextIsUtf8(std::string_view, std::string_view text) {
  return IsUtf8Text(text) ? Violations{} : Violations{"is not valid UTF-8"};
}

Violations LinesAreShort(std::string_view path, std::string_view text) {
  Violations violations;
  if (!IsCpp(path)) return violations;
  size_t number = 0;
  for (std::string_view line : Lines(text)) {
    ++number;
    const auto columns = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
    if (columns > 100) {
      violations.push_back("line " + std::to_string(number) + " has " + std::to_string(columns) +
                           " columns, 100 at most");
    }
  }
  return violations;
}

Violations HeadersHavePragmaOnce(std::string_view path, std::string_view text) {
  // Included once for each instruction set: Highway's guard lets that through.
  if (path.ends_with("-inl.h") && text.find("defined(HWY_TARGET_TOGGLE)") != text.npos) return {};
  if (!IsHeader(path) || std::ranges::count(Lines(text), "#pragma once") == 1) return {};
  return {"has no #pragma once"};
}

TEST(Tidy, NothingIsLeftUnfinished) {
  EXPECT_TRUE(TreeObeys(NothingIsLeftUnfinished));
  EXPECT_TRUE(Breaks(NothingIsLeftUnfinished, "a.cc",
                     "// TO"
                     "DO(me): later\n"));
  EXPECT_TRUE(Breaks(NothingIsLeftUnfinished, "a.md",
                     "FIX"
                     "ME\n"));
}

TEST(Tidy, NoMachinePaths) {
  EXPECT_TRUE(TreeObeys(NoMachinePaths));
  EXPECT_TRUE(Breaks(NoMachinePaths, "a.md",
                     "cd /ro"
                     "ot/kvbed\n"));
  EXPECT_TRUE(Breaks(NoMachinePaths, "a.cc",
                     "Open(\"/ho"
                     "me/someone/x\")"));
  EXPECT_TRUE(Breaks(NoMachinePaths, "a.md",
                     "`/wo"
                     "rk/main`"));
  EXPECT_FALSE(Breaks(NoMachinePaths, "a.md",
                      "/data/kv frame/wo"
                      "rk/a"));
}

TEST(Tidy, FileNamesSayWhatIsInside) {
  EXPECT_TRUE(TreeObeys(FileNamesSayWhatIsInside));
  EXPECT_TRUE(Breaks(FileNamesSayWhatIsInside, "offload/utils.h", ""));
  EXPECT_TRUE(Breaks(FileNamesSayWhatIsInside, "verify/string_util.cc", ""));
}

TEST(Tidy, TextIsUtf8) {
  EXPECT_TRUE(TreeObeys(TextIsUtf8));
  EXPECT_FALSE(Breaks(TextIsUtf8, "a.md", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x8A\n"));
  for (const char* bad : {"\xE9", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF0\x9F\x98", "\x80"}) {
    EXPECT_TRUE(Breaks(TextIsUtf8, "a.md", bad)) << bad;
  }
}

TEST(Tidy, LinesAreShort) {
  EXPECT_TRUE(TreeObeys(LinesAreShort));
  EXPECT_TRUE(Breaks(LinesAreShort, "a.cc", "//" + std::string(99, '-') + "\n"));
  EXPECT_FALSE(Breaks(LinesAreShort, "a.cc", "//" + std::string(96, '-') + "\xC3\xA9\xC3\xA9"));
}

TEST(Tidy, HeadersHavePragmaOnce) {
  EXPECT_TRUE(TreeObeys(HeadersHavePragmaOnce));
  EXPECT_TRUE(Breaks(HeadersHavePragmaOnce, "a.h", "#ifndef A_H\n#define A_H\n#endif\n"));
  EXPECT_TRUE(Breaks(HeadersHavePragmaOnce, "a-inl.h", "#ifndef A_H\n#define A_H\n#endif\n"));
}

// ---- code --------------------------------------------------------------------------------------

struct Exception {
  std::string_view path;
  std::string_view why;
};
bool IsExcepted(std::string_view path, const std::vector<Exception>& exceptions) {
  return std::ranges::any_of(exceptions, [&](const auto& entry) { return entry.path == path; });
}

Violations LibrariesReadNoEnvironment(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"engine/kernels/cpu_features.cc", "records what will have had a say in torch's kernels"},
  };
  if (!IsLibraryCode(path) || IsExcepted(path, exceptions)) return {};
  const std::string code = Code(text);
  if (!HasWord(code, "getenv") && !HasWord(code, "environ")) return {};
  return {"a library reads the environment"};
}

Violations LibrariesPrintNothing(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"offload/check.cc", "says what was impossible before it aborts"},
  };
  if (!IsLibraryCode(path) || IsExcepted(path, exceptions)) return {};
  const std::string code = Code(text);
  const bool prints =
      std::ranges::any_of(std::vector<std::string_view>{"cout", "cerr", "clog"},
                          [&](auto stream) { return HasWord(code, stream); }) ||
      std::ranges::any_of(
          std::vector<std::string_view>{"printf", "fprintf", "vprintf", "vfprintf", "puts", "fputs",
                                        "putchar", "perror", "fmt::print"},
          [&](auto function) { return Calls(code, function); });
  if (!prints) return {};
  return {"a library prints"};
}

// Only torch throws, and only main catches.
Violations LibrariesThrowNothing(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"engine/kernels/torch/torch_status.h", "rethrows what torch threw, to make a Status of it"},
  };
  if (!IsLibraryCode(path) || IsExcepted(path, exceptions)) return {};
  return HasWord(Code(text), "throw") ? Violations{"a library throws"} : Violations{};
}

// Which throws nothing when nobody can read it, and lets no name steer a terminal.
Violations TheCommandPrintsThroughTheConsole(std::string_view path, std::string_view text) {
  if (!IsCpp(path) || !InFolder(path, "tools") || path == "tools/console.cc") return {};
  const std::string code = Code(text);
  const bool prints = HasWord(code, "cout") || HasWord(code, "cerr") || HasWord(code, "stdout") ||
                      HasWord(code, "stderr") || Calls(code, "fmt::print");
  return prints ? Violations{"prints past tools/console.h"} : Violations{};
}

Violations NoThreadLocalState(std::string_view path, std::string_view text) {
  if (!IsCpp(path) || InFolder(path, "tests") || !HasWord(Code(text), "thread_local")) return {};
  return {"has thread-local state"};
}

// On the way of a record: owners are unique, and calls are direct or through the three interfaces.
Violations HotPathIsPlain(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"backends/fault_device.cc", "fault injection, not on the way of a record"},
      {"backends/request_workers.h", "one call for a batch of records"},
      {"backends/rocksdb/database.cc", "RocksDB takes them when it is opened"},
      {"backends/rocksdb/database.h", "RocksDB takes them when it is opened"},
      {"backends/snapshot_list.cc", "reads the manifests when a store is opened"},
      {"backends/snapshot_list.h", "reads the manifests when a store is opened"},
      {"backends/unsynced_log.h", "fault injection, not on the way of a record"},
      {"backends/unsynced_log.cc", "fault injection, not on the way of a record"},
  };
  if (!IsCpp(path) || !InAnyFolder(path, {"offload", "backends"}) || IsExcepted(path, exceptions)) {
    return {};
  }
  Violations violations;
  for (const char* word : {"shared_ptr", "make_shared", "std::function"}) {
    if (HasWord(Code(text), word)) violations.push_back(std::string("uses ") + word);
  }
  return violations;
}

TEST(Tidy, LibrariesReadNoEnvironment) {
  EXPECT_TRUE(TreeObeys(LibrariesReadNoEnvironment));
  EXPECT_TRUE(Breaks(LibrariesReadNoEnvironment, "backends/a.cc", "auto v = std::getenv(\"A\");"));
  EXPECT_FALSE(Breaks(LibrariesReadNoEnvironment, "tools/a.cc", "auto v = std::getenv(\"A\");"));
}

TEST(Tidy, LibrariesPrintNothing) {
  EXPECT_TRUE(TreeObeys(LibrariesPrintNothing));
  EXPECT_TRUE(Breaks(LibrariesPrintNothing, "verify/a.cc", "std::printf(\"%d\", 1);"));
  EXPECT_TRUE(Breaks(LibrariesPrintNothing, "engine/a.cc", "std::cerr << 1;"));
  EXPECT_TRUE(Breaks(LibrariesPrintNothing, "engine/a.cc", "fprintf (f, text);"));
  EXPECT_FALSE(Breaks(LibrariesPrintNothing, "engine/a.cc", "snprintf(b, 1, \"\"); // printf()"));
}

TEST(Tidy, TheCommandPrintsThroughTheConsole) {
  EXPECT_TRUE(TreeObeys(TheCommandPrintsThroughTheConsole));
  EXPECT_TRUE(Breaks(TheCommandPrintsThroughTheConsole, "tools/a.cc", "fmt::print(f, \"x\");"));
  EXPECT_TRUE(Breaks(TheCommandPrintsThroughTheConsole, "tools/a.cc", "std::cerr << 1;"));
  EXPECT_FALSE(Breaks(TheCommandPrintsThroughTheConsole, "tools/console.cc", "fflush(stdout);"));
}

TEST(Tidy, LibrariesThrowNothing) {
  EXPECT_TRUE(TreeObeys(LibrariesThrowNothing));
  EXPECT_TRUE(Breaks(LibrariesThrowNothing, "engine/a.cc", "if (bad) throw 1;"));
  EXPECT_FALSE(Breaks(LibrariesThrowNothing, "engine/a.cc", "// may throw\nauto s = \"throw\";"));
}

TEST(Tidy, NoThreadLocalState) {
  EXPECT_TRUE(TreeObeys(NoThreadLocalState));
  EXPECT_TRUE(Breaks(NoThreadLocalState, "tools/a.cc", "thread_local int a;"));
}

TEST(Tidy, HotPathIsPlain) {
  EXPECT_TRUE(TreeObeys(HotPathIsPlain));
  EXPECT_TRUE(Breaks(HotPathIsPlain, "offload/a.h", "std::shared_ptr<int> a;"));
  EXPECT_TRUE(Breaks(HotPathIsPlain, "backends/a.h", "std::function<void()> a;"));
  EXPECT_FALSE(Breaks(HotPathIsPlain, "backends/a.h", "// no std::function\n"));
}

TEST(Tidy, CodeIsWhatTheCompilerSees) {
  EXPECT_EQ(Code("a /* b */ c // d\ne"), "a  c \ne");
  EXPECT_EQ(Code(R"(f("x\"y", 'z', 1'000))"), "f(\"\", '', 1'000)");
  EXPECT_EQ(Code("R\"x(a)\")x\" b"), "\"\" b");
}

TEST(Tidy, TheWholeTreeIsRead) {
  const auto has = [](std::string_view path) {
    return std::ranges::any_of(Tree(), [&](const auto& file) { return file.path == path; });
  };
  EXPECT_TRUE(has("tests/tidy_test.cc"));
  EXPECT_TRUE(has("offload/status.h"));
  EXPECT_TRUE(has("tools/setup"));
  EXPECT_GT(Tree().size(), 50u);
}

}  // namespace
}  // namespace kvbed
