// Threads that stay, for jobs of microseconds that follow each other closely: the operations of a
// forward pass. They spin for some 50 us between jobs and sleep after that. It doesn't know what a
// job computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kvbed {

class ThreadTeam {
 public:
  // `threads` counts the calling one. Where the system refuses one the others do its share.
  explicit ThreadTeam(uint32_t threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  uint32_t size() const { return static_cast<uint32_t>(others_.size()) + 1; }

  // Calls work(thread, unit) for each unit below `units` once, thread < size(), and returns when
  // all are done. A thread takes the next unit when it is done with one, and one that other
  // programs keep from running takes none, so that a busy machine slows a job and doesn't stop it.
  // `work` must not throw. One caller at a time.
  template <class Work>
  void ForEach(uint64_t units, const Work& work) {
    const Job job{.call = [](const void* object, uint32_t thread,
                             uint64_t unit) { (*static_cast<const Work*>(object))(thread, unit); },
                  .work = &work,
                  .units = units};
    Run(job);
  }

 private:
  struct Job {
    void (*call)(const void* work, uint32_t thread, uint64_t unit) = nullptr;
    const void* work = nullptr;
    uint64_t units = 0;
  };

  void Run(const Job& job);
  void TakeUnits(uint32_t thread);
  void Serve(uint32_t thread);
  uint64_t WaitForJob(uint64_t generation_done);

  std::vector<std::jthread> others_;
  // Written while no other thread works on a job, read by those that entered one.
  Job job_;
  alignas(64) std::atomic<uint64_t> next_unit_{0};
  // Generation of the job << 32, whether it is closed to newcomers, and how many others work on it.
  alignas(64) std::atomic<uint64_t> state_;
  std::atomic<bool> quit_{false};
};

}  // namespace kvbed
