// Cuts text into the words that BPE merges within, by the regular expression of a known
// pre-tokenizer.
// It doesn't know tokens. Any other pattern is refused where files are read, never approximated.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer_definition.h"
#include "offload/status.h"

namespace kvbed {

// Llama 3's pattern as tokenizer.json writes it; what kvbed runs is its own translation.
inline constexpr std::string_view kLlama3SplitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

class PreTokenizer {
 public:
  static Result<PreTokenizer> Create(PreTokenizerKind kind);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Passes over texts, one after the other. The PreTokenizer must outlive it; one thread.
  class Words {
   public:
    explicit Words(const PreTokenizer& pre_tokenizer);
    ~Words();
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;

    // `text` must live until the last Next().
    void Start(std::string_view text);
    // The next word, a part of the text; empty at the end. Words follow each other without gaps.
    Result<std::string_view> Next();

   private:
    struct Matching;
    size_t TextOffset(size_t subject_offset);

    const PreTokenizer& pre_tokenizer_;
    std::string_view text_;
    // What the pattern sees: the text, or a copy in which each byte outside well-formed UTF-8 is
    // one private-use character, which is neither letter, number nor space.
    std::string substituted_;
    std::vector<size_t> stray_;  // where in the copy those are, ascending
    size_t next_stray_ = 0;
    std::string_view subject_;
    size_t subject_at_ = 0;
    size_t text_at_ = 0;
    std::unique_ptr<Matching> matching_;
  };

 private:
  struct Pattern;
  explicit PreTokenizer(std::unique_ptr<const Pattern> pattern);
  std::unique_ptr<const Pattern> pattern_;
};

}  // namespace kvbed
