#include "tools/report/report_page.h"

#include <algorithm>

#include "tools/report/report_files.h"

namespace kvbed {

std::string FillPage(std::string_view page,
                     const std::vector<std::pair<std::string_view, std::string_view>>& texts) {
  std::string out;
  while (!page.empty()) {
    const size_t open = std::min(page.find("{{"), page.size());
    out += page.substr(0, open);
    page.remove_prefix(open);
    const auto text = std::find_if(texts.begin(), texts.end(), [&](const auto& one) {
      return page.starts_with("{{" + std::string(one.first) + "}}");
    });
    const bool known = text != texts.end();
    const size_t taken = known ? text->first.size() + 4 : std::min<size_t>(2, page.size());
    out += known ? text->second : page.substr(0, taken);
    page.remove_prefix(taken);
  }
  return out;
}

std::string ScriptSafe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9") {
      out += rest == "\xE2\x80\xA8" ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (json[i] == '<' || json[i] == '>' || json[i] == '&') {
      out += json[i] == '<' ? "\\u003c" : json[i] == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += json[i];
    }
  }
  return out;
}

std::string ReportPage(const Json& data, std::string_view nonce) {
  return FillPage(ReportPageHtml(), {{"nonce", nonce},
                                     {"style", ReportStyle()},
                                     {"error_script", ReportErrorScript()},
                                     {"chart_library", ReportChartLibrary()},
                                     {"data", ScriptSafe(JsonLine(data))},
                                     {"script", ReportScript()}});
}

}  // namespace kvbed
