// The subcommands: each function adds one to the command line, with its options and what it runs.
#pragma once

namespace kvbed {

class CommandLine;

void AddRunCommand(CommandLine& line);
void AddSnapshotCommand(CommandLine& line);
void AddResumeCommand(CommandLine& line);
void AddGenerateCommand(CommandLine& line);
void AddTokenizeCommand(CommandLine& line);
void AddBenchCommand(CommandLine& line);
void AddBenchEngineCommand(CommandLine& line);
void AddSweepCommand(CommandLine& line);
void AddReportCommand(CommandLine& line);
void AddPlanCommand(CommandLine& line);
void AddDriftCommand(CommandLine& line);
void AddVerifyCommand(CommandLine& line);
void AddStoreCommands(CommandLine& line);
void AddStoreDumpCommand(CommandLine& line);
void AddDiffCommand(CommandLine& line);
void AddDoctorCommand(CommandLine& line);
void AddVerifyChildCommand(CommandLine& line);

}  // namespace kvbed
