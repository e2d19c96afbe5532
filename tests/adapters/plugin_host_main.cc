// What hosts plug-ins in the command, as a program of its own: tests of external stores need no
// more of the command.
#include <string>
#include <vector>

#include "tools/exit_code.h"
#include "tools/plugin_host.h"

int main(int argc, char** argv) {
  if (argc < 3 || argv[1] != kvbed::kPluginHostCommand) return kvbed::kExitUsage;
  return kvbed::HostPlugin(argv[2], std::vector<std::string>(argv + 3, argv + argc));
}
