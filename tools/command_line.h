// Options and subcommands on the command line. Only command_line.cc knows the library that parses
// them, so that a subcommand's file says names, defaults and help and compiles quickly.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// Handle of one option, for rules between options.
struct OptionHandle {
  void* option = nullptr;
};

// The options of one subcommand. Values are written to the caller's variables when the line is
// parsed; these must stay in place until then.
class OptionSet {
 public:
  explicit OptionSet(void* app) : app_(app) {}

  // The options that follow stand under this heading in --help.
  void Group(std::string heading) { group_ = std::move(heading); }

  // `names` as in "-m,--model"; a name without dashes is positional. `type` is what help shows.
  using Parse = std::function<Status(const std::string&)>;
  OptionHandle Value(const std::string& names, const std::string& type, const std::string& help,
                     Parse parse);
  OptionHandle Flag(const std::string& names, bool& value, const std::string& help);
  OptionHandle Text(const std::string& names, const std::string& type, const std::string& help,
                    std::string& value);
  OptionHandle Text(const std::string& names, const std::string& type, const std::string& help,
                    std::optional<std::string>& value);
  // May be given several times.
  OptionHandle Texts(const std::string& names, const std::string& type, const std::string& help,
                     std::vector<std::string>& values);
  // Positional, any number of them.
  OptionHandle Arguments(const std::string& name, const std::string& help,
                         std::vector<std::string>& values);
  OptionHandle Number(const std::string& names, const std::string& help, uint32_t& value,
                      uint32_t least, uint32_t most);
  OptionHandle Number(const std::string& names, const std::string& help, uint64_t& value,
                      uint64_t least, uint64_t most);
  OptionHandle Number(const std::string& names, const std::string& help, double& value,
                      double least, double most);
  OptionHandle OneOf(const std::string& names, const std::string& help, std::string& value,
                     std::vector<std::string> allowed);
  // A value that `parse` (text -> Result<T>) makes.
  template <class T, class ParseValue>
  OptionHandle Parsed(const std::string& names, const std::string& type, const std::string& help,
                      T& value, ParseValue parse) {
    return Value(names, type, help, [&value, parse](const std::string& text) -> Status {
      auto parsed = parse(text);
      if (parsed.ok()) value = std::move(parsed).value();
      return parsed.ok() ? Status::Ok() : parsed.status();
    });
  }

  void Required(OptionHandle option);
  void Exclude(OptionHandle one, OptionHandle other);
  // In --help of nobody: for kvbed's own child processes and for tests.
  void Hide(OptionHandle option);
  // Text below the options in --help: examples.
  void Footer(const std::string& text);

 private:
  void* app_;
  std::string group_ = "Options";
};

// Runs a subcommand: the exit code, or the error that main prints as one line.
using CommandFunction = std::function<Result<int>()>;

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();

  // A subcommand, e.g. "run"; "store ls" is the subcommand ls of store, which then must exist.
  OptionSet AddCommand(const std::string& name, const std::string& summary);
  // In --help of nobody.
  OptionSet AddHiddenCommand(const std::string& name, const std::string& summary);
  void SetFunction(const std::string& name, CommandFunction function);
  // A command that has subcommands only.
  void AddGroup(const std::string& name, const std::string& summary);

  // A subcommand's options, which must stay in place until it has run.
  template <class Options>
  Options& Own() {
    return *std::any_cast<Options>(&owned_.emplace_back(Options{}));
  }

  // Parses and runs. Prints help, version and usage errors itself (with the nearest right name for
  // an unknown one, exit code 2); returns the exit code.
  int Run(int argc, char** argv);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::list<std::any> owned_;
};

}  // namespace kvbed
