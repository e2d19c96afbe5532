// kvbed verify: bit-exactness in CI, of kvbed's own stores and of a user's.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/model/model_files.h"
#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/store_access.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/case_log.h"
#include "tools/verify/damage_folder.h"
#include "tools/verify/fresh_restore.h"
#include "tools/verify/store_under_test.h"
#include "tools/verify/verify_report.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

struct VerifyOptions {
  std::string profile = "ci";
  std::optional<std::string> model;
  StoreOptions store;
  std::optional<std::string> damage_folder;
  std::optional<double> fail_above;
  std::optional<uint32_t> timeout_s;
  uint64_t seed = 1;
  std::string only;
  std::optional<std::string> junit_file;
  OutputOptions output;
  // Of the child that restores in a fresh process.
  std::vector<std::string> restore;
  uint32_t report_fd = 1;
};

std::string ShellWord(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The command less the case, with all that a case depends on.
std::string ReplayPrefix(const VerifyOptions& options) {
  const VerifyOptions usual;
  std::string line = fmt::format("kvbed verify --seed {}", options.seed);
  const auto add = [&](const char* name, const std::string& value) {
    line += fmt::format(" {} {}", name, ShellWord(value));
  };
  if (options.profile != usual.profile) add("--profile", options.profile);
  if (options.model) add("-m", *options.model);
  const StoreOptions& store = options.store;
  if (!store.spec.empty()) add("--store", store.spec);
  if (store.iodepth != usual.store.iodepth) add("--iodepth", std::to_string(store.iodepth));
  if (store.ioengine != usual.store.ioengine) add("--ioengine", store.ioengine);
  if (store.direct != usual.store.direct) add("--direct", store.direct);
  if (store.capacity) add("--capacity", std::to_string(*store.capacity));
  if (store.sync != usual.store.sync) add("--sync", store.sync);
  if (options.damage_folder) add("--damage-dir", *options.damage_folder);
  if (options.fail_above) add("--fail-above", fmt::format("{}", *options.fail_above));
  if (options.timeout_s) add("--timeout", std::to_string(*options.timeout_s));
  return line;
}

// One campaign, and the prefix of its cases' names.
struct Campaign {
  std::string_view prefix;
  Status (*run)(const CampaignOptions& options, CaseLog& log);
  bool brief = false;  // part of the short self-test too
};
constexpr Campaign kSelfTest[] = {
    {"control/", RunControls, true},
    {"roundtrip/", RunRoundTrips},
    {"fault/record/", RunRecordFaults, true},
    {"fault/seam/", RunSeamFaults},
    {"fault/file/", RunFileFaults},
    {"crash/", RunCrashes},
    {"race/", RunRaces},
};
constexpr Campaign kStoreUnderTest[] = {
    {"store/verbs/", RunStoreVerbs},   {"store/roundtrip/", RunStoreRoundTrips},
    {"store/damage/", RunStoreDamage}, {"store/crash/", RunStoreCrashes},
    {"store/race/", RunStoreRaces},    {"store/limit/", RunStoreLimits},
};

Result<double> ParseLimit(const std::string& text) {
  double limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error == std::errc() && end == text.data() + text.size() && limit >= 0) return limit;
  return Status::InvalidArgument(
      fmt::format("--fail-above takes a number that isn't negative, as in 0.01, not '{}'", text));
}

Result<uint32_t> ParseSeconds(const std::string& text) {
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (number && seconds >= 1 && seconds <= 86'400) return seconds;
  return Status::InvalidArgument(fmt::format("--timeout takes 1 to 86400 seconds, not '{}'", text));
}

class VerifyRun {
 public:
  explicit VerifyRun(const VerifyOptions& options) : options_(options) {}

  Result<int> Run() {
    report_.header = {"kvbed-verify/1", CommandLineOfThisProcess(), options_.seed, UnixNs()};
    report_.profile = options_.profile;
    const uint64_t start_ns = MonotonicNs();
    KVBED_RETURN_IF_ERROR(Prepare());
    CaseLines lines(::isatty(STDOUT_FILENO) != 0);
    const auto on_done = [&](const CaseResult& one) {
      if (options_.output.format == OutputFormat::kText) lines.Add(one);
    };
    const Status stopped = RunHalves(on_done);
    if (stopped.code() == StatusCode::kInvalidArgument) return stopped;
    if (!stopped.ok()) report_.stopped = stopped.message();
    const VerifyResult& result = report_.result;
    if (stopped.ok() && !options_.only.empty() && result.self_test.empty() &&
        result.store_under_test.empty()) {
      return Status::InvalidArgument(
          fmt::format("--case {}: no case's name begins so; the names are in the output of a whole "
                      "run (-o json), those of the store under test begin with store/",
                      options_.only));
    }
    report_.wall_ns = MonotonicNs() - start_ns;
    const Status printed = lines.End();
    Status junit;
    if (options_.junit_file) junit = ReplaceFile(*options_.junit_file, JUnitXml(result));
    KVBED_RETURN_IF_ERROR(EmitResult(options_.output, VerifyText(report_), VerifyJson(report_)));
    KVBED_RETURN_IF_ERROR(junit);
    KVBED_RETURN_IF_ERROR(printed);
    KVBED_RETURN_IF_ERROR(stopped);
    return ExitCodeOf(report_);
  }

 private:
  Status Prepare() {
    KeptPlaces kept{PathOfSpec(options_.store.spec), options_.damage_folder.value_or("")};
    if (options_.model) {
      KVBED_RETURN_IF_ERROR(OpenModel(*options_.model).status());
      for (std::string& file : FilesOfModel(*options_.model)) kept.push_back(std::move(file));
    }
    KVBED_RETURN_IF_ERROR(CheckOutput(options_.output, TableFormats::kRefused, kept));
    if (options_.junit_file) {
      KVBED_RETURN_IF_ERROR(
          CheckOutputFile("--junit", *options_.junit_file, OutputKind::kAny, kept));
      if (options_.junit_file == options_.output.json_file) {
        return Status::InvalidArgument("--junit and --json name the same file");
      }
    }
    campaign_.profile = options_.profile == "full" ? VerifyProfile::kFull : VerifyProfile::kCi;
    campaign_.model = options_.model;
    // Before a store's own cases it has to be shown that faults are seen, no more.
    campaign_.brief = !options_.store.spec.empty();
    if (!options_.store.spec.empty()) {
      KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options_.store));
      if (!named.spec.snapshot.empty()) {
        return Status::InvalidArgument("--store names a snapshot: give the store alone, no #NAME");
      }
      KVBED_RETURN_IF_ERROR(CheckSettings(named.spec.kind, named.settings));
      campaign_.store = named.spec;
      campaign_.settings = named.settings;
      campaign_.fail_above = options_.fail_above;
      if (options_.timeout_s && !IsExternal(named.spec.kind)) {
        return Status::InvalidArgument(
            "--timeout limits the calls of a plugin: or exec: store; kvbed's own need none");
      }
      if (options_.timeout_s) campaign_.settings.timeout_ms = uint64_t{1000} * *options_.timeout_s;
      report_.store = options_.store.spec;
    }
    if (!campaign_.store && (options_.fail_above || options_.timeout_s)) {
      return Status::InvalidArgument(
          "--fail-above and --timeout are about the store under test: give --store too");
    }
    KVBED_RETURN_IF_ERROR(TakeDamageFolder());
    KVBED_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Create());
    folder_.emplace(std::move(folder));
    campaign_.work_folder = folder_->path();
    const std::string store_path = PathOfSpec(options_.store.spec);
    report_.environment_path = store_path.empty() ? folder_->path() : store_path;
    return Status::Ok();
  }

  Status TakeDamageFolder() {
    if (!options_.damage_folder) return Status::Ok();
    if (!campaign_.store) {
      return Status::InvalidArgument(
          "--damage-dir names the files of the store under test: give --store too");
    }
    KVBED_RETURN_IF_ERROR(CheckDamageFolder(*options_.damage_folder));
    campaign_.damage_folder = options_.damage_folder;
    return Status::Ok();
  }

  CaseLog LogFor(std::function<void(const CaseResult&)> on_done) const {
    return CaseLog({.seed = options_.seed,
                    .only = options_.only,
                    .replay_prefix = ReplayPrefix(options_),
                    .on_done = std::move(on_done)});
  }

  // A store that can't even be opened is assessed in nothing, whatever the self-test would say: it
  // is looked at first.
  template <class OnDone>
  Status RunHalves(OnDone on_done) {
    if (campaign_.store) {
      const auto opened = LookAtStore(campaign_);
      if (!opened.ok()) return SkipStoreHalf(opened.status(), on_done);
      report_.store_warnings = opened->warnings;
    }
    KVBED_RETURN_IF_ERROR(RunHalf(kSelfTest, campaign_.brief, on_done, report_.result.self_test));
    if (!campaign_.store) return Status::Ok();
    return RunHalf(kStoreUnderTest, false, on_done, report_.result.store_under_test);
  }

  // `leaves_out`: what the short self-test doesn't have. What was run is in `cases`, and that the
  // half was stopped is a case of its own that failed: no result may look whole that isn't.
  template <class OnDone>
  Status RunHalf(std::span<const Campaign> campaigns, bool leaves_out, OnDone on_done,
                 std::vector<CaseResult>& cases) const {
    CaseLog log = LogFor(on_done);
    const Status stopped = RunCampaigns(campaigns, leaves_out, log);
    if (!stopped.ok() && stopped.code() != StatusCode::kInvalidArgument) {
      CaseResult rest = log.Start("stopped", CaseKind::kControl);
      rest.status = CaseStatus::kFail;
      rest.reason = fmt::format("{}: {} done, the rest was not run: of {}", stopped.message(),
                                Count(log.cases().size(), "case is", "cases are"),
                                fmt::join(NotRun(campaigns, leaves_out, log), ", "));
      log.Finish(std::move(rest));
    }
    cases = log.cases();
    return stopped;
  }

  // The prefixes of the campaign that was under way and of those behind it.
  static std::vector<std::string_view> NotRun(std::span<const Campaign> campaigns, bool leaves_out,
                                              const CaseLog& log) {
    size_t under_way = 0;
    for (size_t i = 0; i < campaigns.size(); ++i) {
      if (log.cases().empty()) break;
      if (log.cases().back().name.starts_with(campaigns[i].prefix)) under_way = i;
    }
    std::vector<std::string_view> prefixes;
    for (const Campaign& campaign : campaigns.subspan(under_way)) {
      const bool left_out = leaves_out && !campaign.brief;
      if (!left_out && log.WantsBelow(campaign.prefix)) prefixes.push_back(campaign.prefix);
    }
    return prefixes;
  }

  Status RunCampaigns(std::span<const Campaign> campaigns, bool leaves_out, CaseLog& log) const {
    for (const Campaign& campaign : campaigns) {
      if (Interrupted()) break;
      if (leaves_out && !campaign.brief) continue;
      if (log.WantsBelow(campaign.prefix)) {
        KVBED_RETURN_IF_ERROR(campaign.run(campaign_, log));
      }
    }
    return Interrupted() ? InterruptedStatus() : Status::Ok();
  }

  template <class OnDone>
  Status SkipStoreHalf(const Status& why, OnDone on_done) {
    if (why.code() == StatusCode::kInvalidArgument) return why;
    CaseLog log = LogFor(on_done);
    CaseResult skipped = log.Start("store/open", CaseKind::kRoundtrip);
    skipped.status = CaseStatus::kSkip;
    skipped.reason = why.message();
    log.Finish(std::move(skipped));
    report_.result.store_under_test = log.cases();
    return Status::Ok();
  }

  const VerifyOptions& options_;
  VerifyReport report_;
  CampaignOptions campaign_;
  std::optional<TemporaryFolder> folder_;
};

Result<int> Restored(const VerifyOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options.store));
  KVBED_RETURN_IF_ERROR(SendRestoredSnapshots(named.spec, named.settings, options.restore,
                                              static_cast<int>(options.report_fd)));
  return kExitOk;
}

Result<int> Verify(const VerifyOptions& options) {
  return options.restore.empty() ? VerifyRun(options).Run() : Restored(options);
}

}  // namespace

void AddVerifyCommand(CommandLine& line) {
  VerifyOptions& options = line.Own<VerifyOptions>();
  OptionSet set = line.AddCommand(
      "verify", "bit-exactness for CI: round trips and faults, of kvbed's stores and of yours");
  set.Group("Verification");
  set.OneOf("--profile", "ci takes minutes, full all of the matrix [ci]", options.profile,
            {"ci", "full"});
  set.Text("-m,--model", "MODEL", "also round trips of this model: GGUF file or directory",
           options.model);
  set.Number("--seed", "seed of everything random [1]", options.seed, 0, UINT64_MAX);
  set.Text("--case", "NAME", "only this case, or all whose names begin so", options.only);
  AddStoreOptions(set, options.store, StoreKinds::kAny);
  set.Text("--damage-dir", "DIR",
           "where the store under test keeps its files: they are damaged on purpose",
           options.damage_folder);
  set.Parsed("--fail-above", "D",
             "a lossy store fails when K or V is off by more than this [drift is told, no failure]",
             options.fail_above, ParseLimit);
  set.Parsed("--timeout", "S", "seconds that a plugin: or exec: store has for each call [30]",
             options.timeout_s, ParseSeconds);
  AddOutputOptions(set, options.output);
  set.Text("--junit", "FILE", "write the cases as JUnit's XML; replaces FILE", options.junit_file);
  set.Hide(set.Texts("--restore", "NAME", "kvbed's own: restore these", options.restore));
  set.Hide(set.Number("--report-fd", "kvbed's own: descriptor of the report", options.report_fd, 1,
                      4096));
  set.Footer(
      "Without --store kvbed tests itself: its stores, its checks, and that each fault it injects\n"
      "is repaired or found. With --store SPEC a short self-test runs first, then what can be\n"
      "asked of any store. The two halves are never added up for show. What the store holds stays\n"
      "as it is; what is put into it is removed at the end.\n\n"
      "Exit codes: 0 all passed; 1 a case failed; 2 usage; 3 nothing of the store could be\n"
      "assessed; 4 I/O error or resource of this machine.\n\n"
      "Examples:\n"
      "  kvbed verify --profile ci --junit out.xml\n"
      "  kvbed verify --profile full -m model.gguf --store slab:/data/kv\n"
      "  kvbed verify --seed 7 --case roundtrip/records/slab");
  line.SetFunction("verify", [&options] { return Verify(options); });
}

}  // namespace kvbed
