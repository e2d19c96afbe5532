// Splits a command line into words as a shell does with quotes and without anything else: no
// variables, patterns, pipes or redirections. It runs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"

namespace kvbed {

struct CommandWord {
  std::string text;          // without its quotes
  std::string_view written;  // as it stands in the line
};

// Words stand between blanks. '...' is taken as it is, "..." too but for \" and \\, and outside of
// them a backslash takes the next character as it is. Invalid argument for an open quote.
Result<std::vector<CommandWord>> SplitCommand(std::string_view line);

// One word for SplitCommand, with double quotes where it needs any, so that a line of them can
// stand between the single quotes of a shell.
std::string QuoteWord(std::string_view text);

}  // namespace kvbed
