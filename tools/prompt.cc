#include "tools/prompt.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <random>

#include "tools/interrupt.h"
#include "tools/memory_room.h"

namespace kvbed {
namespace {

constexpr size_t kPromptBytesMax = size_t{1} << 30;
constexpr uint64_t kToyPromptTokens = 16;

struct FileCloser {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

std::vector<TokenId> SeededIds(uint64_t count, uint32_t vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocab);
  return ids;
}

Result<Prompt> Tokenize(std::string text, const PromptOptions& options, const ModelFiles& model) {
  if (!model.tokenizer) {
    return Status::InvalidArgument(
        fmt::format("{} has no tokenizer ({}): give the prompt as --prompt-ids", model.name,
                    model.no_tokenizer_reason));
  }
  EncodeOptions encode;
  encode.parse_special = options.parse_special;
  KVBED_ASSIGN_OR_RETURN(Encoding encoding, model.tokenizer->Encode(text, encode));
  Prompt prompt;
  if (encoding.doubled_bos) {
    prompt.warnings.push_back(
        "the prompt begins with the beginning-of-text token that the tokenizer adds by itself, so "
        "it is there twice");
  }
  prompt.ids = std::move(encoding.ids);
  prompt.text = std::move(text);
  return prompt;
}

}  // namespace

Result<std::string> ReadPromptFile(const std::string& path) {
  const bool standard_input = path == "-";
  std::unique_ptr<std::FILE, FileCloser> file(standard_input ? stdin
                                                             : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return StatusFromErrno(errno, fmt::format("open --prompt-file {}", path));
  std::string text;
  std::array<char, 65536> chunk;
  for (size_t got; (got = std::fread(chunk.data(), 1, chunk.size(), file.get())) > 0;) {
    if (Interrupted()) return InterruptedStatus();
    text.append(chunk.data(), got);
    if (text.size() > kPromptBytesMax) {
      return Status::InvalidArgument(fmt::format("--prompt-file {} is above 1 GiB", path));
    }
  }
  if (std::ferror(file.get()) != 0) {
    return StatusFromErrno(errno, fmt::format("read --prompt-file {}", path));
  }
  return text;
}

Result<Prompt> ResolvePrompt(const PromptOptions& options, const ModelFiles& model, uint64_t seed,
                             uint64_t token_bytes) {
  if (options.ctx) {
    KVBED_RETURN_IF_ERROR(CheckMemoryFor(*options.ctx, token_bytes,
                                         fmt::format("--ctx {}: so many tokens", *options.ctx)));
  }
  const bool toy = model.weights.tensors().begin()->second.type == StoredType::kGenerated;
  Prompt prompt;
  if (options.prompt_ids) {
    prompt.ids = *options.prompt_ids;
  } else if (options.prompt) {
    KVBED_ASSIGN_OR_RETURN(prompt, Tokenize(*options.prompt, options, model));
  } else if (options.prompt_file) {
    KVBED_ASSIGN_OR_RETURN(std::string text, ReadPromptFile(*options.prompt_file));
    KVBED_ASSIGN_OR_RETURN(prompt, Tokenize(std::move(text), options, model));
  } else if (toy) {
    prompt.ids = SeededIds(options.ctx.value_or(kToyPromptTokens), model.config.vocab, seed);
  } else {
    return Status::InvalidArgument("no prompt: give --prompt, --prompt-file or --prompt-ids");
  }
  if (prompt.ids.empty()) return Status::InvalidArgument("the prompt is empty");
  for (TokenId id : prompt.ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < model.config.vocab) continue;
    return Status::InvalidArgument(
        fmt::format("token id {} is outside the vocabulary of {} (0 to {})", id, model.name,
                    model.config.vocab - 1));
  }
  if (options.ctx) {
    const size_t given = prompt.ids.size();
    prompt.ids.resize(*options.ctx);
    for (size_t i = given; i < prompt.ids.size(); ++i) prompt.ids[i] = prompt.ids[i - given];
  }
  return prompt;
}

}  // namespace kvbed
