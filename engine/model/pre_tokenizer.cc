#include "engine/model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "engine/model/utf8.h"

namespace kvbed {
namespace {

// Unicode's White_Space, which is what \s means in the regex engine of Hugging Face's tokenizers.
// PCRE2's own \s also holds U+180E.
#define KVBED_SPACE                                                                     \
  R"(\x{09}-\x{0d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f})" \
  R"(\x{205f}\x{3000})"

// GPT-2 (openai/gpt-2, src/encoder.py) with (?!\S) written as (?![^\s]).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" KVBED_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" KVBED_SPACE R"(]+(?![^)" KVBED_SPACE R"(])|[)" KVBED_SPACE R"(]+)";

// Digits(individual_digits) first, then GPT-2's pattern between them, in one: a numeric character
// is a word, and ends the text that the look-ahead after spaces can see.
constexpr std::string_view kDigitsGpt2Pattern =
    R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^)" KVBED_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" KVBED_SPACE R"(]+(?![^)" KVBED_SPACE R"(\p{N}])|[)" KVBED_SPACE R"(]+)";

// kLlama3SplitPattern.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^)" KVBED_SPACE
    R"(\p{L}\p{N}]+[\r\n]*|[)" KVBED_SPACE R"(]*[\r\n]+|[)" KVBED_SPACE R"(]+(?![^)" KVBED_SPACE
    R"(])|[)" KVBED_SPACE R"(]+)";

#undef KVBED_SPACE

std::string_view PatternOf(PreTokenizerKind kind) {
  switch (kind) {
    case PreTokenizerKind::kGpt2: return kGpt2Pattern;
    case PreTokenizerKind::kDigitsGpt2: return kDigitsGpt2Pattern;
    case PreTokenizerKind::kLlama3: return kLlama3Pattern;
  }
  return {};
}

// Private use, so of category Co. A text may hold it too and means the same: neither letter, number
// nor space.
constexpr uint32_t kStrayCharacter = 0xe000;
constexpr size_t kStrayBytes = 3;  // in UTF-8

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[120];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0)
    return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct PreTokenizer::Pattern {
  explicit Pattern(pcre2_code* compiled) : code(compiled) {}
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { pcre2_code_free(code); }

  pcre2_code* const code;
};

Result<PreTokenizer> PreTokenizer::Create(PreTokenizerKind kind) {
  const std::string_view text = PatternOf(kind);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (code == nullptr)
    return Status::NotSupported(fmt::format(
        "this PCRE2 can't compile the pre-tokenizer's pattern (built without Unicode?): "
        "{} at {}",
        ErrorText(error), offset));
  // Where there is no compiler for this CPU, matching is interpreted: slower, the same words.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return PreTokenizer(std::make_unique<const Pattern>(code));
}

PreTokenizer::PreTokenizer(std::unique_ptr<const Pattern> pattern) : pattern_(std::move(pattern)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

struct PreTokenizer::Words::Matching {
  explicit Matching(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr)) {
    KVBED_CHECK(data != nullptr && context != nullptr);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    // A megabyte of spaces steps back through all of them once; that is no runaway pattern.
    pcre2_set_match_limit(context, UINT32_MAX);
  }
  ~Matching() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Matching(const Matching&) = delete;
  Matching& operator=(const Matching&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

PreTokenizer::Words::Words(const PreTokenizer& pre_tokenizer)
    : pre_tokenizer_(pre_tokenizer),
      matching_(std::make_unique<Matching>(pre_tokenizer.pattern_->code)) {}

PreTokenizer::Words::~Words() = default;

void PreTokenizer::Words::Start(std::string_view text) {
  text_ = subject_ = text;
  subject_at_ = text_at_ = next_stray_ = 0;
  substituted_.clear();
  stray_.clear();
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    if (point.length == 0) {
      substituted_.append(text, copied, at - copied);
      stray_.push_back(substituted_.size());
      AppendUtf8(kStrayCharacter, substituted_);
      copied = at + 1;
    }
    at += point.length == 0 ? 1 : point.length;
  }
  if (stray_.empty()) return;
  substituted_.append(text, copied);
  subject_ = substituted_;
}

// Offsets only ever grow.
size_t PreTokenizer::Words::TextOffset(size_t subject_offset) {
  while (next_stray_ < stray_.size() && stray_[next_stray_] < subject_offset) ++next_stray_;
  return subject_offset - next_stray_ * (kStrayBytes - 1);
}

Result<std::string_view> PreTokenizer::Words::Next() {
  if (subject_at_ == subject_.size()) return std::string_view();
  const int found = pcre2_match(
      pre_tokenizer_.pattern_->code, reinterpret_cast<PCRE2_SPTR>(subject_.data()), subject_.size(),
      subject_at_, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, matching_->data, matching_->context);
  size_t begin = subject_.size(), end = subject_.size();
  if (found > 0) {
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(matching_->data);
    begin = offsets[0];
    end = offsets[1];
  } else if (found != PCRE2_ERROR_NOMATCH) {
    return Status::NotSupported(fmt::format("cutting the text into words failed at byte {}: {}",
                                            text_at_, ErrorText(found)));
  }
  // What no alternative matches is a word by itself, as with Split's behavior "Isolated".
  const size_t word_end = begin > subject_at_ ? begin : end;
  subject_at_ = word_end;
  const size_t text_end = TextOffset(word_end);
  const std::string_view word = text_.substr(text_at_, text_end - text_at_);
  text_at_ = text_end;
  return word;
}

}  // namespace kvbed
