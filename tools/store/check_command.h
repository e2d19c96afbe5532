// `kvbed store check`.
#pragma once

namespace kvbed {

class CommandLine;

void AddStoreCheckCommand(CommandLine& line);

}  // namespace kvbed
