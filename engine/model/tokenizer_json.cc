#include "engine/model/tokenizer_json.h"

#include <fmt/format.h>

#include "engine/model/json_document.h"
#include "engine/model/merge_list.h"
#include "engine/model/pre_tokenizer.h"
#include "engine/model/utf8.h"

// The parts and their defaults: the serialised forms of huggingface/tokenizers, tokenizers/src.

namespace kvbed {
namespace {

Status Refuse(std::string_view what) {
  return Status::NotSupported(fmt::format("{}; kvbed can't tokenize like this model", what));
}

std::string TypeOf(const Json& part) {
  const Json* type = FindField(part, "type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : std::string();
}

// A Sequence's members, of which the lists have these names; any other part is its own only one.
std::vector<Json> Members(const Json& part, std::string_view list_name) {
  const Json* list = TypeOf(part) == "Sequence" ? FindField(part, list_name) : nullptr;
  if (list == nullptr || !list->is_array()) return {part};
  return {list->begin(), list->end()};
}

Result<bool> Flag(const Json& part, std::string_view key, bool otherwise) {
  KVBED_RETURN_IF_ERROR(ReadField(part, key, Need::kOptional, &otherwise));
  return otherwise;
}

Status CheckNormalizer(const Json& json) {
  const Json* normalizer = FindField(json, "normalizer");
  if (normalizer == nullptr) return Status::Ok();
  for (const Json& member : Members(*normalizer, "normalizers"))
    return Refuse(fmt::format("normalizer {} isn't supported", JsonForMessage(TypeOf(member))));
  return Status::Ok();
}

// ByteLevel's use_regex, after checking that it adds no space before the text.
Result<bool> ByteLevelUsesRegex(const Json& part) {
  KVBED_ASSIGN_OR_RETURN(const bool adds_space, Flag(part, "add_prefix_space", true));
  if (adds_space) return Refuse("pre_tokenizer ByteLevel with add_prefix_space isn't supported");
  return Flag(part, "use_regex", true);
}

Status CheckSplit(const Json& part) {
  const Json* pattern = FindField(part, "pattern");
  const Json* regex = pattern == nullptr ? nullptr : FindField(*pattern, "Regex");
  if (regex == nullptr || *regex != kLlama3SplitPattern)
    return Refuse(fmt::format("pre_tokenizer Split with pattern {} isn't supported",
                              regex == nullptr ? "of another kind" : JsonForMessage(*regex)));
  const Json* behavior = FindField(part, "behavior");
  KVBED_ASSIGN_OR_RETURN(const bool invert, Flag(part, "invert", false));
  if (behavior == nullptr || *behavior != "Isolated" || invert)
    return Refuse("pre_tokenizer Split is supported with behavior Isolated and invert false only");
  return Status::Ok();
}

Result<PreTokenizerKind> ReadPreTokenizer(const Json& json) {
  const Json* part = FindField(json, "pre_tokenizer");
  if (part == nullptr) return Refuse("a tokenizer without pre_tokenizer isn't supported");
  const std::vector<Json> members = Members(*part, "pretokenizers");
  std::string types;
  for (const Json& member : members) types += (types.empty() ? "" : ", ") + TypeOf(member);
  if (types == "ByteLevel") {
    KVBED_ASSIGN_OR_RETURN(const bool regex, ByteLevelUsesRegex(members[0]));
    if (regex) return PreTokenizerKind::kGpt2;
    return Refuse("pre_tokenizer ByteLevel without use_regex isn't supported");
  }
  if (types == "Digits, ByteLevel") {
    KVBED_ASSIGN_OR_RETURN(const bool individual, Flag(members[0], "individual_digits", false));
    KVBED_ASSIGN_OR_RETURN(const bool regex, ByteLevelUsesRegex(members[1]));
    if (individual && regex) return PreTokenizerKind::kDigitsGpt2;
    return Refuse(
        "pre_tokenizer Digits + ByteLevel is supported with individual_digits and use_regex only");
  }
  if (types == "Split, ByteLevel") {
    KVBED_RETURN_IF_ERROR(CheckSplit(members[0]));
    KVBED_ASSIGN_OR_RETURN(const bool regex, ByteLevelUsesRegex(members[1]));
    if (!regex) return PreTokenizerKind::kLlama3;
    return Refuse("pre_tokenizer Split + ByteLevel with use_regex isn't supported");
  }
  return Refuse(fmt::format("pre_tokenizer {} isn't supported", JsonForMessage(types)));
}

Status CheckModel(const Json& model) {
  if (const std::string type = TypeOf(model); type != "BPE")
    return Refuse(
        fmt::format("tokenizer model {} isn't supported (only BPE is)", JsonForMessage(type)));
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string affix;
    KVBED_RETURN_IF_ERROR(ReadField(model, key, Need::kOptional, &affix));
    if (!affix.empty()) return Refuse(fmt::format("{} isn't supported", key));
  }
  KVBED_ASSIGN_OR_RETURN(const bool fallback, Flag(model, "byte_fallback", false));
  if (fallback) return Refuse("byte_fallback isn't supported");
  double dropout = 0;
  KVBED_RETURN_IF_ERROR(ReadField(model, "dropout", Need::kOptional, &dropout));
  if (dropout != 0) return Refuse("dropout isn't supported");
  return Status::Ok();
}

Status CheckDecoder(const Json& json) {
  const Json* decoder = FindField(json, "decoder");
  if (decoder == nullptr || TypeOf(*decoder) == "ByteLevel") return Status::Ok();
  return Refuse(fmt::format("decoder {} isn't supported", JsonForMessage(TypeOf(*decoder))));
}

// Ids are an index; those of a sane file leave few holes, so that a small file can't ask for a
// large table.
Result<TokenId> ReadId(const Json& id, size_t tokens) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= 2 * tokens + 1024)
    return Status::Corruption(
        fmt::format("token id {} is out of place among {} tokens", JsonForMessage(id), tokens));
  return id.get<TokenId>();
}

void Grow(std::vector<TokenEntry>& tokens, TokenId id) {
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
}

Status ReadVocabulary(const Json& model, size_t count, std::vector<TokenEntry>* tokens) {
  const Json& vocabulary = *FindField(model, "vocab");
  for (const auto& [text, value] : vocabulary.items()) {
    KVBED_ASSIGN_OR_RETURN(const TokenId id, ReadId(value, count));
    Grow(*tokens, id);
    TokenEntry& entry = (*tokens)[id];
    if (entry.kind != TokenKind::kAbsent)
      return Status::Corruption(fmt::format("tokens \"{}\" and \"{}\" both have id {}",
                                            PrintableText(entry.text), PrintableText(text), id));
    entry = {text, TokenKind::kNormal};
  }
  return Status::Ok();
}

Status ReadAddedToken(const Json& added, size_t count, std::vector<TokenEntry>* tokens) {
  std::string text;
  KVBED_RETURN_IF_ERROR(ReadField(added, "content", Need::kRequired, &text));
  if (text.empty()) return Status::Corruption("an added token has no content");
  for (const std::string_view key : {"lstrip", "rstrip", "single_word"}) {
    KVBED_ASSIGN_OR_RETURN(const bool set, Flag(added, key, false));
    if (set)
      return Refuse(
          fmt::format("added token \"{}\" with {} isn't supported", PrintableText(text), key));
  }
  const Json* value = FindField(added, "id");
  if (value == nullptr)
    return Status::Corruption(fmt::format("added token \"{}\" has no id", PrintableText(text)));
  KVBED_ASSIGN_OR_RETURN(const TokenId id, ReadId(*value, count));
  KVBED_ASSIGN_OR_RETURN(const bool special, Flag(added, "special", false));
  Grow(*tokens, id);
  TokenEntry& entry = (*tokens)[id];
  if (entry.kind != TokenKind::kAbsent && entry.text != text)
    return Status::Corruption(fmt::format("tokens \"{}\" and \"{}\" both have id {}",
                                          PrintableText(entry.text), PrintableText(text), id));
  entry = {text, special ? TokenKind::kSpecial : TokenKind::kUserDefined};
  return Status::Ok();
}

Status ReadTokens(const Json& json, const Json& model, std::vector<TokenEntry>* tokens) {
  const Json* vocabulary = FindField(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object())
    return Status::Corruption("model.vocab is missing or no object");
  const Json* added = FindField(json, "added_tokens");
  const size_t count = vocabulary->size() + (added == nullptr ? 0 : added->size());
  KVBED_RETURN_IF_ERROR(ReadVocabulary(model, count, tokens));
  if (added == nullptr) return Status::Ok();
  for (const Json& token : *added) KVBED_RETURN_IF_ERROR(ReadAddedToken(token, count, tokens));
  return Status::Ok();
}

Result<Merge> ReadMerge(const Json& merge, const MergeResolver& resolver) {
  if (merge.is_string()) return resolver.ResolveLine(merge.get_ref<const std::string&>());
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return resolver.Resolve(merge[0].get_ref<const std::string&>(),
                            merge[1].get_ref<const std::string&>());
  return Status::Corruption("it is neither a text nor a pair of texts");
}

Status ReadMerges(const Json& model, TokenizerDefinition* definition) {
  const Json* merges = FindField(model, "merges");
  if (merges == nullptr || !merges->is_array())
    return Status::Corruption("model.merges is missing or no list");
  const MergeResolver resolver(definition->tokens);
  for (const Json& line : *merges) {
    auto merge = ReadMerge(line, resolver);
    if (!merge.ok())
      return merge.status().WithContext(fmt::format("merge {}", definition->merges.size()));
    definition->merges.push_back(*merge);
  }
  return Status::Ok();
}

// One piece of TemplateProcessing's "single": the text, or a special token with its ids.
Status ReadTemplatePiece(const Json& piece, const Json& special_tokens, bool* text_seen,
                         TokenizerDefinition* definition) {
  if (FindField(piece, "Sequence") != nullptr) {
    if (*text_seen) return Refuse("post_processor TemplateProcessing repeats the text");
    *text_seen = true;
    return Status::Ok();
  }
  const Json* special = FindField(piece, "SpecialToken");
  std::string name;
  if (special == nullptr) return Status::Corruption("a piece of TemplateProcessing is unknown");
  KVBED_RETURN_IF_ERROR(ReadField(*special, "id", Need::kRequired, &name));
  const Json* token = FindField(special_tokens, name);
  const Json* ids = token == nullptr ? nullptr : FindField(*token, "ids");
  if (ids == nullptr || !ids->is_array())
    return Status::Corruption(
        fmt::format("post_processor names the special token \"{}\" without "
                    "ids",
                    PrintableText(name)));
  for (const Json& value : *ids) {
    KVBED_ASSIGN_OR_RETURN(const TokenId id, ReadId(value, definition->tokens.size()));
    (*text_seen ? definition->suffix_ids : definition->prefix_ids).push_back(id);
  }
  return Status::Ok();
}

Status ReadPostProcessor(const Json& json, TokenizerDefinition* definition) {
  const Json* processor = FindField(json, "post_processor");
  if (processor == nullptr) return Status::Ok();
  bool template_seen = false;
  for (const Json& member : Members(*processor, "processors")) {
    const std::string type = TypeOf(member);
    if (type == "ByteLevel") continue;  // moves offsets, not ids
    if (type != "TemplateProcessing" || template_seen)
      return Refuse(fmt::format("post_processor {} isn't supported", JsonForMessage(type)));
    template_seen = true;
    const Json* single = FindField(member, "single");
    const Json* special_tokens = FindField(member, "special_tokens");
    if (single == nullptr || !single->is_array())
      return Status::Corruption("post_processor TemplateProcessing has no list \"single\"");
    bool text_seen = false;
    for (const Json& piece : *single)
      KVBED_RETURN_IF_ERROR(ReadTemplatePiece(
          piece, special_tokens == nullptr ? Json() : *special_tokens, &text_seen, definition));
    if (!text_seen)
      return Status::Corruption("post_processor TemplateProcessing leaves out the text");
  }
  return Status::Ok();
}

}  // namespace

Result<TokenizerDefinition> ParseTokenizerJson(std::string_view text) {
  KVBED_ASSIGN_OR_RETURN(const Json json, ParseJson(AsBytes(text)));
  const Json* model = FindField(json, "model");
  if (model == nullptr) return Status::Corruption("model is missing: no tokenizer.json");
  KVBED_RETURN_IF_ERROR(CheckModel(*model));
  KVBED_RETURN_IF_ERROR(CheckNormalizer(json));
  KVBED_RETURN_IF_ERROR(CheckDecoder(json));
  TokenizerDefinition definition;
  KVBED_ASSIGN_OR_RETURN(definition.pre_tokenizer, ReadPreTokenizer(json));
  KVBED_ASSIGN_OR_RETURN(definition.ignore_merges, Flag(*model, "ignore_merges", false));
  KVBED_RETURN_IF_ERROR(ReadTokens(json, *model, &definition.tokens));
  KVBED_RETURN_IF_ERROR(ReadMerges(*model, &definition));
  KVBED_RETURN_IF_ERROR(ReadPostProcessor(json, &definition));
  return definition;
}

}  // namespace kvbed
