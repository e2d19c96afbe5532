// Runs another program to its end and keeps what it wrote.
#pragma once

#include <string>
#include <vector>

#include "offload/status.h"

namespace kvbed {

struct ProgramResult {
  int exit_code = 0;  // 128 + the signal's number when a signal ended it
  std::string out;
  std::string err;
};

// `argv[0]` is looked up in PATH. Not found when there is no such program; the interrupted status,
// after the program was told to end, when this process is interrupted (interrupt.h) meanwhile.
Result<ProgramResult> RunProgram(const std::vector<std::string>& argv);

}  // namespace kvbed
