// Runs the pieces of one job on a few threads made for it: for jobs of milliseconds, like reading
// weights. It doesn't know what a piece is; the calling thread works too.
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace kvbed {

// Calls work(piece) for each piece below `pieces` once, on at most `threads` threads, and returns
// when all are done. `work` must not throw. Where the system refuses a thread the others do its
// share.
template <class Work>
void ParallelFor(uint32_t threads, uint64_t pieces, const Work& work) {
  std::atomic<uint64_t> next = 0;
  const auto run = [&]() noexcept {
    for (uint64_t piece = next++; piece < pieces; piece = next++) work(piece);
  };
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < threads && others.size() + 1 < pieces) others.emplace_back(run);
  } catch (const std::system_error&) {
  }
  run();
}

}  // namespace kvbed
