// The rules of the tree that no compiler checks, as tests. A rule is a function of a file's path
// and text, so that each is also fed a file that breaks it. The rules are those of ARCHITECTURE.md
// and CONTRIBUTING.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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

// All text of ours; tests/golden is data, some of it broken on purpose.
const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> tree = [] {
    const fs::path root = KVBED_SOURCE_DIR;
    const std::set<std::string> skipped = {".git", ".venv", ".deps", "build", "tests/golden"};
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

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> Matches(std::string_view text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  using Iterator = std::regex_iterator<std::string_view::const_iterator>;
  for (Iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    found.push_back((*it)[it->size() > 1 ? 1 : 0].str());
  }
  return found;
}

// Without comments and the contents of literals: what is left are the words that the compiler sees.
std::string Code(std::string_view text) {
  std::string code;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size()) - 1;
    } else if (rest.starts_with("/*")) {
      i += std::min(rest.find("*/", 2), rest.size() - 2) + 1;
    } else if (rest.starts_with("R\"")) {
      const std::string end = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      i += std::min(rest.find(end) + end.size(), rest.size()) - 1;
      code += "\"\"";
    } else if (rest[0] == '"' || (rest[0] == '\'' && (i == 0 || !std::isalnum(text[i - 1])))) {
      const char quote = rest[0];
      for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
      code += {quote, quote};
    } else {
      code += rest[0];
    }
  }
  return code;
}

bool HasWord(std::string_view code, const std::string& word_pattern) {
  return !Matches(code, "(?:^|[^\\w])(" + word_pattern + ")(?![\\w])").empty();
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
  for (const std::string& include : Matches(text, R"re((?:^|\n)\s*#\s*include\s*"([^"]*)")re")) {
    if (!InAnyFolder(include, row->may_include)) {
      violations.push_back(std::string(row->folder) + "/ may not include \"" + include + "\"");
    }
  }
  return violations;
}

struct ThirdParty {
  std::string pattern;
  std::vector<std::string_view> folders;
};
const std::vector<ThirdParty> kThirdParty = {
    {"(torch|ATen|c10)/.*", {"engine"}},  // and see LibtorchStaysInside
    {"liburing.*", {"backends"}},
    {"rocksdb/.*", {"backends"}},
    {"(gtest|gmock)/.*", {"tests"}},
    {"CLI/.*", {"tools"}},
    {"pcre2\\.h", {"engine/model", "tools", "tests"}},
    {"xxh.*\\.h", {"offload", "tools", "tests"}},
    {"nlohmann/.*", {"engine", "backends", "verify", "tools", "tests"}},
    {"fmt/.*", {"offload", "engine", "backends", "verify", "tools", "tests"}},
    // What the compiler, the C library and the kernel bring.
    {"[a-z_0-9]+", {"offload", "engine", "backends", "verify", "tools", "tests"}},
    {"(sys|linux|asm|arpa|netinet)/.*",
     {"offload", "engine", "backends", "verify", "tools", "tests"}},
    {"(dirent|dlfcn|errno|fcntl|features|ftw|getopt|glob|link|malloc|mntent|poll|pthread|pwd|"
     "sched|signal|spawn|stdio|termios|time|unistd)\\.h",
     {"offload", "engine", "backends", "verify", "tools", "tests"}},
    {"(immintrin|cpuid|x86intrin|arm_neon)\\.h", {"engine", "backends"}},
};

Violations ThirdPartyStaysInQuarantine(std::string_view path, std::string_view text) {
  Violations violations;
  if (!IsCpp(path)) return violations;
  for (const std::string& include : Matches(text, R"((?:^|\n)\s*#\s*include\s*<([^>]*)>)")) {
    const auto row = std::ranges::find_if(kThirdParty, [&](const ThirdParty& entry) {
      return std::regex_match(include, std::regex(entry.pattern));
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
  if (Matches(text, R"((?:^|\n)\s*#\s*include\s*<(torch|ATen|c10)/)").empty()) return {};
  return {"includes libtorch"};
}

// torch brings an fmt of its own, so that a header with fmt would mean two things.
Violations LibraryHeadersAreFreeOfFmt(std::string_view path, std::string_view text) {
  if (!IsLibraryCode(path) || !IsHeader(path)) return {};
  if (Matches(text, R"((?:^|\n)\s*#\s*include\s*<(fmt)/)").empty()) return {};
  return {"a header includes fmt"};
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

std::string WithoutCMakeComments(std::string_view text) {
  std::string code;
  for (std::string_view line : Lines(text)) code.append(line.substr(0, line.find('#'))) += '\n';
  return code;
}

// kvbed_test(FOLDER NAME in the CMakeLists.txt of the test's folder.
bool TestIsRegistered(std::string_view path, std::string_view cmake) {
  const fs::path file(path);
  const std::string parent = file.parent_path().generic_string();
  const std::string folder = parent == "tests" ? "\\." : parent.substr(sizeof("tests/") - 1);
  std::string name = file.stem().string();
  name.resize(name.size() - std::string_view("_test").size());
  return !Matches(WithoutCMakeComments(cmake),
                  "kvbed_test\\(\\s*" + folder + "\\s+" + name + "[\\s)]")
              .empty();
}

// The file's name as a word in its folder's CMakeLists.txt, or its path from the nearest one above.
bool FileIsListed(std::string_view path, std::string_view cmake_folder, std::string_view cmake) {
  const std::string wanted(path.substr(cmake_folder.size() + 1));
  std::istringstream words(WithoutCMakeComments(cmake));
  for (std::string word; words >> word;) {
    while (word.ends_with(')')) word.pop_back();
    if (word.substr(word.rfind('(') + 1) == wanted) return true;
  }
  return false;
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
        << file.path << " is in no kvbed_test() of its folder's CMakeLists.txt";
  }
  EXPECT_TRUE(
      TestIsRegistered("tests/offload/a_test.cc", "kvbed_test(offload a kvbed::offload)\n"));
  EXPECT_TRUE(TestIsRegistered("tests/tidy_test.cc", "kvbed_test(. tidy)\n"));
  EXPECT_FALSE(TestIsRegistered("tests/offload/a_test.cc", "# kvbed_test(offload a x)\n"));
  EXPECT_FALSE(TestIsRegistered("tests/offload/a_test.cc", "kvbed_test(offload ab x)\n"));
  EXPECT_FALSE(TestIsRegistered("tests/offload/a_test.cc", "kvbed_test(verify a x)\n"));
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
  const std::string pattern = std::string("(?:^|[^\\w./}])(/(?:") + "work|root|home/[a-z]+)/)";
  Violations violations;
  for (const std::string& path : Matches(text, pattern)) violations.push_back("names " + path);
  return violations;
}

Violations FileNamesSayWhatIsInside(std::string_view path, std::string_view) {
  const std::string stem = fs::path(path).stem().string();
  if (!std::regex_match(stem, std::regex("common|misc|(.*[_-])?(utils?|helpers?)"))) return {};
  return {"a file of that name could hold anything"};
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF, and no NUL in a text.
bool IsUtf8Text(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? uint8_t(text[at]) : 0u; };
    const uint32_t first = byte(i);
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (length == 0 || first == 0) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const uint32_t second = byte(i + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
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
  if (!IsHeader(path) || !Matches(text, "(?:^|\\n)#pragma once\\n").empty()) return {};
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
  if (!IsLibraryCode(path) || !HasWord(Code(text), "getenv|secure_getenv|environ")) return {};
  return {"a library reads the environment"};
}

Violations LibrariesPrintNothing(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"offload/check.cc", "says what was impossible before it aborts"},
  };
  if (!IsLibraryCode(path) || IsExcepted(path, exceptions)) return {};
  const std::string code = Code(text);
  const std::string calls =
      R"((?:^|[^\w.>])((f|v|vf)?printf|f?puts|putchar|perror|fmt::print)\s*\()";
  if (!HasWord(code, "cout|cerr|clog") && Matches(code, calls).empty()) return {};
  return {"a library prints"};
}

// Only torch throws, and only main catches.
Violations LibrariesThrowNothing(std::string_view path, std::string_view text) {
  if (!IsLibraryCode(path) || !HasWord(Code(text), "throw")) return {};
  return {"a library throws"};
}

Violations NoThreadLocalState(std::string_view path, std::string_view text) {
  if (!IsCpp(path) || InFolder(path, "tests") || !HasWord(Code(text), "thread_local")) return {};
  return {"has thread-local state"};
}

// On the way of a record: owners are unique, and calls are direct or through the three interfaces.
Violations HotPathIsPlain(std::string_view path, std::string_view text) {
  static const std::vector<Exception> exceptions = {
      {"backends/fault_device.cc", "fault injection, not on the way of a record"},
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
