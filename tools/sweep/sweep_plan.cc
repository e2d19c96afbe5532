#include "tools/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "offload/aligned_buffer.h"

namespace kvbed {
namespace {

constexpr uint64_t kDepthMost = 4096;
constexpr uint64_t kPointsMost = 10000;
constexpr uint64_t kPointBytesMost = uint64_t{1} << 50;  // so that no product below wraps round

Status CheckList(const char* option, const std::vector<uint64_t>& values) {
  if (values.empty()) return Status::InvalidArgument(fmt::format("{} is empty", option));
  std::set<uint64_t> seen;
  for (uint64_t value : values) {
    if (seen.insert(value).second) continue;
    return Status::InvalidArgument(fmt::format("{} has {} twice", option, value));
  }
  return Status::Ok();
}

Status CheckLists(const SweepLists& lists) {
  KVBED_RETURN_IF_ERROR(CheckList("--bs", lists.bs_bytes));
  KVBED_RETURN_IF_ERROR(CheckList("--iodepth", lists.iodepths));
  for (uint64_t bs_bytes : lists.bs_bytes) {
    if (bs_bytes % kPageBytes == 0 && bs_bytes <= kTransferBytesMax) continue;
    return Status::InvalidArgument(
        fmt::format("--bs {} is no multiple of 4096 up to {}", bs_bytes, kTransferBytesMax));
  }
  for (uint64_t iodepth : lists.iodepths) {
    if (iodepth <= kDepthMost) continue;
    return Status::InvalidArgument(fmt::format("--iodepth {} is above {}", iodepth, kDepthMost));
  }
  if (lists.bytes > kPointBytesMost) {
    return Status::InvalidArgument(
        fmt::format("--bytes {} is above {}", lists.bytes, kPointBytesMost));
  }
  return Status::Ok();
}

// psync has nothing to register with, whatever was asked for.
std::vector<Registered> RegisteredOf(const SweepLists& lists, const SweepEngine& engine) {
  if (engine.effective == IoEngine::kPsync) return {Registered::kOff};
  return lists.registered;
}

uint64_t SumOrMost(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t ProductOrMost(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

}  // namespace

std::string_view SweepOpName(SweepOp op) { return op == SweepOp::kRead ? "read" : "write"; }

Result<SweepPlan> MakeSweepPlan(const SweepLists& lists) {
  KVBED_RETURN_IF_ERROR(CheckLists(lists));
  SweepPlan plan;
  plan.files = lists.directs;
  plan.iodepths.assign(lists.iodepths.begin(), lists.iodepths.end());
  const uint64_t depth_most = *std::max_element(lists.iodepths.begin(), lists.iodepths.end());
  std::vector<SweepOp> ops = lists.ops;
  std::sort(ops.begin(), ops.end());
  for (DirectMode direct : lists.directs) {
    for (SweepOp op : ops) {
      for (const SweepEngine& engine : lists.engines) {
        for (Registered registered : RegisteredOf(lists, engine)) {
          for (uint64_t bs_bytes : lists.bs_bytes) {
            const uint64_t blocks = std::max(lists.bytes / bs_bytes, depth_most);
            plan.groups.push_back({op, direct, engine, registered, bs_bytes, blocks});
            plan.memory_bytes = std::max(plan.memory_bytes, bs_bytes * depth_most);
            if (plan.points() <= kPointsMost) continue;
            return Status::InvalidArgument(
                fmt::format("the lists make more than {} points: shorten one", kPointsMost));
          }
        }
      }
    }
  }
  if (plan.groups.empty()) return Status::InvalidArgument("a list is empty");
  plan.largest = *std::max_element(
      plan.groups.begin(), plan.groups.end(), [](const SweepGroup& a, const SweepGroup& b) {
        return std::pair(a.bytes(), a.bs_bytes) < std::pair(b.bytes(), b.bs_bytes);
      });
  return plan;
}

SweepTraffic TrafficOf(const SweepPlan& plan, uint64_t repetitions, bool fio) {
  SweepTraffic traffic;
  traffic.written_bytes = plan.disk_bytes();
  const uint64_t passes = plan.iodepths.size() * (1 + repetitions * (fio ? 2 : 1));
  for (const SweepGroup& group : plan.groups) {
    uint64_t& sum = group.op == SweepOp::kRead ? traffic.read_bytes : traffic.written_bytes;
    sum = SumOrMost(sum, ProductOrMost(group.bytes(), passes));
  }
  return traffic;
}

}  // namespace kvbed
