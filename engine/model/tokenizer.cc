#include "engine/model/tokenizer.h"

#include <fmt/format.h>

#include <unordered_map>

#include "engine/model/added_tokens.h"
#include "engine/model/byte_alphabet.h"
#include "engine/model/byte_level_bpe.h"
#include "engine/model/pre_tokenizer.h"
#include "engine/model/utf8.h"

namespace kvbed {
namespace {

bool InRange(const TokenizerDefinition& definition, TokenId id) {
  return id >= 0 && static_cast<size_t>(id) < definition.tokens.size() &&
         definition.tokens[id].kind != TokenKind::kAbsent;
}

Status CheckDefinition(const TokenizerDefinition& definition) {
  if (definition.tokens.empty()) return Status::Corruption("the tokenizer has no tokens");
  for (size_t i = 0; i < definition.merges.size(); ++i) {
    const Merge& merge = definition.merges[i];
    if (!InRange(definition, merge.left) || !InRange(definition, merge.right) ||
        !InRange(definition, merge.merged))
      return Status::Corruption(fmt::format("merge {} names an id without a token", i));
  }
  for (const auto* ids : {&definition.prefix_ids, &definition.suffix_ids})
    for (const TokenId id : *ids)
      if (!InRange(definition, id))
        return Status::Corruption(
            fmt::format("the post-processor adds id {}, which has no token", id));
  std::unordered_map<uint64_t, size_t> pairs;
  for (size_t i = 0; i < definition.merges.size(); ++i) {
    const Merge& merge = definition.merges[i];
    const auto [first, is_new] = pairs.emplace(
        uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right), i);
    if (!is_new)
      return Status::Corruption(fmt::format("merges {} and {} are the same", first->second, i));
  }
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t id = 0; id < definition.tokens.size(); ++id) {
    const TokenEntry& token = definition.tokens[id];
    if (token.kind != TokenKind::kNormal || token.text.empty()) continue;
    const auto [first, is_new] = seen.emplace(token.text, id);
    if (!is_new)
      return Status::Corruption(fmt::format("tokens {} and {} are both \"{}\"", first->second, id,
                                            PrintableText(token.text)));
  }
  return Status::Ok();
}

template <class Integer>
void AddNumber(Xxh3Stream& stream, Integer value) {
  std::array<std::byte, sizeof(uint64_t)> field;
  StoreLe<uint64_t>(field, 0, static_cast<uint64_t>(value));
  stream.Add(field);
}

Digest128 DigestOf(const TokenizerDefinition& definition) {
  Xxh3Stream stream;
  stream.AddField(AsBytes("kvbed tokenizer 1"));
  AddNumber(stream, definition.pre_tokenizer);
  AddNumber(stream, definition.ignore_merges);
  for (const auto* ids : {&definition.prefix_ids, &definition.suffix_ids}) {
    AddNumber(stream, ids->size());
    for (const TokenId id : *ids) AddNumber(stream, id);
  }
  AddNumber(stream, definition.tokens.size());
  for (const TokenEntry& token : definition.tokens) {
    AddNumber(stream, token.kind);
    stream.AddField(AsBytes(token.text));
  }
  AddNumber(stream, definition.merges.size());
  for (const Merge& merge : definition.merges) {
    AddNumber(stream, merge.left);
    AddNumber(stream, merge.right);
    AddNumber(stream, merge.merged);
  }
  return stream.Finish128();
}

// The bytes of each normal token; empty for the others, so that BPE never makes them.
std::vector<std::string> MergeableBytes(const TokenizerDefinition& definition) {
  std::vector<std::string> bytes(definition.tokens.size());
  for (size_t id = 0; id < bytes.size(); ++id) {
    const TokenEntry& token = definition.tokens[id];
    if (token.kind == TokenKind::kNormal)
      if (auto decoded = FromByteAlphabet(token.text)) bytes[id] = *std::move(decoded);
  }
  return bytes;
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(TokenizerDefinition given, PreTokenizer pre)
      : definition(std::move(given)),
        mergeable(MergeableBytes(definition)),
        bpe(mergeable, definition.merges, definition.ignore_merges),
        pre_tokenizer(std::move(pre)),
        digest(DigestOf(definition)) {
    for (size_t id = 0; id < definition.tokens.size(); ++id) {
      const TokenEntry& token = definition.tokens[id];
      if (token.text.empty()) continue;
      if (token.kind == TokenKind::kUserDefined || token.kind == TokenKind::kSpecial)
        with_special.Add(token.text, static_cast<TokenId>(id));
      if (token.kind == TokenKind::kUserDefined)
        without_special.Add(token.text, static_cast<TokenId>(id));
    }
  }

  const TokenEntry* Entry(TokenId id) const {
    return InRange(definition, id) ? &definition.tokens[id] : nullptr;
  }
  Status EncodePlain(std::string_view text, size_t text_offset, PreTokenizer::Words& words,
                     ByteLevelBpe::Scratch& scratch, std::vector<TokenId>& ids) const;

  TokenizerDefinition definition;
  std::vector<std::string> mergeable;
  ByteLevelBpe bpe;
  PreTokenizer pre_tokenizer;
  AddedTokens with_special, without_special;
  Digest128 digest;
};

Result<Tokenizer> Tokenizer::Create(TokenizerDefinition definition) {
  KVBED_RETURN_IF_ERROR(CheckDefinition(definition));
  KVBED_ASSIGN_OR_RETURN(auto pre_tokenizer, PreTokenizer::Create(definition.pre_tokenizer));
  return Tokenizer(std::make_unique<const Parts>(std::move(definition), std::move(pre_tokenizer)));
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

// Text between added tokens; `text_offset` is where it lies in the whole, for messages.
Status Tokenizer::Parts::EncodePlain(std::string_view text, size_t text_offset,
                                     PreTokenizer::Words& words, ByteLevelBpe::Scratch& scratch,
                                     std::vector<TokenId>& ids) const {
  words.Start(text);
  for (size_t at = text_offset;;) {
    KVBED_ASSIGN_OR_RETURN(const std::string_view word, words.Next());
    if (word.empty()) return Status::Ok();
    size_t missing = 0;
    if (!bpe.Encode(word, scratch, ids, &missing))
      return Status::InvalidArgument(fmt::format(
          "the text can't be encoded: byte 0x{:02x} at offset {} has no token in this model's "
          "vocabulary; remove it from the text",
          static_cast<uint8_t>(word[missing]), at + missing));
    at += word.size();
  }
}

Result<Encoding> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= UINT32_MAX)
    return Status::InvalidArgument(
        fmt::format("the text has {} bytes, the limit is 4 GiB", text.size()));
  const TokenizerDefinition& definition = parts_->definition;
  const AddedTokens& added = options.parse_special ? parts_->with_special : parts_->without_special;
  Encoding encoding;
  std::vector<TokenId>& ids = encoding.ids;
  if (options.add_special) ids = definition.prefix_ids;
  const size_t prefix = ids.size();
  PreTokenizer::Words words(parts_->pre_tokenizer);
  ByteLevelBpe::Scratch scratch;
  for (size_t at = 0; at < text.size();) {
    const auto found =
        added.empty() ? AddedTokens::Found{text.size(), text.size(), 0} : added.Find(text, at);
    KVBED_RETURN_IF_ERROR(
        parts_->EncodePlain(text.substr(at, found.begin - at), at, words, scratch, ids));
    if (found.end > found.begin) ids.push_back(found.id);
    at = found.end;
  }
  encoding.doubled_bos = prefix > 0 && ids.size() > prefix && ids[prefix] == ids[prefix - 1];
  if (options.add_special)
    ids.insert(ids.end(), definition.suffix_ids.begin(), definition.suffix_ids.end());
  return encoding;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += TokenBytes(id);
  return text;
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  const TokenEntry* entry = parts_->Entry(id);
  if (entry == nullptr) return {};
  const std::string& bytes = parts_->mergeable[id];
  // A normal token that isn't written in the byte alphabet stands for its text.
  return bytes.empty() ? std::string_view(entry->text) : std::string_view(bytes);
}

std::string Tokenizer::TokenText(TokenId id) const {
  if (parts_->Entry(id) == nullptr) return fmt::format("[{}]", id);
  return PrintableText(TokenBytes(id), SIZE_MAX);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  const TokenEntry* entry = parts_->Entry(id);
  return entry != nullptr && entry->kind == TokenKind::kSpecial;
}

TokenId Tokenizer::vocabulary_size() const {
  return static_cast<TokenId>(parts_->definition.tokens.size());
}

Digest128 Tokenizer::digest() const { return parts_->digest; }

}  // namespace kvbed
