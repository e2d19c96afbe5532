#include "engine/kernels/native/thread_team.h"

#include <system_error>

namespace kvbed {
namespace {

constexpr uint64_t kClosed = uint64_t{1} << 31;
constexpr uint64_t kActiveMask = kClosed - 1;

uint64_t GenerationOf(uint64_t state) { return state >> 32; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `state` isn't `old`: spinning at first, since the next job mostly comes at once.
void AwaitChange(const std::atomic<uint64_t>& state, uint64_t old) {
  constexpr int kSpins = 1000;
  for (int i = 0; i < kSpins; ++i) {
    if (state.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  state.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(uint32_t threads) : state_(kClosed) {
  try {
    while (others_.size() + 1 < threads) {
      const auto thread = static_cast<uint32_t>(others_.size()) + 1;
      others_.emplace_back([this, thread] { Serve(thread); });
    }
  } catch (const std::system_error&) {
  }
}

ThreadTeam::~ThreadTeam() {
  quit_.store(true, std::memory_order_relaxed);
  // A job that nobody can enter.
  state_.store((GenerationOf(state_.load()) + 1) << 32 | kClosed, std::memory_order_release);
  state_.notify_all();
}

void ThreadTeam::Run(const Job& job) {
  if (job.units <= 1 || others_.empty()) {
    for (uint64_t unit = 0; unit < job.units; ++unit) job.call(job.work, 0, unit);
    return;
  }
  job_ = job;
  next_unit_.store(0, std::memory_order_relaxed);
  const uint64_t generation = GenerationOf(state_.load(std::memory_order_relaxed)) + 1;
  state_.store(generation << 32, std::memory_order_release);
  state_.notify_all();
  TakeUnits(0);
  // Those that haven't come by now are not waited for.
  uint64_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while ((state & kActiveMask) != 0) {
    AwaitChange(state_, state);
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadTeam::TakeUnits(uint32_t thread) {
  while (true) {
    const uint64_t unit = next_unit_.fetch_add(1, std::memory_order_relaxed);
    if (unit >= job_.units) return;
    job_.call(job_.work, thread, unit);
  }
}

// The state of a job that is newer than `generation_done`.
uint64_t ThreadTeam::WaitForJob(uint64_t generation_done) {
  uint64_t state = state_.load(std::memory_order_acquire);
  while (GenerationOf(state) == generation_done) {
    AwaitChange(state_, state);
    state = state_.load(std::memory_order_acquire);
  }
  return state;
}

void ThreadTeam::Serve(uint32_t thread) {
  for (uint64_t generation_done = 0;;) {
    uint64_t state = WaitForJob(generation_done);
    if (quit_.load(std::memory_order_relaxed)) return;
    generation_done = GenerationOf(state);
    bool entered = false;
    while (GenerationOf(state) == generation_done && (state & kClosed) == 0 && !entered) {
      entered = state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel);
    }
    if (!entered) continue;
    TakeUnits(thread);
    const uint64_t left = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if (left == (generation_done << 32 | kClosed)) state_.notify_all();
  }
}

}  // namespace kvbed
