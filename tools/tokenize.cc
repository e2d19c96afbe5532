// kvbed tokenize: text to token ids, to check the tokenizer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/model/model_files.h"
#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/prompt.h"

namespace kvbed {
namespace {

// A token's line of text and its object in the JSON.
constexpr uint64_t kShownTokenBytes = 1024;

struct TokenizeOptions {
  std::string model;
  PromptOptions prompt;
  OutputOptions output;
};

Result<int> Run(const TokenizeOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model);
  kept.push_back(options.prompt.prompt_file.value_or(""));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  const ResultHeader header{"kvbed-tokenize/1", CommandLineOfThisProcess(), 0, UnixNs()};
  KVBED_ASSIGN_OR_RETURN(const ModelFiles model, OpenModel(options.model));
  if (!model.tokenizer) {
    return Status::InvalidArgument(
        fmt::format("{} has no tokenizer: {}", model.name, model.no_tokenizer_reason));
  }
  KVBED_ASSIGN_OR_RETURN(const Prompt prompt,
                         ResolvePrompt(options.prompt, model, 0, kShownTokenBytes));
  for (const std::string& warning : prompt.warnings) Complain(warning);
  std::string text;
  Json tokens = Json::array();
  for (TokenId id : prompt.ids) {
    if (Interrupted()) return InterruptedStatus();
    const std::string shown = model.tokenizer->TokenText(id);
    text += fmt::format("{:>8}  {}\n", id, shown);
    tokens.push_back({{"id", id},
                      {"text", shown},
                      {"bytes_hex", ToHex(AsBytes(model.tokenizer->TokenBytes(id)))}});
  }
  Json json = MakeResult(header);
  json["env"] = EnvironmentJson(ReadEnvironment({}));
  json["ids"] = prompt.ids;
  json["tokens"] = std::move(tokens);
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, json));
  return kExitOk;
}

}  // namespace

void AddTokenizeCommand(CommandLine& line) {
  TokenizeOptions& options = line.Own<TokenizeOptions>();
  OptionSet set = line.AddCommand("tokenize", "turn text into token ids, to check the tokenizer");
  set.Group("Model");
  set.Required(set.Text("-m,--model", "MODEL",
                        "GGUF file or Hugging Face directory; only its "
                        "tokenizer is used",
                        options.model));
  AddPromptOptions(set, options.prompt);
  AddOutputOptions(set, options.output);
  set.Footer(
      "Exit codes: 0 done; 2 usage; 4 I/O error or unusable input.\n\n"
      "Example:\n  kvbed tokenize -m model.gguf --prompt-file t.txt --json ids.json");
  line.SetFunction("tokenize", [&options] { return Run(options); });
}

}  // namespace kvbed
