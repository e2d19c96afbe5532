// Opens the store that a spec names: the one place that knows every kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

struct StoreOpenOptions {
  StoreAccess access = StoreAccess::kRead;
  StoreSettings defaults{};        // what the spec doesn't say
  uint64_t record_bytes_hint = 0;  // what a writer is about to put; 0: not known
  // The kvbed command, which hosts plug-ins in a process of its own; empty: this very program.
  std::string plugin_host{};
};

// Channels are opened with EffectiveSettings(spec, defaults).iodepth.
// Not found when the store doesn't exist and access isn't kCreate. Invalid argument when it is
// of another kind, or the folder is no store and not empty; an I/O error that names the holder when
// it is in use.
// Not supported when direct I/O or the I/O engine is required and can't be had.
Result<std::unique_ptr<BlockStore>> OpenStore(const StoreSpec& spec,
                                              const StoreOpenOptions& options);

// The same over `io`, whose engine takes the place of the settings'.
Result<std::unique_ptr<BlockStore>> OpenStoreOver(std::unique_ptr<Io> io, const StoreSpec& spec,
                                                  const StoreOpenOptions& options);

}  // namespace kvbed
