// A store that a `kvbed store` command looks into, and the result that it makes of it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "offload/block_store.h"
#include "offload/status.h"
#include "tools/common_options.h"
#include "tools/result_json.h"
#include "tools/store_access.h"

namespace kvbed {

struct StoreCommandOptions {
  StoreOptions store;
  OutputOptions output;
};

struct OpenedStore {
  NamedStore named;
  std::unique_ptr<BlockStore> store;
  Json json;  // kvbed-store/1, with its environment
};

// Looks at the outputs first. Invalid argument for a store in memory, which holds nothing yet.
Result<OpenedStore> OpenForCommand(const StoreCommandOptions& options, StoreAccess access);

// A store that doesn't open, or can't list its snapshots, because what was committed is damaged has
// failed a check: says so and is exit code 1. Anything else as it is.
Result<int> EndOfStoreCommand(Result<int> end);

// What is in effect, counts and sizes, as they are now, and no findings.
void DescribeStore(OpenedStore& opened);

// {name, created_at, tokens, blocks, stored_bytes, model}, or {name, error}.
Json SummaryJson(const ManifestSummary& summary);

}  // namespace kvbed
