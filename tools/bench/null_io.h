// An Io without a disk: data queues complete each request at once and move nothing. What a store
// reaches over it is the rate of everything but the disk, by which one sees whether the tool or the
// disk was measured.
#pragma once

#include <memory>

#include "backends/io.h"

namespace kvbed {

// Decorates `base`, which still opens, names and syncs files. Queues with attached memory (those
// that move records) are null; files aren't preallocated. What is read is whatever the memory held.
std::unique_ptr<Io> MakeNullIo(std::unique_ptr<Io> base);

}  // namespace kvbed
