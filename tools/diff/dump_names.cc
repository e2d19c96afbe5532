#include "tools/diff/dump_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace kvbed {
namespace {

constexpr size_t kNamesShown = 4;
constexpr uint64_t kLayersMax = 10'000;

std::string SomeNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    text += (i > 0 ? ", " : "") + names[i].substr(0, 100);
  }
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return names.empty() ? "none" : text;
}

// K and V of each layer in place, from those that match.
Status PlaceTensors(const std::vector<std::string>& names, NamedTensors& found) {
  const KeyPattern& pattern = found.pattern;
  std::map<std::pair<uint64_t, uint64_t>, size_t> places;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto match = pattern.MatchName(names[i]);
    if (!match) {
      found.rest.push_back(i);
      continue;
    }
    const uint64_t layer = match->layer.value_or(0);
    const auto part = static_cast<uint64_t>(match->part.value_or(KvPart::kK));
    const auto [at, is_new] = places.try_emplace({layer, part}, i);
    if (!is_new) {
      return Status::Corruption(fmt::format("{} and {} are both {} of layer {} by {}",
                                            names[at->second], names[i],
                                            !pattern.has_part() ? "K and V"
                                            : part == 0         ? "K"
                                                                : "V",
                                            layer, pattern.text()));
    }
    found.layers = std::max(found.layers, layer + 1);
  }
  const uint64_t parts = pattern.has_part() ? 2 : 1;
  for (uint64_t layer = 0; layer < found.layers; ++layer) {
    for (uint64_t part = 0; part < parts; ++part) {
      const auto at = places.find({layer, part});
      if (at == places.end()) {
        return Status::Corruption(fmt::format("{} of layer {} is missing: {} goes up to layer {}",
                                              parts == 1  ? "the tensor"
                                              : part == 0 ? "K"
                                                          : "V",
                                              layer, pattern.text(), found.layers - 1));
      }
      found.tensors.push_back(at->second);
    }
  }
  return Status::Ok();
}

bool MatchesAny(const KeyPattern& pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names,
                             [&](const auto& name) { return pattern.MatchName(name).has_value(); });
}

Result<KeyPattern> ChoosePattern(const std::vector<std::string>& names) {
  std::vector<KeyPattern> matching;
  for (const std::string_view text : KnownKeyPatterns()) {
    KVBED_ASSIGN_OR_RETURN(KeyPattern pattern, KeyPattern::Parse(text));
    if (MatchesAny(pattern, names)) matching.push_back(std::move(pattern));
  }
  if (matching.size() == 1) return matching[0];
  if (matching.size() > 1) {
    return Status::InvalidArgument(
        fmt::format("the names fit both {} and {}: say which with --key-pattern",
                    matching[0].text(), matching[1].text()));
  }
  const bool plain = names.size() == 1 && names[0].find_first_of("{}") == std::string::npos;
  if (plain) return KeyPattern::Parse(names[0]);
  return Status::Corruption(
      fmt::format("no tensor has a name that is known for K or V ({}): give --key-pattern, e.g. "
                  "'layers.{{layer}}.{{keys|values}}'",
                  SomeNames(names)));
}

}  // namespace

Result<KeyPattern> KeyPattern::Parse(std::string_view text) {
  KeyPattern pattern;
  pattern.text_ = text;
  const auto bad = [&](std::string_view why) {
    return Status::InvalidArgument(fmt::format(
        "key pattern '{}': {}; write it as 'layers.{{layer}}.{{keys|values}}'", text, why));
  };
  if (text.empty()) return bad("it is empty");
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '}') return bad("a } without its {");
    if (text[at] != '{') {
      const size_t end = std::min(text.find_first_of("{}", at), text.size());
      pattern.pieces_.push_back(
          {Piece::Kind::kText, std::string(text.substr(at, end - at)), std::string()});
      at = end;
      continue;
    }
    const size_t end = text.find('}', at);
    if (end == text.npos) return bad("a { without its }");
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    const size_t bar = inside.find('|');
    if (inside == "layer") {
      if (pattern.has_layer_) return bad("{layer} stands twice");
      pattern.has_layer_ = true;
      pattern.pieces_.push_back({Piece::Kind::kLayer, {}, {}});
    } else if (bar != inside.npos && inside.find('|', bar + 1) == inside.npos) {
      if (pattern.has_part_) return bad("{K|V} stands twice");
      pattern.has_part_ = true;
      const std::string k(inside.substr(0, bar)), v(inside.substr(bar + 1));
      if (k == v) return bad("K and V have one name");
      pattern.pieces_.push_back({Piece::Kind::kPart, k, v});
    } else {
      return bad(fmt::format("{{{}}} is neither {{layer}} nor {{K|V}}", inside));
    }
    at = end + 1;
  }
  return pattern;
}

std::optional<KeyPattern::Match> KeyPattern::MatchName(std::string_view name) const {
  Match match;
  if (!MatchFrom(0, name, match)) return std::nullopt;
  return match;
}

bool KeyPattern::MatchFrom(size_t piece, std::string_view name, Match& match) const {
  if (piece == pieces_.size()) return name.empty();
  const Piece& here = pieces_[piece];
  if (here.kind == Piece::Kind::kText) {
    return name.starts_with(here.text) &&
           MatchFrom(piece + 1, name.substr(here.text.size()), match);
  }
  if (here.kind == Piece::Kind::kLayer) {
    uint64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || layer >= kLayersMax) return false;
    match.layer = layer;
    return MatchFrom(piece + 1, name.substr(static_cast<size_t>(end - name.data())), match);
  }
  for (const KvPart part : {KvPart::kK, KvPart::kV}) {
    const std::string& text = part == KvPart::kK ? here.text : here.v_text;
    if (!name.starts_with(text) || !MatchFrom(piece + 1, name.substr(text.size()), match)) continue;
    match.part = part;
    return true;
  }
  return false;
}

const std::vector<std::string_view>& KnownKeyPatterns() {
  static const std::vector<std::string_view> patterns = {
      "layers.{layer}.{keys|values}",
      "{key|value}_cache.{layer}",
      "{key|value}_cache_{layer}",
      "layers.{layer}.{key|value}",
      "layers.{layer}.{k|v}",
      "layers.{layer}.{key|value}_cache",
      "past_key_values.{layer}.{key|value}",
      "past_key_values.{layer}.{0|1}",
      "present.{layer}.{key|value}",
      "{k|v}_cache.{layer}",
      "{k|v}_buffer.{layer}",
      "{key|value}.{layer}",
      "{k|v}.{layer}",
      "layers.{layer}.kv_cache",
      "kv_cache.{layer}",
      "kv_caches.{layer}",
      "model.layers.{layer}.self_attn.attn",
      "{key|value}_cache",
      "{k|v}_cache",
      "{k|v}_buffer",
      "kv_cache",
      "kv_buffer",
  };
  return patterns;
}

Result<NamedTensors> NameTensors(const std::vector<std::string>& names,
                                 const std::optional<std::string>& given) {
  NamedTensors found;
  if (given) {
    KVBED_ASSIGN_OR_RETURN(found.pattern, KeyPattern::Parse(*given));
    if (!MatchesAny(found.pattern, names)) {
      return Status::InvalidArgument(fmt::format("--key-pattern {} matches none of its tensors: {}",
                                                 *given, SomeNames(names)));
    }
  } else {
    KVBED_ASSIGN_OR_RETURN(found.pattern, ChoosePattern(names));
  }
  KVBED_RETURN_IF_ERROR(PlaceTensors(names, found));
  return found;
}

}  // namespace kvbed
