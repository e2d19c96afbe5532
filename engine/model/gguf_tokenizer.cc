#include "engine/model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <array>

#include "engine/model/merge_list.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

Status RefuseTokenizer(std::string_view what) {
  return Status::NotSupported(fmt::format("{}; kvbed can't tokenize like this model", what));
}

// What llama.cpp derives from tokenizer.ggml.pre: src/llama-vocab.cpp, llama_vocab::impl::load.
struct PreTokenizerName {
  std::string_view name;
  PreTokenizerKind kind;
  bool ignore_merges;
  bool adds_bos;  // when add_bos_token is absent
};
constexpr std::array<PreTokenizerName, 7> kPreTokenizers = {
    {{"smollm", PreTokenizerKind::kDigitsGpt2, false, false},
     {"starcoder", PreTokenizerKind::kDigitsGpt2, false, false},
     {"refact", PreTokenizerKind::kDigitsGpt2, false, false},
     {"gpt-2", PreTokenizerKind::kGpt2, false, false},
     {"llama-bpe", PreTokenizerKind::kLlama3, true, true},
     {"llama3", PreTokenizerKind::kLlama3, true, true},
     {"llama-v3", PreTokenizerKind::kLlama3, true, true}}};

Result<PreTokenizerName> ReadPreTokenizer(const GgufFile& file) {
  KVBED_ASSIGN_OR_RETURN(const auto model, file.Text("tokenizer.ggml.model"));
  if (!model || *model != "gpt2")
    return RefuseTokenizer(
        fmt::format("tokenizer.ggml.model \"{}\" isn't supported (only \"gpt2\" is)",
                    PrintableText(model.value_or(""))));
  KVBED_ASSIGN_OR_RETURN(const auto pre, file.Text("tokenizer.ggml.pre"));
  if (!pre)
    return RefuseTokenizer("tokenizer.ggml.pre is missing, so the pre-tokenizer isn't known");
  std::string names;
  for (const PreTokenizerName& known : kPreTokenizers) {
    if (known.name == *pre) return known;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  return RefuseTokenizer(
      fmt::format("pre-tokenizer tokenizer.ggml.pre \"{}\" isn't supported (known: {})",
                  PrintableText(*pre), names));
}

// Types: enum llama_token_type in llama.h.
Result<TokenKind> KindOf(int64_t type) {
  switch (type) {
    case 1: return TokenKind::kNormal;
    case 2:  // unknown
    case 3: return TokenKind::kSpecial;
    case 4: return TokenKind::kUserDefined;
    case 5: return TokenKind::kAbsent;  // a row without a token
    default:
      return Status::Corruption(
          fmt::format("tokenizer.ggml.token_type holds {}, must be 1 to 5", type));
  }
}

Status ReadTokens(const GgufFile& file, uint32_t vocabulary_size, std::vector<TokenEntry>* tokens) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens",
                             kTypes = "tokenizer.ggml.token_type";
  // The counts first: the arrays may be as long as the file.
  const GgufValue* texts_value = file.Find(kTokens);
  const GgufValue* types_value = file.Find(kTypes);
  if (texts_value == nullptr) return Status::Corruption(fmt::format("{} is missing", kTokens));
  if (texts_value->count > vocabulary_size)
    return Status::Corruption(fmt::format("{} has {} tokens, the model's vocabulary {}", kTokens,
                                          texts_value->count, vocabulary_size));
  KVBED_ASSIGN_OR_RETURN(const auto texts, file.Texts(kTokens));
  if (types_value != nullptr && types_value->count != texts_value->count)
    return Status::Corruption(fmt::format("{} has length {}, {} has {}", kTypes, types_value->count,
                                          kTokens, texts_value->count));
  KVBED_ASSIGN_OR_RETURN(const auto types, file.WholeNumbers(kTypes));
  for (size_t id = 0; id < texts.size(); ++id) {
    KVBED_ASSIGN_OR_RETURN(const TokenKind kind, KindOf(types.empty() ? 1 : types[id]));
    if (kind == TokenKind::kAbsent)
      tokens->emplace_back();
    else
      tokens->push_back({std::string(texts[id]), kind});
  }
  return Status::Ok();
}

Status ReadMerges(const GgufFile& file, TokenizerDefinition* definition) {
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  if (file.Find(kMerges) == nullptr)
    return Status::Corruption(fmt::format("{} is missing", kMerges));
  KVBED_ASSIGN_OR_RETURN(const auto lines, file.Texts(kMerges));
  const MergeResolver resolver(definition->tokens);
  for (const std::string_view line : lines) {
    auto merge = resolver.ResolveLine(line);
    if (!merge.ok())
      return merge.status().WithContext(
          fmt::format("{}, merge {}", kMerges, definition->merges.size()));
    definition->merges.push_back(*merge);
  }
  return Status::Ok();
}

// The id that a post-processor adds, when `flag_key` (or, absent, `otherwise`) asks for it.
Status ReadAddedId(const GgufFile& file, std::string_view flag_key, bool otherwise,
                   std::string_view id_key, std::vector<TokenId>* ids) {
  KVBED_ASSIGN_OR_RETURN(const auto flag, file.Flag(flag_key));
  if (!flag.value_or(otherwise)) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const auto id, file.WholeNumber(id_key));
  if (!id || *id > INT32_MAX)
    return Status::Corruption(
        fmt::format("the tokenizer adds {} (by {}), and that is missing", id_key, flag_key));
  ids->push_back(static_cast<TokenId>(*id));
  return Status::Ok();
}

}  // namespace

Result<std::optional<TokenizerDefinition>> ReadGgufTokenizer(const GgufFile& file,
                                                             uint32_t vocabulary_size) {
  std::optional<TokenizerDefinition> definition;
  if (file.Find("tokenizer.ggml.model") == nullptr && file.Find("tokenizer.ggml.tokens") == nullptr)
    return definition;
  KVBED_ASSIGN_OR_RETURN(const PreTokenizerName pre, ReadPreTokenizer(file));
  KVBED_ASSIGN_OR_RETURN(const auto adds_space, file.Flag("tokenizer.ggml.add_space_prefix"));
  if (adds_space.value_or(false))
    return RefuseTokenizer("tokenizer.ggml.add_space_prefix isn't supported");
  definition.emplace();
  definition->pre_tokenizer = pre.kind;
  definition->ignore_merges = pre.ignore_merges;
  KVBED_RETURN_IF_ERROR(ReadTokens(file, vocabulary_size, &definition->tokens));
  KVBED_RETURN_IF_ERROR(ReadMerges(file, &*definition));
  KVBED_RETURN_IF_ERROR(ReadAddedId(file, "tokenizer.ggml.add_bos_token", pre.adds_bos,
                                    "tokenizer.ggml.bos_token_id", &definition->prefix_ids));
  KVBED_RETURN_IF_ERROR(ReadAddedId(file, "tokenizer.ggml.add_eos_token", false,
                                    "tokenizer.ggml.eos_token_id", &definition->suffix_ids));
  return definition;
}

}  // namespace kvbed
