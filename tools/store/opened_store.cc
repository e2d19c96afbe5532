#include "tools/store/opened_store.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "offload/clock.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace kvbed {

Result<OpenedStore> OpenForCommand(const StoreCommandOptions& options, StoreAccess access) {
  KVBED_RETURN_IF_ERROR(
      CheckOutput(options.output, TableFormats::kRefused, {PathOfSpec(options.store.spec)}));
  OpenedStore opened;
  opened.json = MakeResult({"kvbed-store/1", CommandLineOfThisProcess(), 0, UnixNs()});
  KVBED_ASSIGN_OR_RETURN(opened.named, NameStore(options.store));
  if (opened.named.spec.kind == StoreKind::kMemory) {
    return Status::InvalidArgument("memory: holds nothing when the command starts: give slab:DIR");
  }
  KVBED_ASSIGN_OR_RETURN(opened.store, OpenNamed(opened.named, access, 0));
  EnvironmentQuery query;
  query.path = PathOfSpec(options.store.spec);
  opened.json["env"] = EnvironmentJson(ReadEnvironment(query));
  return opened;
}

Result<int> EndOfStoreCommand(Result<int> end) {
  if (end.status().code() != StatusCode::kCorruption) return end;
  Complain(end.status().message());
  return kExitFailedCheck;
}

void DescribeStore(OpenedStore& opened) {
  const StoreInfo info = opened.store->info();
  opened.json["store"] = StoreJson(info, std::nullopt);
  opened.json["records"] = info.records;
  opened.json["logical_bytes"] = info.logical_bytes;
  opened.json["allocated_bytes"] = info.allocated_bytes;
  opened.json["free_bytes"] = info.free_bytes;
  opened.json["findings"] = Json::array();
}

Json SummaryJson(const ManifestSummary& summary) {
  Json out;
  out["name"] = summary.name;
  if (!summary.status.ok()) {
    out["error"] = summary.status.message();
    return out;
  }
  out["created_at"] = Iso8601(summary.created_ns);
  out["tokens"] = summary.cached_tokens;
  out["blocks"] = summary.blocks;
  out["stored_bytes"] = summary.stored_bytes;
  out["model"] = summary.model_name;
  return out;
}

}  // namespace kvbed
