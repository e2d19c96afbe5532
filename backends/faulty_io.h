// An Io that breaks as a FaultDevice's plan says, for every store alike.
// It doesn't know what a store keeps in its files.
#pragma once

#include <memory>

#include "backends/fault_device.h"
#include "backends/io.h"

namespace kvbed {

// Decorates `base`. The device is the caller's, who steers and asks it, and must outlive the Io and
// its queues:
//   FaultDevice device({.seed = 7, .faults = {{.kind = FaultKind::kEio, .first = 3}}});
//   auto io = MakeFaultyIo(std::move(base), device);
//   ... device.PowerCut(); ... device.Trace() ...
// With an empty plan it behaves as `base`. Directories that it makes survive a power cut, as
// MakeDirectories promises; a new or renamed file survives once its directory is synced.
std::unique_ptr<Io> MakeFaultyIo(std::unique_ptr<Io> base, FaultDevice& device);

}  // namespace kvbed
