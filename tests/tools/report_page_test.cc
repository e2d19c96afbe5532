// The page around the rows: what is put in can't leave its place.
#include "tools/report/report_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/report/report_files.h"

namespace kvbed {
namespace {

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(FillPage, PutsEachTextInItsPlacesOnce) {
  EXPECT_EQ(FillPage("a{{x}}b{{y}}c{{x}}", {{"x", "1"}, {"y", "2"}}), "a1b2c1");
  EXPECT_EQ(FillPage("{{x}}{{y}}", {{"x", "{{y}}"}, {"y", "2"}}), "{{y}}2");
  EXPECT_EQ(FillPage("{{z}} {{ {", {{"x", "1"}}), "{{z}} {{ {");
  EXPECT_EQ(FillPage("", {}), "");
}

TEST(ScriptSafe, IsTheSameValueWithoutMarkup) {
  const Json value = {"</script><script>", "<!--", "]]>&amp;",
                      "\xE2\x80\xA8 \xE2\x80\xA9 \xE2\x80\xA6", "\"<\\"};
  const std::string safe = ScriptSafe(value.dump());
  EXPECT_EQ(safe.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(safe.find("\xE2\x80\xA8"), std::string::npos);
  EXPECT_NE(safe.find("\xE2\x80\xA6"), std::string::npos);
  EXPECT_EQ(Json::parse(safe), value);
}

TEST(ReportPage, HoldsAllThatItNeeds) {
  const std::string page = ReportPage({{"title", "t"}}, "abc");
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_NE(page.find(ReportScript()), std::string::npos);
  EXPECT_NE(page.find(ReportStyle()), std::string::npos);
  EXPECT_NE(page.find(ReportChartLibrary()), std::string::npos);
  EXPECT_NE(page.find("script-src 'nonce-abc'"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* reference : {"src=\"", "href=\"", "@import", "url("}) {
    EXPECT_EQ(ReportPageHtml().find(reference), std::string::npos) << reference;
    EXPECT_EQ(ReportStyle().find(reference), std::string::npos) << reference;
  }
}

TEST(ReportPage, EndsNoScriptEarly) {
  for (std::string_view script : {ReportScript(), ReportErrorScript(), ReportChartLibrary()}) {
    EXPECT_EQ(script.find("</script"), script.npos);
    EXPECT_EQ(script.find("<!--"), script.npos);
  }
  const size_t plain = CountOf(ReportPage({{"title", "t"}}, "abc"), "</script");
  const Json hostile = {{"title", "</script><script>alert(1)</script><!-- <script>"}};
  EXPECT_EQ(CountOf(ReportPage(hostile, "abc"), "</script"), plain);
}

// Text gets into the page as text only.
TEST(ReportPage, MakesNoMarkupOfText) {
  for (const char* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                          "new Function", "setTimeout"}) {
    EXPECT_EQ(ReportScript().find(way), std::string::npos) << way;
  }
}

}  // namespace
}  // namespace kvbed
