// The file-per-block store: each record a file of its own, written under a temporary name and
// renamed, as most serving stacks keep KV blocks. DESIGN: names are the index; many processes write
// at once, a manifest's name is taken only once, and only removing excludes other writers.
// FORMAT.md has the files.
#pragma once

#include <memory>
#include <string>

#include "backends/io.h"
#include "backends/store_folder.h"
#include "backends/store_spec.h"
#include "offload/block_store.h"

namespace kvbed {

struct FileStoreOptions {
  std::string path;
  StoreAccess access = StoreAccess::kRead;
  StoreSettings settings;
  std::string spec;  // for info()
};

// As OpenStore says. A manifest that can't be read doesn't keep the store from opening: it is
// listed with its error, and until it is removed no record file is removed, because those that it
// names can't be known. What other processes commit and remove is seen by whoever asks for it.
Result<std::unique_ptr<BlockStore>> OpenFileStore(std::unique_ptr<Io> io,
                                                  const FileStoreOptions& options);

}  // namespace kvbed
