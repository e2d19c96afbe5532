// What lies in a store's folders that isn't the store's: temporary files, and files and folders of
// others. It doesn't know records.
#pragma once

#include <string>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "offload/leftovers.h"
#include "offload/status.h"

namespace kvbed {

// Whether an entry of a folder is one that the store makes.
using KnownEntry = bool (*)(const DirectoryEntry& entry);

// A temporary file of ours, or an unknown entry, which for a folder counts all that is in it.
Leftover FolderLeftover(const std::string& directory, const DirectoryEntry& entry);

// The entries of `directory` that `known` doesn't know.
Status ListFolderLeftovers(Io& io, const std::string& directory, KnownEntry known,
                           Leftovers& leftovers);

// A store's own folder: all but what every store has there and what `known` knows.
Status ListStoreFolderLeftovers(Io& io, const StoreFolder& folder, KnownEntry known,
                                Leftovers& leftovers);

// The folder of manifests.
bool IsManifestEntry(const DirectoryEntry& entry);

}  // namespace kvbed
