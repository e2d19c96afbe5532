#include "engine/model/json_document.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>
#include <vector>

#include "engine/model/utf8.h"

namespace kvbed {
namespace {

// A parsed value takes some ten times the two bytes that the shortest one has in the text, so their
// number is limited: eight times what the tokenizer.json of Llama 3 holds.
constexpr uint64_t kValuesMax = 8 << 20;

// The parser keeps its own stack, but values destroy and print themselves by recursion.
Status CheckDepthAndCount(std::string_view text) {
  int depth = 0;
  uint64_t values = 1;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > kJsonDepthMax)
        return Status::Corruption(
            fmt::format("JSON is nested deeper than {} at byte {}", kJsonDepthMax, at));
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
  }
  if (values <= kValuesMax) return Status::Ok();
  return Status::Corruption(
      fmt::format("JSON holds about {} values, the limit is {}", values, kValuesMax));
}

Status WrongField(std::string_view key, std::string_view wanted, const Json& value) {
  return Status::Corruption(
      fmt::format("{} is {}, must be {}", key, JsonForMessage(value), wanted));
}

// Null when absent; an error when that isn't allowed.
Result<const Json*> Lookup(const Json& object, std::string_view key, Need need) {
  const Json* value = FindField(object, key);
  if (value == nullptr && need == Need::kRequired)
    return Status::Corruption(fmt::format("{} is missing", key));
  return value;
}

}  // namespace

Result<Json> ParseJson(Bytes bytes) {
  const std::string_view text = AsText(bytes);
  KVBED_RETURN_IF_ERROR(CheckDepthAndCount(text));
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open
  std::string twice;
  const auto watch_keys = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) twice = key.empty() ? "\"\"" : key;
    }
    return true;
  };
  try {
    Json parsed = Json::parse(text.begin(), text.end(), watch_keys);
    if (!twice.empty())
      return Status::Corruption(
          fmt::format("an object of the JSON has the key \"{}\" twice", PrintableText(twice)));
    return parsed;
  } catch (const Json::parse_error& error) {
    return Status::Corruption(fmt::format("JSON syntax error at byte {}", error.byte));
  } catch (const Json::exception& error) {  // e.g. a number out of range
    return Status::Corruption(
        fmt::format("JSON can't be read: {}", PrintableText(error.what(), 160)));
  }
}

const Json* FindField(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string JsonForMessage(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return PrintableText(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Status ReadField(const Json& object, std::string_view key, Need need, uint32_t* out) {
  KVBED_ASSIGN_OR_RETURN(const Json* value, Lookup(object, key, need));
  if (value == nullptr) return Status::Ok();
  if (!value->is_number_unsigned() || value->get<uint64_t>() > UINT32_MAX)
    return WrongField(key, "a whole number", *value);
  *out = value->get<uint32_t>();
  return Status::Ok();
}

Status ReadField(const Json& object, std::string_view key, Need need, double* out) {
  KVBED_ASSIGN_OR_RETURN(const Json* value, Lookup(object, key, need));
  if (value == nullptr) return Status::Ok();
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return WrongField(key, "a number", *value);
  *out = value->get<double>();
  return Status::Ok();
}

Status ReadField(const Json& object, std::string_view key, Need need, bool* out) {
  KVBED_ASSIGN_OR_RETURN(const Json* value, Lookup(object, key, need));
  if (value == nullptr) return Status::Ok();
  if (!value->is_boolean()) return WrongField(key, "true or false", *value);
  *out = value->get<bool>();
  return Status::Ok();
}

Status ReadField(const Json& object, std::string_view key, Need need, std::string* out) {
  KVBED_ASSIGN_OR_RETURN(const Json* value, Lookup(object, key, need));
  if (value == nullptr) return Status::Ok();
  if (!value->is_string()) return WrongField(key, "a text", *value);
  *out = value->get<std::string>();
  return Status::Ok();
}

}  // namespace kvbed
