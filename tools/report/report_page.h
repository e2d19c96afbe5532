// Puts rows into one HTML page that needs no other file and no network.
// It doesn't know what the rows mean: the page's own script draws them (tools/report/page).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/result_json.h"

namespace kvbed {

// Each {{name}} of `page` gets its text; what was put in is not looked at again. A name without a
// text stays as it is.
std::string FillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string_view>>& texts);

// JSON text, the same value, that can't end a script element: < > & and the line ends U+2028 and
// U+2029, which only strings hold, are written as \uXXXX.
std::string ScriptSafe(std::string_view json);

// `nonce` is what the page's own scripts and style carry and nothing else is run by: random, so
// that no text in a row can know it.
std::string ReportPage(const Json& data, std::string_view nonce);

}  // namespace kvbed
