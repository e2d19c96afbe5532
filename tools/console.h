// Standard output and standard error. Nothing here throws, and no name or message that is shown can
// steer a terminal.
#pragma once

#include <string>
#include <string_view>

#include "offload/status.h"

namespace kvbed {

// Opens what is closed of the three standard streams, in a way that makes their use fail: a file
// opened later would get the number, and messages would be written into it.
void ReserveStandardStreams();

// "kvbed: MESSAGE" as one line on standard error. There is nobody to tell when that fails.
void Complain(std::string_view message);
// The bytes as they are on standard error, e.g. a progress bar.
void WriteToStandardError(std::string_view text);

// All of `text` to standard output; an error also when a buffer could not be emptied.
Status Print(std::string_view text);

// `text` with its control characters, line ends among them, shown as \n or \x1b.
std::string Printable(std::string_view text);

}  // namespace kvbed
