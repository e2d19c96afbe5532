#include "tools/bench/load_mover.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "offload/clock.h"

namespace kvbed {
namespace {

// When the first and the last of several sequences were there; of one sequence, its records'.
template <class Part, class Sample>
void SetDone(std::span<Part> parts, const std::vector<uint64_t>& ended_ns, Sample& sample) {
  std::vector<uint64_t> of_sequence;
  for (size_t i = 0; i < parts.size(); ++i) {
    of_sequence.resize(std::max<size_t>(of_sequence.size(), parts[i].sequence_number + 1));
    uint64_t& end = of_sequence[parts[i].sequence_number];
    end = std::max(end, ended_ns[i]);
  }
  sample.several_sequences = of_sequence.size() > 1;
  if (sample.several_sequences) {
    sample.first_done_ns = *std::min_element(of_sequence.begin(), of_sequence.end());
    sample.last_done_ns = *std::max_element(of_sequence.begin(), of_sequence.end());
    return;
  }
  sample.first_done_ns = parts[0].report.first_done_ns;
  for (const Part& part : parts) {
    sample.first_done_ns = std::min(sample.first_done_ns, part.report.first_done_ns);
    sample.last_done_ns = std::max(sample.last_done_ns, part.report.last_done_ns);
  }
}

}  // namespace

// A channel, and the thread that opened it: an I/O ring belongs to one thread.
class LoadMover::Lane {
 public:
  using Step = std::function<Status(StoreChannel&)>;

  // On the caller's thread, or on one of its own.
  static Result<std::unique_ptr<Lane>> Open(BlockStore& store, const ChannelOptions& options,
                                            bool own_thread) {
    auto lane = std::unique_ptr<Lane>(new Lane());
    const auto open = [&store, options, lane = lane.get()] {
      auto channel = store.OpenChannel(options);
      if (!channel.ok()) return channel.status();
      lane->channel_.emplace(std::move(*channel));
      return Status::Ok();
    };
    if (!own_thread) {
      KVBED_RETURN_IF_ERROR(open());
      return lane;
    }
    lane->thread_ = std::thread([lane = lane.get()] { lane->Serve(); });
    lane->Begin([open](StoreChannel*) { return open(); });
    KVBED_RETURN_IF_ERROR(lane->End());
    return lane;
  }

  ~Lane() {
    if (!thread_.joinable()) return;
    Begin([this](StoreChannel*) {
      channel_.reset();
      stop_ = true;
      return Status::Ok();
    });
    thread_.join();
  }

  void Begin(std::function<Status(StoreChannel*)> step) {
    if (!thread_.joinable()) {
      status_ = step(&*channel_);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      step_ = std::move(step);
    }
    changed_.notify_all();
  }

  // Waits for what was begun.
  Status End() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !step_; });
    return status_;
  }

 private:
  Lane() = default;

  void Serve() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      changed_.wait(lock, [this] { return step_ != nullptr; });
      lock.unlock();
      Status status = step_(channel_ ? &*channel_ : nullptr);
      lock.lock();
      status_ = std::move(status);
      step_ = nullptr;
      changed_.notify_all();
    }
  }

  std::optional<StoreChannel> channel_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status(StoreChannel*)> step_;  // guarded by mutex_; empty when done
  Status status_;
  bool stop_ = false;  // set on the lane's own thread
};

Result<std::unique_ptr<LoadMover>> LoadMover::Open(BlockStore& store, BlockPool& pool,
                                                   uint32_t channels, uint32_t iodepth) {
  std::unique_ptr<LoadMover> mover(new LoadMover(store, pool));
  for (uint32_t i = 0; i < channels; ++i) {
    KVBED_ASSIGN_OR_RETURN(
        auto lane, Lane::Open(store, {.iodepth = iodepth, .memory = pool.memory()}, channels > 1));
    mover->lanes_.push_back(std::move(lane));
  }
  return mover;
}

LoadMover::LoadMover(BlockStore& store, BlockPool& pool) : store_(store), pool_(pool) {}

LoadMover::~LoadMover() = default;

template <class Part, class Step>
Result<std::vector<uint64_t>> LoadMover::RunAll(std::span<Part> parts, const Step& step) {
  KVBED_CHECK(!parts.empty() && parts.size() <= lanes_.size());
  std::vector<uint64_t> ended_ns(parts.size());
  const uint64_t start_ns = MonotonicNs();
  for (size_t i = 0; i < parts.size(); ++i) {
    lanes_[i]->Begin([&, i](StoreChannel* channel) {
      Status status = step(parts[i], *channel);
      ended_ns[i] = MonotonicNs() - start_ns;
      return status;
    });
  }
  Status first;
  for (size_t i = 0; i < parts.size(); ++i) {
    Status status = lanes_[i]->End();
    if (first.ok()) first = std::move(status);
  }
  KVBED_RETURN_IF_ERROR(first);
  return ended_ns;
}

Result<OffloadSample> LoadMover::Offload(std::span<OffloadPart> parts,
                                         const OffloadOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const std::vector<uint64_t> ended_ns,
                         RunAll(parts, [&](OffloadPart& part, StoreChannel& channel) {
                           auto report = kvbed::Offload(store_, channel, *part.sequence,
                                                        *part.manifest, options);
                           if (report.ok()) part.report = std::move(*report);
                           return report.status();
                         }));
  OffloadSample sample;
  for (size_t i = 0; i < parts.size(); ++i) {
    const OffloadReport& report = parts[i].report;
    // Threads begin a little after the common start.
    const uint64_t begun_ns = ended_ns[i] - std::min(ended_ns[i], report.d2_ns);
    sample.d0_ns = std::max(sample.d0_ns, begun_ns + report.d0_ns);
    if (options.sync) sample.d1_ns = std::max(sample.d1_ns, begun_ns + report.d1_ns);
    sample.d2_ns = std::max(sample.d2_ns, begun_ns + report.d2_ns);
    sample.hash_ns += report.hash_ns;
  }
  SetDone(parts, ended_ns, sample);
  return sample;
}

Result<RestoreSample> LoadMover::Restore(std::span<RestorePart> parts,
                                         const RestoreOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const std::vector<uint64_t> ended_ns,
                         RunAll(parts, [&](RestorePart& part, StoreChannel& channel) {
                           auto report = kvbed::Restore(store_, channel, *part.manifest,
                                                        *part.sequence, options);
                           if (report.ok()) part.report = std::move(*report);
                           return report.status();
                         }));
  RestoreSample sample;
  for (const RestorePart& part : parts) {
    sample.verify_ns += part.report.verify_ns;
    sample.overlap_ns += part.report.overlap_ns;
    sample.read_ns += part.report.read_ns;
  }
  // Explaining damage isn't part of a restore, and one queue's clock leaves it out.
  sample.wall_ns = parts.size() == 1 ? parts[0].report.wall_ns
                                     : *std::max_element(ended_ns.begin(), ended_ns.end());
  SetDone(parts, ended_ns, sample);
  return sample;
}

}  // namespace kvbed
