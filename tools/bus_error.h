// What happens when a mapped model file becomes shorter, or its disk fails, while it is being read:
// the system sends SIGBUS, and without this the command would die by it.
#pragma once

namespace kvbed {

// From now on SIGBUS ends the process with one line on stderr and exit code 4.
void EndOnBusError();

}  // namespace kvbed
