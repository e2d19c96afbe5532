// Which records lie in the free slots of slab files: left by a removal or a killed writer, and
// nobody's. It doesn't know the format of a record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/io.h"
#include "backends/slab_files.h"
#include "offload/leftovers.h"
#include "offload/status.h"

namespace kvbed {

// The free slots of one file, as they were when the store's lock was held.
struct UnusedSlots {
  const SlabFile* slab = nullptr;
  std::vector<uint64_t> slots;
};
std::vector<UnusedSlots> FindUnusedSlots(const SlabFiles& files);

// Reads the first page of each, `iodepth` at once, and adds those that `namer` knows.
Status ListRecordsInFreeSlots(Io& io, const std::vector<UnusedSlots>& free, uint32_t iodepth,
                              RecordNamer namer, Leftovers& leftovers);

}  // namespace kvbed
