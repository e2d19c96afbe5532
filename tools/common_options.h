// The options that several subcommands share, each group added by one function so that its names,
// defaults and help are the same everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/manifest.h"
#include "offload/status.h"
#include "tools/command_line.h"

namespace kvbed {

struct ModelOptions {
  std::string model;
  DType dtype = DType::kBf16;
  std::string kernels;   // empty: the engine's default
  std::string isa;       // empty: the fastest
  uint32_t threads = 0;  // 0: as many as this process may run on
  uint32_t prefill_chunk = 512;
};

struct PoolOptions {
  uint32_t block_tokens = 16;
  std::optional<uint64_t> pool_bytes;  // nullopt: as much as the run needs
};

struct PromptOptions {
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::vector<int32_t>> prompt_ids;
  bool parse_special = false;
  std::optional<uint64_t> ctx;  // the prompt is cut or repeated to this many tokens
};

struct SamplingOptions {
  double temperature = 0;
  double top_p = 1;
  uint32_t top_k = 0;
  uint64_t seed = 1;
};

// Before the first token is drawn.
SamplerState InitialSampler(const SamplingOptions& options);

// The command's values; a store spec's own win over them.
struct StoreOptions {
  std::string spec;
  uint32_t iodepth = 16;
  std::string ioengine = "auto";
  std::string direct = "required";
  std::optional<uint64_t> capacity;
  std::string sync = "full";
};

enum class OutputFormat { kText, kMarkdown, kCsv, kJson, kJsonLines };

// -o md and -o csv.
enum class TableFormats { kTaken, kRefused };

struct OutputOptions {
  OutputFormat format = OutputFormat::kText;
  std::optional<std::string> json_file;  // JSON beside the text
};

void AddModelOptions(OptionSet& set, ModelOptions& options);
// The same without --kernels, --threads and --prefill-chunk, for a command that takes lists of
// them.
void AddModelSourceOptions(OptionSet& set, ModelOptions& options);
void AddPoolOptions(OptionSet& set, PoolOptions& options);
void AddPromptOptions(OptionSet& set, PromptOptions& options);
// The same without -c.
void AddPromptSourceOptions(OptionSet& set, PromptOptions& options);
void AddSamplingOptions(OptionSet& set, SamplingOptions& options);
// How a store is opened, without --store itself.
void AddStoreTuningOptions(OptionSet& set, StoreOptions& options);
// Which stores a command's help names: one in memory is gone when the command ends.
enum class StoreKinds { kAny, kKept };
// The handle is that of --store.
OptionHandle AddStoreOptions(OptionSet& set, StoreOptions& options, StoreKinds kinds);
void AddOutputOptions(OptionSet& set, OutputOptions& options,
                      TableFormats formats = TableFormats::kRefused);
// -n; the number of new tokens.
void AddNewTokensOption(OptionSet& set, uint64_t& new_tokens);

}  // namespace kvbed
