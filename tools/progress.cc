#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "offload/clock.h"
#include "tools/console.h"

namespace kvbed {
namespace {

constexpr uint64_t kRefreshNs = 100'000'000;
constexpr uint64_t kQuietNs = 300'000'000;  // work shorter than this shows nothing
constexpr int kBarCells = 24;

}  // namespace

Progress::Progress(std::string label, uint64_t total, std::string unit)
    : label_(std::move(label)),
      total_(std::max<uint64_t>(total, 1)),
      unit_(std::move(unit)),
      visible_(::isatty(STDERR_FILENO) == 1),
      started_ns_(MonotonicNs()) {}

Progress::~Progress() {
  if (shown_ns_ != 0) WriteToStandardError("\r\x1b[K");
}

void Progress::Update(uint64_t done) {
  if (!visible_) return;
  const uint64_t now_ns = MonotonicNs();
  if (now_ns - started_ns_ < kQuietNs || now_ns - shown_ns_ < kRefreshNs) return;
  shown_ns_ = now_ns;
  const double seconds = static_cast<double>(now_ns - started_ns_) / 1e9;
  const double rate = static_cast<double>(done) / seconds;
  const uint64_t left = total_ - std::min(done, total_);
  const int cells = static_cast<int>(std::min(done, total_) * kBarCells / total_);
  WriteToStandardError(fmt::format("\r{} [{:=<{}}{:{}}] {}/{} {}  {:.1f} {}/s  {:.0f} s left\x1b[K",
                                   label_, "", cells, "", kBarCells - cells, done, total_, unit_,
                                   rate, unit_, rate > 0 ? static_cast<double>(left) / rate : 0.0));
}

}  // namespace kvbed
