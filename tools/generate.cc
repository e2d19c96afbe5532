// kvbed generate: text from a prompt, to check the engine.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/prompt.h"
#include "tools/run_report.h"
#include "tools/session.h"

namespace kvbed {
namespace {

struct GenerateOptions {
  ModelOptions model;
  PoolOptions pool;
  PromptOptions prompt;
  SamplingOptions sampling;
  OutputOptions output;
  uint64_t new_tokens = 32;
  bool stop_at_eos = false;
};

bool IsEos(const ModelConfig& config, TokenId id) {
  return std::find(config.eos_ids.begin(), config.eos_ids.end(), id) != config.eos_ids.end();
}

std::string ListIds(std::span<const TokenId> ids) { return fmt::format("{}", fmt::join(ids, " ")); }

Result<int> Run(const GenerateOptions& options) {
  KeptPlaces kept = FilesOfModel(options.model.model);
  kept.push_back(options.prompt.prompt_file.value_or(""));
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  const ResultHeader header{"kvbed-generate/1", CommandLineOfThisProcess(), options.sampling.seed,
                            UnixNs()};
  KVBED_ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(options.model));
  KVBED_ASSIGN_OR_RETURN(
      const Workload work,
      PrepareWorkload(opened.files, {options.model, options.prompt, options.pool,
                                     options.sampling.seed, options.new_tokens - 1}));
  const Prompt& prompt = work.prompt;
  for (const std::string& warning : prompt.warnings) Complain(warning);
  KVBED_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(std::move(opened), options.model));
  KVBED_ASSIGN_OR_RETURN(Decoding decoding,
                         Decoding::Start(model, *work.pool, InitialSampler(options.sampling), 0));
  KVBED_RETURN_IF_ERROR(decoding.Prefill(prompt.ids));
  const auto done = [&] {
    return options.stop_at_eos && IsEos(model.engine.config(), decoding.tokens().back());
  };
  if (options.stop_at_eos) {
    for (uint64_t call = 1; call < options.new_tokens && !done(); ++call) {
      KVBED_RETURN_IF_ERROR(decoding.Decode(1, "decode"));
    }
  } else {
    KVBED_RETURN_IF_ERROR(decoding.Decode(options.new_tokens - 1, "decode"));
  }

  const auto generated = std::span(decoding.tokens()).subspan(prompt.ids.size());
  const std::string text = DecodeText(generated, model.files);
  Json json = MakeResult(header);
  json["env"] = EnvironmentJson(ReadEnvironment({}));
  json["model"] = ModelJson(DescribeModel(model, work.geometry));
  json["prompt"] = {{"text", prompt.text ? Json(*prompt.text) : Json()},
                    {"ids", prompt.ids},
                    {"tokens", prompt.ids.size()}};
  json["generated"] = {{"ids", std::vector<TokenId>(generated.begin(), generated.end())},
                       {"text", text.empty() ? Json() : Json(text)}};
  json["timings"] = {{"load_ns", model.load_ns},
                     {"prefill_ns", decoding.prefill_ns()},
                     {"decode_ns", decoding.decode_ns()}};
  const std::string shown =
      model.files.tokenizer ? prompt.text.value_or("") + text : ListIds(generated);
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, shown + "\n", json));
  return kExitOk;
}

}  // namespace

void AddGenerateCommand(CommandLine& line) {
  GenerateOptions& options = line.Own<GenerateOptions>();
  OptionSet set = line.AddCommand("generate", "generate text, to check the engine");
  set.Group("Generate");
  AddNewTokensOption(set, options.new_tokens);
  set.Flag("--stop-at-eos", options.stop_at_eos, "stop at the end-of-text token [off]");
  AddModelOptions(set, options.model);
  AddPromptOptions(set, options.prompt);
  AddSamplingOptions(set, options.sampling);
  AddPoolOptions(set, options.pool);
  AddOutputOptions(set, options.output);
  set.Footer(
      "Prints the prompt and the text after it; ids where the model has no tokenizer.\n"
      "Exit codes: 0 done; 2 usage; 4 I/O error, resource, or unusable input.\n\n"
      "Example:\n"
      "  kvbed generate -m model.gguf --prompt \"Once upon a time\" -n 32 --temperature 0.8 --seed "
      "1");
  line.SetFunction("generate", [&options] { return Run(options); });
}

}  // namespace kvbed
