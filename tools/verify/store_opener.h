// How campaigns open stores: the one place where tests put a broken store before a real one.
#pragma once

#include <functional>
#include <memory>

#include "backends/io.h"
#include "backends/open_store.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"
#include "offload/status.h"

namespace kvbed {

// Over `io` where it isn't null; else over the machine's, as the settings choose it.
using StoreOpener = std::function<Result<std::unique_ptr<BlockStore>>(
    std::unique_ptr<Io> io, const StoreSpec& spec, const StoreOpenOptions& options)>;

Result<std::unique_ptr<BlockStore>> OpenAsItIs(std::unique_ptr<Io> io, const StoreSpec& spec,
                                               const StoreOpenOptions& options);

// What the campaigns must know of a kind.
bool KeepsFiles(StoreKind kind);         // what was committed is there after it was closed
bool IsOverTheSeam(StoreKind kind);      // its files can be struck, killed and cut at any operation
bool HasCapacityOption(StoreKind kind);  // `capacity=` limits it

// The spec that says by itself what `settings` say where they aren't the usual ones.
StoreSpec SpecWithSettings(StoreSpec spec, const StoreSettings& settings);

// Whether the space of removed records comes back.
bool CanRemoveRecords(const BlockStore& store);

}  // namespace kvbed
