#include "tools/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <sstream>

#include "backends/nearest_name.h"
#include "tools/console.h"
#include "tools/exit_code.h"

namespace kvbed {
namespace {

CLI::App& App(void* app) { return *static_cast<CLI::App*>(app); }
CLI::Option& Option(OptionHandle handle) { return *static_cast<CLI::Option*>(handle.option); }

// One line for main and the exit code 2.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
Status ParseNumber(const std::string& names, const std::string& text, T least, T most, T& value) {
  T number{};
  std::istringstream in(text);
  const bool negative = text.find('-') != std::string::npos && std::is_unsigned_v<T>;
  if (negative || !(in >> number) || !in.eof() || !(number >= least && number <= most)) {
    return Status::InvalidArgument(
        fmt::format("{} takes a number from {} to {}, not '{}'", names, least, most, text));
  }
  value = number;
  return Status::Ok();
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// The subcommand that the line had got to.
CLI::App* Deepest(CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string Suggest(const std::string& word, const CLI::App& app) {
  const bool option = word.starts_with('-');
  const std::string bare = word.substr(0, word.find('='));
  const std::vector<std::string> known = option ? OptionNames(app) : CommandNames(app);
  const std::string_view nearest = NearestName(bare, {known.begin(), known.end()});
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

std::string UnknownWord(const std::string& word, const CLI::App& app) {
  const std::string kind = word.starts_with('-')       ? "unknown option"
                           : CommandNames(app).empty() ? "unexpected argument"
                                                       : "unknown command";
  return fmt::format("{} {}{}", kind, word, Suggest(word, app));
}

}  // namespace

OptionHandle OptionSet::Value(const std::string& names, const std::string& type,
                              const std::string& help, Parse parse) {
  CLI::Option* option = App(app_).add_option_function<std::string>(
      names,
      [names, parse = std::move(parse)](const std::string& text) {
        const Status status = parse(text);
        if (status.ok()) return;
        const std::string& message = status.message();
        const bool named = message.find(names.substr(names.rfind(',') + 1)) != std::string::npos;
        throw UsageError(named ? message : fmt::format("{}: {}", names, message));
      },
      help);
  option->type_name(type)->group(group_)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  return {option};
}

OptionHandle OptionSet::Flag(const std::string& names, bool& value, const std::string& help) {
  return {App(app_).add_flag(names, value, help)->group(group_)};
}

OptionHandle OptionSet::Text(const std::string& names, const std::string& type,
                             const std::string& help, std::string& value) {
  return Value(names, type, help, [&value](const std::string& text) {
    value = text;
    return Status::Ok();
  });
}

OptionHandle OptionSet::Text(const std::string& names, const std::string& type,
                             const std::string& help, std::optional<std::string>& value) {
  return Value(names, type, help, [&value](const std::string& text) {
    value = text;
    return Status::Ok();
  });
}

OptionHandle OptionSet::Texts(const std::string& names, const std::string& type,
                              const std::string& help, std::vector<std::string>& values) {
  CLI::Option* option = App(app_).add_option(names, values, help);
  option->type_name(type)->group(group_)->expected(1)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
  return {option};
}

OptionHandle OptionSet::Arguments(const std::string& name, const std::string& help,
                                  std::vector<std::string>& values) {
  return {App(app_).add_option(name, values, help)->type_name("")->group(group_)};
}

OptionHandle OptionSet::Number(const std::string& names, const std::string& help, uint32_t& value,
                               uint32_t least, uint32_t most) {
  return Value(names, "N", help, [names, &value, least, most](const std::string& text) {
    return ParseNumber(names, text, least, most, value);
  });
}

OptionHandle OptionSet::Number(const std::string& names, const std::string& help, uint64_t& value,
                               uint64_t least, uint64_t most) {
  return Value(names, "N", help, [names, &value, least, most](const std::string& text) {
    return ParseNumber(names, text, least, most, value);
  });
}

OptionHandle OptionSet::Number(const std::string& names, const std::string& help, double& value,
                               double least, double most) {
  return Value(names, "X", help, [names, &value, least, most](const std::string& text) {
    return ParseNumber(names, text, least, most, value);
  });
}

OptionHandle OptionSet::OneOf(const std::string& names, const std::string& help, std::string& value,
                              std::vector<std::string> allowed) {
  return Value(
      names, fmt::format("{}", fmt::join(allowed, "|")), help,
      [names, &value, allowed](const std::string& text) {
        for (const std::string& one : allowed) {
          if (one != text) continue;
          value = text;
          return Status::Ok();
        }
        const std::string_view nearest = NearestName(text, {allowed.begin(), allowed.end()});
        return Status::InvalidArgument(
            fmt::format("{} takes one of {}, not '{}'{}", names, fmt::join(allowed, ", "), text,
                        nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
      });
}

void OptionSet::Required(OptionHandle option) { Option(option).required(); }

void OptionSet::Exclude(OptionHandle one, OptionHandle other) {
  Option(one).excludes(&Option(other));
}

void OptionSet::Hide(OptionHandle option) { Option(option).group(""); }

void OptionSet::Footer(const std::string& text) { App(app_).footer(text); }

struct CommandLine::Parts {
  CLI::App app;
  std::map<const CLI::App*, CommandFunction> functions;

  CLI::App* Find(const std::string& path) {
    CLI::App* app_found = &app;
    std::istringstream words(path);
    for (std::string word; words >> word;) app_found = app_found->get_subcommand(word);
    return app_found;
  }
};

CommandLine::CommandLine(const std::string& name, const std::string& description,
                         const std::string& version)
    : parts_(std::make_unique<Parts>()) {
  CLI::App& app = parts_->app;
  app.name(name);
  app.description(description);
  app.set_version_flag("--version", version, "kvbed's version and its libraries'");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit codes: 0 ok; 1 a record or a run failed a check; 2 usage; 3 no verdict could be "
      "given;\n"
      "4 I/O error, resource, or unusable input. A signal (Ctrl-C, SIGTERM) ends a command as it "
      "ends\n"
      "any other, 130 or 143 to a shell, with the store consistent.\n"
      "A store SPEC is KIND:PATH[?key=value&...][#SNAPSHOT], quoted for the shell; ? # & % in the "
      "path\n"
      "are written %3F %23 %26 %25. Keys of all: iodepth, ioengine, direct, capacity; of slab and "
      "files:\n"
      "sync=full|none, and of files commit (the same as full) and block; of rocksdb: "
      "layout=blob|index,\n"
      "wal=off|on, fs=kvbed|posix, crc=fast|stock. Only layout is kept by the store.");
}

CommandLine::~CommandLine() = default;

OptionSet CommandLine::AddCommand(const std::string& name, const std::string& summary) {
  const size_t space = name.rfind(' ');
  CLI::App* parent =
      space == std::string::npos ? &parts_->app : parts_->Find(name.substr(0, space));
  CLI::App* app =
      parent->add_subcommand(name.substr(space == std::string::npos ? 0 : space + 1), summary);
  return OptionSet(app);
}

OptionSet CommandLine::AddHiddenCommand(const std::string& name, const std::string& summary) {
  OptionSet set = AddCommand(name, summary);
  parts_->Find(name)->group("");
  return set;
}

void CommandLine::SetFunction(const std::string& name, CommandFunction function) {
  parts_->functions[parts_->Find(name)] = std::move(function);
}

void CommandLine::AddGroup(const std::string& name, const std::string& summary) {
  parts_->app.add_subcommand(name, summary)->require_subcommand(1);
}

int CommandLine::Run(int argc, char** argv) {
  CLI::App& root = parts_->app;
  const auto usage = [&](const std::string& message) {
    std::string path = root.get_name();
    for (CLI::App* app = &root; !app->get_subcommands().empty();) {
      app = app->get_subcommands().back();
      path += " " + app->get_name();
    }
    Complain(fmt::format("{} (see {} --help)", message, path));
    return kExitUsage;
  };
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    // Help and version.
    std::ostringstream text;
    root.exit(asked, text, text);
    const Status printed = Print(text.str());
    if (!printed.ok()) Complain(printed.message());
    return ExitCodeFor(printed);
  } catch (const UsageError& error) {
    return usage(error.what());
  } catch (const CLI::ParseError& error) {
    // What the library calls a missing option or command is often a misspelt one, which is among
    // the words that were left over.
    const CLI::App* app = Deepest(&root);
    const std::vector<std::string> extras = app->remaining();
    if (!extras.empty()) return usage(UnknownWord(extras.front(), *app));
    const std::vector<std::string> commands = CommandNames(*app);
    if (!commands.empty()) return usage(fmt::format("give one of {}", fmt::join(commands, ", ")));
    return usage(error.what());
  }
  const auto found = parts_->functions.find(Deepest(&root));
  KVBED_CHECK(found != parts_->functions.end());
  const Result<int> result = found->second();
  if (result.ok()) return *result;
  Complain(result.status().message());
  return ExitCodeFor(result.status());
}

}  // namespace kvbed
