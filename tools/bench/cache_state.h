// Brings the page cache into the state that a buffered baseline is asked for, and measures what it
// came to. It knows no store: it looks at files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "offload/status.h"
#include "tools/bench/measurement.h"

namespace kvbed {

// A share above this is not cold, one below 1 less it is not warm.
constexpr double kCacheTolerance = 0.01;

struct CachedFiles {
  std::string store_folder;
  std::string own_folder;  // the benchmark's other files in it, which are left out
};

// kWarm: what `read_once` reads is in the cache afterwards, where it fits. kCold: the files are
// synced and their pages dropped.
Status SetCacheState(CacheState state, const CachedFiles& files,
                     const std::function<Status()>& read_once);

// Adds the share of `snapshot_bytes` that is resident, at most 1.
Status NoteCacheState(const CachedFiles& files, uint64_t snapshot_bytes,
                      std::optional<CacheSamples>& samples);

// Why the samples aren't `state`; empty when they are. Without samples, that they are missing.
std::string NotInState(CacheState state, const std::optional<CacheSamples>& samples);

}  // namespace kvbed
