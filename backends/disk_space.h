// How much room a filesystem has, and how much of it a store takes.
// It doesn't know what a store keeps in its files.
#pragma once

#include <cstdint>
#include <string>

#include "offload/status.h"

namespace kvbed {

// What this process may still use on the filesystem that holds `path`.
Result<uint64_t> AvailableBytes(const std::string& path);

// What stays free on the filesystem that holds `path` unless a capacity says otherwise: 5 % of its
// size, at most 1 GiB, so that a full store doesn't fill the disk for everybody else.
uint64_t ReserveBytes(const std::string& path);

// Blocks given to the folder and everything below it, as `du` counts them.
uint64_t AllocatedBytes(const std::string& directory);

}  // namespace kvbed
