// The page of kvbed report in a real browser, Debian's headless Chromium: charts are painted, no
// script fails, hostile text stays text, a phone and a dark scheme are served. The page itself says
// what it drew in attributes of its root element; each check has a page that fails it.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "tests/e2e/report_samples.h"
#include "tests/support/command.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"
#include "tools/report/report_files.h"

namespace kvbed {
namespace {

// Not even KVBED_REQUIRE_ALL asks for a browser.
constexpr const char* kNoChromium =
    "chromium is not installed; it is 300 MB with what it needs, so tools/setup leaves it out: "
    "apt-get install chromium";
constexpr const char* kHostile =
    "</script><script>document.documentElement.dataset.ran=1</script>"
    "<img src=x onerror=document.documentElement.dataset.ran=1><!-- \xE2\x80\xA8";

// Chromium's window is never narrower than 500 pixels, a frame in it is.
std::string OnAPhone(const std::string& page) {
  std::string text;
  for (char c : page) text += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return "<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>"
         "<iframe style=\"width:390px;height:840px;border:0\" srcdoc=\"" +
         text +
         "\"></iframe><script>window.onload = () => Object.assign("
         "document.documentElement.dataset, "
         "document.querySelector('iframe').contentDocument.documentElement.dataset)"
         "</script></body></html>";
}

enum class Scheme { kLight, kDark };

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = RunProgram({"sh", "-c", "command -v chromium"});
    if (!found.ok() || found->exit_code != 0) GTEST_SKIP() << kNoChromium;
    if (ReportChartLibrary().empty()) {
      KVBED_SKIP_OR_FAIL("built without Chart.js (Debian: libjs-chart.js)");
    }
  }

  std::string PageOf(const std::vector<SampleJson>& rows) const {
    WriteSampleRows(dir_ / "rows.jsonl", rows);
    const CommandRun run = RunKvbed({"report", dir_ / "rows.jsonl", "--out", "-"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }

  // The document as it is after its scripts ran.
  std::string Load(const std::string& page, Scheme scheme = Scheme::kLight) const {
    std::ofstream(dir_ / "page.html") << page;
    std::vector<std::string> arguments = {"--headless",
                                          "--no-sandbox",
                                          "--disable-gpu",
                                          "--disable-dev-shm-usage",
                                          "--user-data-dir=" + (dir_ / "profile"),
                                          "--window-size=1280,900",
                                          "--dump-dom"};
    if (scheme == Scheme::kDark) arguments.push_back("--blink-settings=preferredColorScheme=0");
    arguments.push_back("file://" + (dir_ / "page.html"));
    const CommandRun run = RunCommand("chromium", arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }

  TempDir dir_;
};

// What the page says of itself; "" for what it doesn't say.
std::string Said(const std::string& dom, const std::string& name) {
  const size_t begin = dom.find("<html");
  const std::string root = dom.substr(begin, dom.find('>', begin) - begin);
  std::smatch found;
  return std::regex_search(root, found, std::regex("data-" + name + "=\"([^\"]*)\""))
             ? found[1].str()
             : "";
}

// What a reader sees, without the scripts.
std::string Shown(const std::string& dom) {
  const size_t begin = dom.find("<main");
  return dom.substr(begin, dom.find("</main>", begin) - begin);
}

std::string WithBefore(std::string page, const std::string& place, const std::string& text) {
  const size_t at = page.rfind(place);
  EXPECT_NE(at, std::string::npos) << place;
  return page.insert(at, text);
}

TEST_F(ReportInABrowser, DrawsAllOfALadderAndASweep) {
  std::vector<SampleJson> rows = LadderSampleRows();
  for (const SampleJson& row : SweepSampleRows()) rows.push_back(row);
  const std::string dom = Load(PageOf(rows));
  EXPECT_EQ(Said(dom, "errors"), "");
  EXPECT_EQ(Said(dom, "refused"), "");
  // Restore, offload, TTFT, its parts, two labels, latency of restore and offload.
  EXPECT_EQ(Said(dom, "charts"), "7");
  EXPECT_EQ(Said(dom, "unpainted"), "0");
  EXPECT_EQ(Said(dom, "overflow"), "0");
  const std::string shown = Shown(dom);
  for (const char* text : {"restoring beats recomputing from about", "1 failed", "1 noisy",
                           "record 7 differs at layer 3", "Example SSD", "64 KiB", "knee",
                           "within the spread", "new disk is"}) {
    EXPECT_NE(shown.find(text), std::string::npos) << text;
  }
}

TEST_F(ReportInABrowser, DrawsRestoresBesideAnOffload) {
  SampleJson stopped = BenchSampleRow({.ctx_tokens = 4096});
  stopped["mix"] = nullptr;
  stopped["mix_reason"] = "the disk went away";
  SampleJson not_asked = BenchSampleRow({.ctx_tokens = 8192});
  not_asked["mix"] = nullptr;
  not_asked["mix_reason"] = "not asked for (--mix)";
  const std::vector<SampleJson> rows = {WithMix(BenchSampleRow({})),
                                        WithMix(BenchSampleRow({.ctx_tokens = 2048}))};
  std::vector<SampleJson> all = rows;
  all.push_back(stopped);
  all.push_back(not_asked);
  const std::string page = PageOf(all);
  const std::string dom = Load(page);
  EXPECT_EQ(Said(dom, "errors"), "");
  // Restore, offload, latency of both, rates and latencies of the mix.
  EXPECT_EQ(Said(dom, "charts"), "6");
  EXPECT_EQ(Said(dom, "unpainted"), "0");
  EXPECT_EQ(Said(Load(OnAPhone(page)), "overflow"), "0");
  const std::string shown = Shown(dom);
  for (const char* text : {"Restores while an offload runs", "7.65 ms", ">0.50<", ">0.49<",
                           "not measured: the disk went away"}) {
    EXPECT_NE(shown.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(shown.find("not asked for"), std::string::npos);
  EXPECT_EQ(Shown(Load(PageOf({not_asked}))).find("Restores while"), std::string::npos);
}

TEST_F(ReportInABrowser, DrawsTheRoundsOfASteadyState) {
  const std::string page = PageOf(
      {WithRounds(BenchSampleRow({}), "reached"),
       WithRounds(BenchSampleRow({.ctx_tokens = 2048}), "not_reached"),
       Failed(WithRounds(BenchSampleRow({.ctx_tokens = 4096}), "not_assessed"), "disk full")});
  const std::string dom = Load(page);
  EXPECT_EQ(Said(dom, "errors"), "");
  // Restore, offload, latency of both, the rounds of two rows: what failed is in the table only.
  EXPECT_EQ(Said(dom, "charts"), "6");
  EXPECT_EQ(Said(dom, "unpainted"), "0");
  EXPECT_EQ(Said(Load(OnAPhone(page)), "overflow"), "0");
  const std::string shown = Shown(dom);
  for (const char* text :
       {"steady state reached in 8 rounds", "steady state not reached in 8 rounds",
        "not assessed in 8 rounds", "6.6 %", "83.3 %", "above 20 %", "above 10 %"}) {
    EXPECT_NE(shown.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(Shown(Load(PageOf({BenchSampleRow({})}))).find("steady state"), std::string::npos);
}

// Figures of a fresh and an aged store are no two samples of one thing.
TEST_F(ReportInABrowser, SetsApartWhatTheStoreWentThrough) {
  SampleJson aged = BenchSampleRow({.restore_gb_per_s = 1});
  aged["aged"] = {{"snapshots", 8}, {"freed", 4}, {"refilled", 2}, {"bytes", 1}};
  SampleJson large = BenchSampleRow({.restore_gb_per_s = 1.5});
  large["working_set"] = {{"bytes", uint64_t{64} << 30}, {"snapshots", 8}};
  const std::string shown = Shown(Load(PageOf({BenchSampleRow({}), aged, large})));
  EXPECT_NE(shown.find("slab, aged yes"), std::string::npos);
  EXPECT_NE(shown.find("(64 GiB)"), std::string::npos);
  EXPECT_EQ(Shown(Load(PageOf({aged}))).find("aged yes"), std::string::npos);
}

TEST_F(ReportInABrowser, SaysWhatWasNotMeasuredAndNeverZero) {
  const std::string shown = Shown(Load(PageOf({BenchSampleRow({})})));
  for (const char* text : {"not measured: no model ran", "not measured: no cpufreq in sysfs",
                           "not measured: only 320 records were timed", "not measured ["}) {
    EXPECT_NE(shown.find(text), std::string::npos) << text;
  }
  for (const char* text : {"null", "undefined", "NaN", ">0<", ">0.00<", ">0.000<"}) {
    EXPECT_EQ(shown.find(text), std::string::npos) << text;
  }
}

TEST_F(ReportInABrowser, RunsNoTextOfARow) {
  SampleJson row = WithTtft(BenchSampleRow({.store = kHostile, .label = kHostile}));
  row["reasons"] = {kHostile};
  row["model"]["name"] = kHostile;
  row["env"][kHostile] = kHostile;
  row["ceiling"]["fio_job"] = kHostile;
  SampleJson sweep = SweepSampleRow(kHostile, 4096, 1);
  sweep["cell"]["ioengine"] = kHostile;
  const std::string page = PageOf({row, BenchSampleRow({.label = "other"}), sweep});
  const std::string dom = Load(page);
  EXPECT_EQ(Said(dom, "ran"), "");
  EXPECT_EQ(Said(dom, "errors"), "");
  EXPECT_EQ(Said(dom, "refused"), "");
  EXPECT_EQ(Shown(dom).find("<img"), std::string::npos);
  EXPECT_NE(Shown(dom).find("&lt;img"), std::string::npos);
  // Were it markup, the page's policy would refuse it; without one it would run.
  const std::string injected = WithBefore(page, "</body>", kHostile + std::string("-->"));
  EXPECT_EQ(Said(Load(injected), "ran"), "");
  EXPECT_NE(Said(Load(injected), "refused"), "");
  std::string lax = injected;
  lax.replace(lax.find("Content-Security-Policy"), 23, "x-none");
  EXPECT_EQ(Said(Load(lax), "ran"), "1");
}

TEST_F(ReportInABrowser, FitsAPhone) {
  std::vector<SampleJson> rows = LadderSampleRows();
  for (const SampleJson& row : SweepSampleRows()) rows.push_back(row);
  const std::string page = PageOf(rows);
  const std::string dom = Load(OnAPhone(page));
  EXPECT_EQ(Said(dom, "width"), "390");
  EXPECT_EQ(Said(dom, "overflow"), "0");
  EXPECT_EQ(Said(dom, "unpainted"), "0");
  const std::string wide = "<table width=\"900\"><tr><td>x</td></tr></table>";
  EXPECT_NE(Said(Load(OnAPhone(WithBefore(page, "<main", wide))), "overflow"), "0");
}

TEST_F(ReportInABrowser, FollowsTheDarkScheme) {
  const std::string page = PageOf(LadderSampleRows());
  const std::string light = Load(page), dark = Load(page, Scheme::kDark);
  EXPECT_EQ(Said(light, "scheme"), "light");
  EXPECT_EQ(Said(dark, "scheme"), "dark");
  EXPECT_NE(Said(light, "ink"), Said(dark, "ink"));
  EXPECT_EQ(Said(dark, "errors"), "");
  EXPECT_EQ(Said(dark, "unpainted"), "0");
}

TEST_F(ReportInABrowser, ShowsRowsWithOddFields) {
  SampleJson odd = BenchSampleRow({});
  odd["offload"]["gb_per_s"] = "fast";
  odd["restore"] = 7;
  odd["env"] = nullptr;
  odd["reasons"] = "text";
  odd["model"] = nullptr;
  odd["bytes"] = SampleJson::array();
  odd["mix"] = {{"restore_gb_per_s", 1}, {"samples_ns", {0, "x"}}, {"lat_ns", 7}};
  odd["steady"] = SampleJson::array();
  odd["interval_gb_per_s"] = {1, nullptr};
  odd["interval_restore_gb_per_s"] = {0, 0, 0, 0, 0, 0};
  SampleJson bare = {{"schema", "kvbed-bench/1"}, {"cell", SampleJson::object()}};
  SampleJson sweep = {{"schema", "kvbed-sweep/1"}, {"cell", SampleJson::object()}};
  const std::string dom = Load(PageOf({odd, bare, sweep}));
  EXPECT_EQ(Said(dom, "errors"), "");
  EXPECT_EQ(Said(dom, "unpainted"), "0");
  EXPECT_NE(Shown(dom).find("not measured"), std::string::npos);
}

// The check on scripts can fail.
TEST_F(ReportInABrowser, TellsWhenAScriptFails) {
  std::string page = PageOf({BenchSampleRow({})});
  page.replace(page.rfind("buildPage();"), 12, "noFunction();");
  EXPECT_NE(Said(Load(page), "errors"), "");
}

}  // namespace
}  // namespace kvbed
