// kvbed store ls, info and rm: what is in a store, and taking snapshots out of it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

struct StoreCommandOptions {
  StoreOptions store;
  OutputOptions output;
};

// A store opened by a command, and its result to be.
struct OpenedStore {
  NamedStore named;
  std::unique_ptr<BlockStore> store;
  Json json;
};

Result<OpenedStore> Open(const StoreCommandOptions& options, StoreAccess access) {
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

// Counts and sizes that ls and info share.
Status DescribeStore(OpenedStore& opened) {
  const StoreInfo info = opened.store->info();
  opened.json["store"] = StoreJson(info, std::nullopt);
  opened.json["records"] = info.records;
  opened.json["logical_bytes"] = info.logical_bytes;
  opened.json["allocated_bytes"] = info.allocated_bytes;
  opened.json["free_bytes"] = info.free_bytes;
  opened.json["findings"] = Json::array();
  return Status::Ok();
}

// The snapshots of the whole store: their JSON, and a line of text for each that can't be read.
// The exit code is that of the first of these.
struct SnapshotsFound {
  std::vector<ManifestSummary> snapshots;
  std::string unreadable_text;
  uint64_t unreadable = 0;
  int exit_code = kExitOk;
};
Result<SnapshotsFound> FindSnapshots(OpenedStore& opened) {
  SnapshotsFound found;
  KVBED_ASSIGN_OR_RETURN(found.snapshots, opened.store->ListManifests());
  opened.json["snapshots"] = Json::array();
  for (const ManifestSummary& one : found.snapshots) {
    opened.json["snapshots"].push_back(SummaryJson(one));
    if (one.status.ok()) continue;
    ++found.unreadable;
    found.unreadable_text +=
        fmt::format("{:<24} unreadable: {}\n", one.name, Printable(one.status.message()));
    AddFailure(opened.json, one.name + " is unreadable: " + one.status.message());
    if (found.exit_code == kExitOk) found.exit_code = ExitCodeForSnapshot(one.status);
  }
  return found;
}

Result<int> List(const StoreCommandOptions& options) {
  KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options.store));
  if (!named.spec.snapshot.empty()) {
    return Status::InvalidArgument(
        "store ls lists all snapshots: leave #NAME out, or ask `kvbed store info` about one");
  }
  KVBED_ASSIGN_OR_RETURN(OpenedStore opened, Open(options, StoreAccess::kRead));
  KVBED_ASSIGN_OR_RETURN(const SnapshotsFound found, FindSnapshots(opened));
  std::string text;
  for (const ManifestSummary& one : found.snapshots) {
    if (!one.status.ok()) continue;
    text += fmt::format("{:<24} {:>13} tokens {:>9} {:<7} {:>19} bytes  {}  {}\n", one.name,
                        Thousands(one.cached_tokens), Thousands(one.blocks),
                        one.blocks == 1 ? "record" : "records", Thousands(one.stored_bytes),
                        Iso8601(one.created_ns), Printable(one.model_name));
  }
  text += found.unreadable_text;
  if (found.snapshots.empty()) text = "no snapshot\n";
  KVBED_RETURN_IF_ERROR(DescribeStore(opened));
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, opened.json));
  return found.exit_code;
}

std::string InfoText(const StoreInfo& info) {
  std::string text;
  text += fmt::format("store       {}\nuuid        {}\nit is       {}\nio          {}\n", info.spec,
                      info.uuid.ToHex(), info.design, DescribeIo(info));
  if (!info.ioengine_reason.empty()) text += fmt::format("            {}\n", info.ioengine_reason);
  if (!info.direct_reason.empty()) text += fmt::format("            {}\n", info.direct_reason);
  text += fmt::format("durability  {}\n", info.durability);
  text += fmt::format("records     {} of {} bytes in all\n", Thousands(info.records),
                      Thousands(info.logical_bytes));
  text += fmt::format("on disk     {} bytes; room for {} more{}\n", Thousands(info.allocated_bytes),
                      Thousands(info.free_bytes),
                      info.capacity_bytes == 0
                          ? ""
                          : fmt::format(" (capacity {} bytes)", Thousands(info.capacity_bytes)));
  for (const auto& [name, value] : info.details) {
    text += fmt::format("  {:<26} {}\n", name, Printable(value));
  }
  for (const std::string& warning : info.warnings) {
    text += fmt::format("warning     {}\n", Printable(warning));
  }
  return text;
}

std::string SnapshotText(const Manifest& manifest) {
  const KvGeometry& geometry = manifest.geometry;
  const NumericEnvironment& environment = manifest.environment;
  std::string text;
  text += fmt::format("\nsnapshot    {}\nmade        {} with {}\n", manifest.name,
                      Iso8601(manifest.created_ns), Printable(manifest.model_name));
  text +=
      fmt::format("tokens      {} cached, {} of them prompt; pending token {}\n",
                  Thousands(manifest.cached_tokens), Thousands(manifest.prompt_tokens),
                  manifest.pending_token() ? std::to_string(*manifest.pending_token()) : "none");
  text += fmt::format("geometry    {}, {}, {}, head dim {}, {} a block\n",
                      DTypeName(geometry.dtype), Count(geometry.layers, "layer", "layers"),
                      Count(geometry.kv_heads, "KV head", "KV heads"), geometry.head_dim,
                      Count(geometry.block_tokens, "token", "tokens"));
  text += fmt::format("records     {} of {} bytes\n", Thousands(manifest.blocks.size()),
                      Thousands(geometry.record_bytes()));
  text += fmt::format("digests     weights {}\n            config {}\n            tokenizer {}\n",
                      manifest.model.weights.ToHex(), manifest.model.config.ToHex(),
                      manifest.model.tokenizer.ToHex());
  text +=
      fmt::format("computed    {} kernels, {}, {}, {}, {}, prefill chunk {}\n",
                  environment.kernel_set, environment.library, environment.isa, environment.linear,
                  Count(environment.threads, "thread", "threads"), environment.prefill_chunk);
  return text;
}

Json ManifestJson(const Manifest& manifest, BlockStore& store) {
  Json out;
  out["name"] = manifest.name;
  out["created_at"] = Iso8601(manifest.created_ns);
  out["model"] = manifest.model_name;
  out["weights_digest"] = manifest.model.weights.ToHex();
  out["config_digest"] = manifest.model.config.ToHex();
  out["tokenizer_digest"] = manifest.model.tokenizer.ToHex();
  out["tokens"] = manifest.cached_tokens;
  out["prompt_tokens"] = manifest.prompt_tokens;
  out["token_ids"] = manifest.token_ids;
  out["pending_token"] = manifest.pending_token() ? Json(*manifest.pending_token()) : Json();
  out["block_tokens"] = manifest.geometry.block_tokens;
  out["dtype"] = std::string(DTypeName(manifest.geometry.dtype));
  out["record_bytes"] = manifest.geometry.record_bytes();
  out["stored_bytes"] = manifest.stored_bytes();
  out["blocks"] = Json::array();
  for (const ManifestBlock& block : manifest.blocks) {
    Json one;
    one["id"] = block.id.ToHex();
    one["digest"] = block.digest.ToHex();
    one["tokens_used"] = block.tokens_used;
    if (const auto location = store.Locate(block.id, block.place); location.ok()) {
      one["path"] = location->path;
      one["offset"] = location->offset;
      one["size_bytes"] = location->size_bytes;
    }
    out["blocks"].push_back(std::move(one));
  }
  return out;
}

Result<int> Info(const StoreCommandOptions& options) {
  KVBED_ASSIGN_OR_RETURN(OpenedStore opened, Open(options, StoreAccess::kRead));
  std::string text = InfoText(opened.store->info());
  KVBED_RETURN_IF_ERROR(DescribeStore(opened));
  int exit_code = kExitOk;
  if (const std::string& name = opened.named.spec.snapshot; !name.empty()) {
    const auto manifest = ReadSnapshot(*opened.store, name);
    if (!manifest.ok() && ExitCodeForSnapshot(manifest.status()) == kExitFailedCheck) {
      Complain(fmt::format("snapshot {} is damaged: {}", name, manifest.status().message()));
      return kExitFailedCheck;
    }
    if (!manifest.ok()) return manifest.status();
    text += SnapshotText(*manifest);
    opened.json["snapshots"] = Json::array({ManifestJson(*manifest, *opened.store)});
  } else {
    KVBED_ASSIGN_OR_RETURN(const SnapshotsFound found, FindSnapshots(opened));
    text += fmt::format(
        "snapshots   {}{}\n", found.snapshots.size(),
        found.unreadable == 0 ? "" : fmt::format(", {} of them unreadable:", found.unreadable));
    text += found.unreadable_text;
    exit_code = found.exit_code;
  }
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, opened.json));
  return exit_code;
}

Result<int> Remove(const StoreCommandOptions& options) {
  // A missing #NAME is looked into before the store is locked for writing.
  KVBED_ASSIGN_OR_RETURN(const NamedStore named, NameStore(options.store));
  if (named.spec.snapshot.empty()) {
    KVBED_ASSIGN_OR_RETURN(const OpenedStore reader, Open(options, StoreAccess::kRead));
    return Status::InvalidArgument(fmt::format("store rm {} names no snapshot: add #NAME; {}",
                                               options.store.spec, SnapshotNames(*reader.store)));
  }
  KVBED_ASSIGN_OR_RETURN(OpenedStore opened, Open(options, StoreAccess::kWrite));
  const std::string& name = named.spec.snapshot;
  const StoreInfo before = opened.store->info();
  const auto manifest = opened.store->ReadManifest(name);
  if (Status removed = opened.store->RemoveManifest(name);
      removed.code() == StatusCode::kNotFound) {
    return ReadSnapshot(*opened.store, name).status();
  } else if (!removed.ok()) {
    return removed;
  }
  KVBED_RETURN_IF_ERROR(DescribeStore(opened));
  const StoreInfo info = opened.store->info();
  opened.json["removed"] = name;
  opened.json["snapshots"] = Json::array();
  const uint64_t back_bytes =
      before.allocated_bytes - std::min(before.allocated_bytes, info.allocated_bytes);
  opened.json["freed_records"] = before.records - info.records;
  opened.json["filesystem_bytes_back"] = back_bytes;
  std::string text =
      fmt::format("removed {}: {} freed, {} left; {} bytes are the filesystem's again{}\n", name,
                  Count(before.records - info.records, "record", "records"),
                  Thousands(info.records), Thousands(back_bytes),
                  info.overwrites ? ", the others the store's, for the next records" : "");
  for (const auto& [detail, value] : info.details) {
    if (detail.starts_with("gc_")) text += fmt::format("  {:<26} {}\n", detail, value);
    if (detail == "blob_garbage_bytes" && value != "0") {
      text += fmt::format(
          "  {:<26} {}: in files with other records; rewritten, and so given back, when garbage is "
          "at least as much as what lives\n",
          detail, value);
    }
  }
  if (!manifest.ok()) {
    text +=
        fmt::format("its manifest could not be read: {}\n", Printable(manifest.status().message()));
  }
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, opened.json));
  return kExitOk;
}

void AddOne(CommandLine& line, const std::string& name, const std::string& summary,
            const std::string& example, Result<int> (*function)(const StoreCommandOptions&)) {
  StoreCommandOptions& options = line.Own<StoreCommandOptions>();
  OptionSet set = line.AddCommand("store " + name, summary);
  set.Group("Store");
  set.Required(set.Text("SPEC", "SPEC",
                        "slab:DIR, rocksdb:DIR, files:DIR, plugin:LIBRARY or exec:COMMAND; "
                        "'DIR#NAME' for one snapshot",
                        options.store.spec));
  AddStoreTuningOptions(set, options.store);
  AddOutputOptions(set, options.output);
  set.Footer(
      "Exit codes: 0 done; 1 a snapshot's manifest is damaged; 2 usage; 4 no such store or "
      "snapshot, "
      "in use,\n"
      "I/O error, or written by a newer kvbed.\n\n"
      "Example:\n  kvbed store " +
      example);
  line.SetFunction("store " + name, [&options, function] { return function(options); });
}

}  // namespace

void AddStoreCommands(CommandLine& line) {
  line.AddGroup("store", "look into a store: ls, info, rm");
  AddOne(line, "ls", "list the snapshots", "ls slab:/data/kv", List);
  AddOne(line, "info", "what is in effect and how much is in it; with #NAME, one snapshot",
         "info 'slab:/data/kv#s1'", Info);
  AddOne(line, "rm",
         "remove the snapshot #NAME and say what came back; a slab's places are used again",
         "rm 'slab:/data/kv#s1'", Remove);
}

}  // namespace kvbed
