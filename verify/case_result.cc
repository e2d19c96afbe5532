#include "verify/case_result.h"

#include <fmt/format.h>

namespace kvbed {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the well-formed UTF-8 character at the start of `text` that XML 1.0 allows; 0 for none.
size_t XmlCharacterBytes(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  uint32_t code = first & (0x7F >> size);
  for (size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool no_character = code == 0xFFFE || code == 0xFFFF || code > 0x10FFFF;
  return overlong || surrogate || no_character ? 0 : size;
}

// For an attribute or for text between tags.
std::string XmlText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = XmlCharacterBytes(text);
    const std::string_view character = text.substr(0, size);
    if (size == 0) {
      out += kReplacement;
    } else if (character == "&") {
      out += "&amp;";
    } else if (character == "<") {
      out += "&lt;";
    } else if (character == ">") {
      out += "&gt;";
    } else if (character == "\"") {
      out += "&quot;";
    } else if (size == 1 && text[0] < ' ') {
      out += fmt::format("&#{};", static_cast<int>(text[0]));
    } else {
      out += character;
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string JUnitCase(std::string_view suite, const CaseResult& one) {
  std::string xml =
      fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{:.3f}\">\n", suite,
                  CaseKindName(one.kind), XmlText(one.name), Seconds(one.wall_ns));
  const std::string reason = XmlText(one.reason);
  if (one.status == CaseStatus::kFail) {
    xml += fmt::format("      <failure message=\"{}\">seed {}\n{}{}</failure>\n", reason, one.seed,
                       XmlText(one.replay),
                       one.finding ? "\n" + XmlText(one.finding->message) : std::string());
  } else if (one.status == CaseStatus::kSkip) {
    xml += fmt::format("      <skipped message=\"{}\"/>\n", reason);
  }
  return xml + "    </testcase>\n";
}

std::string JUnitSuite(std::string_view name, std::span<const CaseResult> cases) {
  const CaseTotals totals = TotalsOf(cases);
  uint64_t wall_ns = 0;
  for (const CaseResult& one : cases) wall_ns += one.wall_ns;
  std::string xml = fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" "
      "time=\"{:.3f}\">\n    <properties>\n",
      name, totals.cases, totals.fail, totals.skip, Seconds(wall_ns));
  const auto property = [&](std::string_view what, uint64_t value) {
    xml += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", what, value);
  };
  property("faults_injected", totals.faults_injected);
  property("faults_repaired", totals.faults_repaired);
  property("faults_found", totals.faults_found);
  property("faults_detected", totals.faults_detected());
  property("served_wrong", totals.served_wrong);
  xml += "    </properties>\n";
  for (const CaseResult& one : cases) xml += JUnitCase(name, one);
  return xml + "  </testsuite>\n";
}

}  // namespace

std::string_view CaseKindName(CaseKind kind) {
  switch (kind) {
    case CaseKind::kRoundtrip: return "roundtrip";
    case CaseKind::kFault: return "fault";
    case CaseKind::kRace: return "race";
    case CaseKind::kCrash: return "crash";
    case CaseKind::kControl: return "control";
  }
  return "?";
}

std::string_view CaseStatusName(CaseStatus status) {
  switch (status) {
    case CaseStatus::kPass: return "pass";
    case CaseStatus::kFail: return "fail";
    case CaseStatus::kSkip: return "skip";
  }
  return "?";
}

CaseTotals& CaseTotals::operator+=(const CaseTotals& other) {
  cases += other.cases;
  pass += other.pass;
  fail += other.fail;
  skip += other.skip;
  faults_injected += other.faults_injected;
  faults_repaired += other.faults_repaired;
  faults_found += other.faults_found;
  served_wrong += other.served_wrong;
  return *this;
}

CaseTotals TotalsOf(std::span<const CaseResult> cases) {
  CaseTotals totals;
  for (const CaseResult& one : cases) {
    ++totals.cases;
    totals.pass += one.status == CaseStatus::kPass;
    totals.fail += one.status == CaseStatus::kFail;
    totals.skip += one.status == CaseStatus::kSkip;
    totals.faults_injected += one.faults_injected;
    totals.faults_repaired += one.faults_repaired;
    totals.faults_found += one.faults_found;
    totals.served_wrong += one.served_wrong;
  }
  return totals;
}

std::string JUnitXml(const VerifyResult& result) {
  const auto both = [&](auto part) {
    return part(result.self_test) + part(result.store_under_test);
  };
  const auto total = [&](uint64_t CaseTotals::*field) {
    return both([&](const std::vector<CaseResult>& cases) { return TotalsOf(cases).*field; });
  };
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"kvbed verify\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}{}"
      "</testsuites>\n",
      total(&CaseTotals::cases), total(&CaseTotals::fail), total(&CaseTotals::skip),
      JUnitSuite("self_test", result.self_test),
      JUnitSuite("store_under_test", result.store_under_test));
}

}  // namespace kvbed
