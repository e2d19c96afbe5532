// Which tensor of a dump is K or V of which layer: patterns of names such as
// "layers.{layer}.{keys|values}". It doesn't know shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/kv_geometry.h"
#include "offload/status.h"

namespace kvbed {

// Text with {layer} for the layer's number and {K|V} for what names K and V, as {keys|values}. Each
// stands at most once: without {layer} one tensor has all layers, without {K|V} it has both.
class KeyPattern {
 public:
  // Invalid argument for an unclosed or unknown {...}.
  static Result<KeyPattern> Parse(std::string_view text);

  struct Match {
    std::optional<uint64_t> layer;
    std::optional<KvPart> part;
  };
  std::optional<Match> MatchName(std::string_view name) const;

  const std::string& text() const { return text_; }
  bool has_layer() const { return has_layer_; }
  bool has_part() const { return has_part_; }

 private:
  struct Piece {
    enum class Kind { kText, kLayer, kPart } kind = Kind::kText;
    std::string text;    // of kText, or what names K
    std::string v_text;  // what names V
  };
  bool MatchFrom(size_t piece, std::string_view name, Match& match) const;

  std::string text_;
  std::vector<Piece> pieces_;
  bool has_layer_ = false;
  bool has_part_ = false;
};

// The patterns that are tried when none is given.
const std::vector<std::string_view>& KnownKeyPatterns();

struct NamedTensors {
  KeyPattern pattern;
  // Indices into the names: K then V of each layer, or one a layer, or K and V, or one.
  std::vector<size_t> tensors;
  uint64_t layers = 1;       // that the names count
  std::vector<size_t> rest;  // that the pattern doesn't match
};

// `given`: the pattern, nullopt to try the known ones and, for a file of one tensor, its name.
// Invalid argument when a given pattern matches nothing or several known ones do; corruption for a
// layer that is missing or there twice, and for names that nothing is known of.
Result<NamedTensors> NameTensors(const std::vector<std::string>& names,
                                 const std::optional<std::string>& given);

}  // namespace kvbed
