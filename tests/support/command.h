// The kvbed command as a user runs it: a process with an exit code, text and JSON.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/program.h"

namespace kvbed {

struct CommandRun {
  int exit_code = -1;
  std::string out;
  std::string err;

  // What `-o json` printed; null, and a failure of the test, when it isn't JSON.
  nlohmann::json Json() const {
    auto json = nlohmann::json::parse(out, nullptr, false);
    if (!json.is_discarded()) return json;
    ADD_FAILURE() << "no JSON on standard output: " << out << err;
    return nullptr;
  }
};

inline CommandRun RunCommand(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  auto result = RunProgram(arguments);
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    return {};
  }
  return {result->exit_code, std::move(result->out), std::move(result->err)};
}

inline CommandRun RunKvbed(std::vector<std::string> arguments) {
  return RunCommand(KVBED_COMMAND, std::move(arguments));
}

// A shell's command line with KVBED for the command.
inline CommandRun RunShell(std::string line) {
  for (size_t at; (at = line.find("KVBED")) != std::string::npos;) {
    line.replace(at, 5, "'" KVBED_COMMAND "'");
  }
  return RunCommand("sh", {"-c", line});
}

}  // namespace kvbed
