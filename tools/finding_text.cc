#include "tools/finding_text.h"

#include <fmt/format.h>

namespace kvbed {

std::vector<std::string> FindingLines(const Finding& finding) {
  const uint64_t first_token = finding.first_token.value_or(0);
  std::vector<std::string> lines;
  lines.push_back(fmt::format("FINDING   {}: tokens {} to {}: {}", CheckName(finding.check),
                              first_token, first_token + finding.token_count.value_or(1) - 1,
                              finding.message));
  lines.push_back(fmt::format(
      "          expected {}, found {}{}{}", finding.expected, finding.actual,
      finding.damage ? fmt::format("; damage: {}", DamageName(*finding.damage)) : "",
      finding.reread ? fmt::format("; read again: {}", RereadName(*finding.reread)) : ""));
  if (!finding.place.empty()) lines.push_back("          in " + finding.place);
  return lines;
}

}  // namespace kvbed
