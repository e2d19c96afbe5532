#include "tools/bench/cache_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/page_cache.h"

namespace kvbed {

Status SetCacheState(CacheState state, const CachedFiles& files,
                     const std::function<Status()>& read_once) {
  if (state == CacheState::kWarm) return read_once();
  return DropFromPageCache(files.store_folder, files.own_folder);
}

Status NoteCacheState(const CachedFiles& files, uint64_t snapshot_bytes,
                      std::optional<CacheSamples>& samples) {
  KVBED_ASSIGN_OR_RETURN(const CachedBytes cached,
                         CachedBytesOf(files.store_folder, files.own_folder));
  if (!samples) samples.emplace();
  samples->method = cached.method;
  samples->resident.push_back(std::min(
      1.0, static_cast<double>(cached.resident_bytes) / static_cast<double>(snapshot_bytes)));
  return Status::Ok();
}

std::string NotInState(CacheState state, const std::optional<CacheSamples>& samples) {
  const bool cold = state == CacheState::kCold;
  const char* name = cold ? "cold" : "warm";
  if (!samples || samples->resident.empty()) return fmt::format("not {}: never measured", name);
  const auto [least, most] = std::ranges::minmax(samples->resident);
  const double worst = cold ? most : least;
  if (cold ? worst < kCacheTolerance : worst > 1 - kCacheTolerance) return "";
  return fmt::format("not {}: the page cache held {:.1f} % of the snapshot ({})", name, 100 * worst,
                     samples->method);
}

}  // namespace kvbed
