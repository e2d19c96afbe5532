#include "tools/bench/section_meter.h"

namespace kvbed {
namespace {

void AddMoved(const std::optional<ByteCounts>& before, const std::optional<ByteCounts>& after,
              std::optional<ByteCounts>& sum) {
  if (!before || !after || !sum) {
    sum.reset();
    return;
  }
  sum->read_bytes += after->read_bytes - before->read_bytes;
  sum->written_bytes += after->written_bytes - before->written_bytes;
}

std::optional<ByteCounts> CountsOf(const Result<ByteCounts>& counts) {
  return counts.ok() ? std::optional(*counts) : std::nullopt;
}

}  // namespace

SectionMeter::SectionMeter(const DeviceCounters& device) : device_(device) {
  device_before_ = CountsOf(device_.Read());
  past_cache_before_ = CountsOf(device_.ReadDirect());
  before_ = ReadProcessUsage();
}

uint64_t SectionMeter::Stop(ByteEvidence& evidence) const {
  const ProcessUsage after = ReadProcessUsage();
  const auto device_after = CountsOf(device_.Read());
  AddMoved(before_.io, after.io, evidence.process);
  AddMoved(device_before_, device_after, evidence.device);
  AddMoved(past_cache_before_, CountsOf(device_.ReadDirect()), evidence.past_cache);
  return after.cpu_ns - before_.cpu_ns;
}

void AddDirection(const ByteEvidence& section, Direction direction, ByteEvidence& sum) {
  const auto add = [&](auto field) {
    sum.app.*field += section.app.*field;
    const auto add_one = [&](const std::optional<ByteCounts>& part,
                             std::optional<ByteCounts>& whole) {
      if (part && whole) {
        (*whole).*field += (*part).*field;
      } else {
        whole.reset();
      }
    };
    add_one(section.process, sum.process);
    add_one(section.device, sum.device);
    add_one(section.past_cache, sum.past_cache);
  };
  add(direction == Direction::kWrite ? &ByteCounts::written_bytes : &ByteCounts::read_bytes);
}

}  // namespace kvbed
