// The kvbed command: puts the subcommands on one command line and turns what escapes into one line
// and an exit code.
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "tools/bus_error.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/plugin_host.h"
#include "tools/version.h"

namespace {

constexpr const char* kDescription =
    "Snapshots real KV-cache blocks to storage, restores them, and proves bit for bit that the\n"
    "resumed run equals the one that never left memory. Start with:\n"
    "  kvbed run -m MODEL --prompt \"The capital of France is\" -n 11";

int Main(int argc, char** argv) {
  // Before any signal is taken over: what happens to a plug-in is to be seen as it is.
  if (argc > 2 && argv[1] == kvbed::kPluginHostCommand) {
    return kvbed::HostPlugin(argv[2], std::vector<std::string>(argv + 3, argv + argc));
  }
  kvbed::CommandLine line("kvbed", kDescription, kvbed::VersionText());
  kvbed::AddRunCommand(line);
  kvbed::AddSnapshotCommand(line);
  kvbed::AddResumeCommand(line);
  kvbed::AddGenerateCommand(line);
  kvbed::AddTokenizeCommand(line);
  kvbed::AddDriftCommand(line);
  kvbed::AddStoreCommands(line);
  kvbed::AddBenchCommand(line);
  kvbed::AddBenchEngineCommand(line);
  kvbed::AddSweepCommand(line);
  kvbed::AddReportCommand(line);
  kvbed::AddPlanCommand(line);
  kvbed::AddDiffCommand(line);
  kvbed::AddVerifyCommand(line);
  kvbed::AddDoctorCommand(line);
  kvbed::AddVerifyChildCommand(line);
  const kvbed::InterruptGuard guard;
  // A reader that goes away (head, a dead parent) is an error of the write, not a death by signal.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that may not grow (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  kvbed::EndOnBusError();
  kvbed::ReserveStandardStreams();
  return line.Run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int exit_code = Main(argc, argv);
    if (kvbed::Interrupted() && exit_code != kvbed::kExitOk) kvbed::DieInterrupted();
    return exit_code;
  } catch (const std::bad_alloc&) {
    kvbed::Complain("out of memory: use a shorter context or a smaller model");
  } catch (const std::exception& error) {
    kvbed::Complain(error.what());
  }
  return kvbed::kExitUnusable;
}
