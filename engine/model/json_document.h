// Parses JSON text that can't be trusted, and reads typed fields of an object with errors that name
// the field.
// It doesn't know what any of the documents mean. Private to this folder: no other header sees
// nlohmann-json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "offload/bytes.h"
#include "offload/status.h"

namespace kvbed {

using Json = nlohmann::json;

// Nesting of anything that kvbed reads is below 16.
inline constexpr int kJsonDepthMax = 64;

// Corruption, without the file's name, for a syntax error, nesting deeper than kJsonDepthMax, more
// values than any file of a model has, or a key that an object has twice.
Result<Json> ParseJson(Bytes text);

enum class Need : uint8_t { kRequired, kOptional };

// Each leaves `*out` alone when the field is absent or null and kOptional. Corruption, naming
// the field, when it is absent and kRequired, or of another type or range.
Status ReadField(const Json& object, std::string_view key, Need need, uint32_t* out);
Status ReadField(const Json& object, std::string_view key, Need need, double* out);
Status ReadField(const Json& object, std::string_view key, Need need, bool* out);
Status ReadField(const Json& object, std::string_view key, Need need, std::string* out);

// The field when `object` is an object that has it and it isn't null.
const Json* FindField(const Json& object, std::string_view key);

// A value for a message, cut to a readable length.
std::string JsonForMessage(const Json& value);

}  // namespace kvbed
