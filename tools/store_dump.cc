// kvbed store dump: a snapshot's verified KV as a safetensors file, and its records in hexadecimal.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/model/safetensors_writer.h"
#include "offload/clock.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/console.h"
#include "tools/environment.h"
#include "tools/exit_code.h"
#include "tools/finding_text.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/record_hex.h"
#include "tools/snapshot_reader.h"
#include "tools/store_access.h"
#include "tools/version.h"
#include "tools/wording.h"

namespace kvbed {
namespace {

constexpr uint64_t kDumpMemoryBytes = uint64_t{32} << 20;
constexpr size_t kDumpFindingsShown = 5;

struct StoreDumpOptions {
  StoreOptions store;
  OutputOptions output;
  std::optional<std::string> out;
  bool hex = false;
};

// fp8 of a record may be of any kind, so its bytes are written as bytes.
const char* SafetensorsDType(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return "BF16";
    case DType::kFp32: return "F32";
    case DType::kInt8: return "I8";
    case DType::kFp8: return "U8";
  }
  return "U8";
}

// A dump being written: tensors layers.N.keys and layers.N.values, [1, kv_heads, tokens, head_dim].
class SnapshotDump {
 public:
  static Result<SnapshotDump> Create(const std::string& path, const Manifest& manifest) {
    const KvGeometry& geometry = manifest.geometry;
    const uint64_t tensor_bytes =
        manifest.cached_tokens * geometry.kv_bytes_per_token() / (uint64_t{2} * geometry.layers);
    std::vector<SafetensorsEntry> tensors;
    for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
      for (const char* part : {"keys", "values"}) {
        tensors.push_back({fmt::format("layers.{}.{}", layer, part),
                           SafetensorsDType(geometry.dtype),
                           {1, geometry.kv_heads, manifest.cached_tokens, geometry.head_dim},
                           tensor_bytes});
      }
    }
    const std::string header = SafetensorsHeader(tensors, Metadata(manifest));
    KVBED_ASSIGN_OR_RETURN(
        ReplacedFile file,
        ReplacedFile::Create(path, header.size() + tensors.size() * tensor_bytes));
    KVBED_RETURN_IF_ERROR(file.WriteAt(0, AsBytes(header)));
    return SnapshotDump(std::move(file), header.size(), tensor_bytes, tensors.size());
  }

  // The rows of a verified record.
  Status Add(const Manifest& manifest, const ReadRecord& record) {
    const KvGeometry& geometry = manifest.geometry;
    const RecordHeader header = manifest.ExpectedHeader(record.block);
    const uint64_t row_bytes = geometry.head_dim * geometry.element_bytes();
    const Bytes payload = record.bytes.subspan(kPageBytes);
    for (uint64_t slice = 0; slice < tensors_ * geometry.kv_heads; ++slice) {
      const uint64_t head = slice % geometry.kv_heads;
      const uint64_t at = data_at_ + slice / geometry.kv_heads * tensor_bytes_ +
                          (head * manifest.cached_tokens + header.first_position) * row_bytes;
      KVBED_RETURN_IF_ERROR(file_.WriteAt(
          at, payload.subspan(slice * geometry.head_bytes(), header.tokens_used * row_bytes)));
    }
    return Status::Ok();
  }

  Status Commit() { return file_.Commit(); }
  uint64_t size_bytes() const { return data_at_ + tensors_ * tensor_bytes_; }
  uint64_t tensors() const { return tensors_; }

 private:
  SnapshotDump(ReplacedFile file, uint64_t data_at, uint64_t tensor_bytes, uint64_t tensors)
      : file_(std::move(file)), data_at_(data_at), tensor_bytes_(tensor_bytes), tensors_(tensors) {}

  static std::vector<std::pair<std::string, std::string>> Metadata(const Manifest& manifest) {
    std::string ids;
    for (const int32_t id : manifest.token_ids)
      ids += (ids.empty() ? "" : ",") + std::to_string(id);
    return {{"format", "pt"},
            {"kvbed_format", "kvbed-kv/1"},
            {"kvbed_version", std::string(VersionNumber())},
            {"layout", "1HTD"},
            {"snapshot", manifest.name},
            {"created_at", Iso8601(manifest.created_ns)},
            {"model", manifest.model_name},
            {"model_fingerprint", manifest.model.Fingerprint().ToHex()},
            {"rope_identity", fmt::format("{:016x}", manifest.rope_identity)},
            {"dtype", std::string(DTypeName(manifest.geometry.dtype))},
            {"tokens", std::to_string(manifest.cached_tokens)},
            {"block_tokens", std::to_string(manifest.geometry.block_tokens)},
            {"token_ids", ids}};
  }

  ReplacedFile file_;
  uint64_t data_at_;
  uint64_t tensor_bytes_;
  uint64_t tensors_;
};

Status PrintHex(const Manifest& manifest, const ReadRecord& record) {
  const RecordHeader header = manifest.ExpectedHeader(record.block);
  std::string text = fmt::format(
      "block {}: tokens {} to {}{}\n", record.block, header.first_position,
      header.first_position + header.tokens_used - 1,
      record.finding
          ? fmt::format("; DAMAGED ({}), as it was read:", CheckName(record.finding->check))
          : std::string());
  if (record.bytes.empty()) return Print(text + "  the store has no whole record\n");
  KVBED_RETURN_IF_ERROR(Print(text + HeaderHex(record.bytes, manifest.geometry)));
  for (uint32_t layer = 0; layer < manifest.geometry.layers; ++layer) {
    if (Interrupted()) return InterruptedStatus();
    KVBED_RETURN_IF_ERROR(Print(LayerHex(record.bytes, header, layer)));
  }
  return Status::Ok();
}

Status CheckDumpOutputs(const StoreDumpOptions& options) {
  const KeptPlaces kept = {PathOfSpec(options.store.spec)};
  if (!options.out && !options.hex) {
    return Status::InvalidArgument(
        "store dump needs --out FILE (safetensors), --hex (text), or both");
  }
  if (options.hex && options.output.format != OutputFormat::kText) {
    return Status::InvalidArgument(
        "--hex is text on standard output: leave -o out, --json FILE has the rest");
  }
  KVBED_RETURN_IF_ERROR(CheckOutput(options.output, TableFormats::kRefused, kept));
  if (!options.out) return Status::Ok();
  KVBED_RETURN_IF_ERROR(CheckOutputFile("--out", *options.out, OutputKind::kRegular, kept));
  if (options.output.json_file) {
    return CheckOutputFile("--json", *options.output.json_file, OutputKind::kAny, {*options.out});
  }
  return Status::Ok();
}

Json DumpedSnapshotJson(const Manifest& manifest) {
  return {{"name", manifest.name},
          {"created_at", Iso8601(manifest.created_ns)},
          {"model", manifest.model_name},
          {"fingerprint", manifest.model.Fingerprint().ToHex()},
          {"tokens", manifest.cached_tokens},
          {"blocks", manifest.blocks.size()},
          {"dtype", std::string(DTypeName(manifest.geometry.dtype))},
          {"layers", manifest.geometry.layers},
          {"kv_heads", manifest.geometry.kv_heads},
          {"head_dim", manifest.geometry.head_dim},
          {"stored_bytes", manifest.stored_bytes()}};
}

Result<int> Run(const StoreDumpOptions& options) {
  KVBED_RETURN_IF_ERROR(CheckDumpOutputs(options));
  Json json = MakeResult({"kvbed-store/1", CommandLineOfThisProcess(), 0, UnixNs()});
  KVBED_ASSIGN_OR_RETURN(SnapshotStore opened, OpenSnapshotStore(options.store));
  const auto manifest = ReadSnapshot(*opened.store, opened.snapshot);
  if (!manifest.ok() && ExitCodeForSnapshot(manifest.status()) == kExitFailedCheck) {
    Complain(
        fmt::format("snapshot {} is damaged: {}", opened.snapshot, manifest.status().message()));
    return kExitFailedCheck;
  }
  if (!manifest.ok()) return manifest.status();
  KVBED_ASSIGN_OR_RETURN(SnapshotReader reader,
                         SnapshotReader::Open(std::move(opened), *manifest, kDumpMemoryBytes));
  std::optional<SnapshotDump> dump;
  if (options.out) {
    KVBED_ASSIGN_OR_RETURN(SnapshotDump created, SnapshotDump::Create(*options.out, *manifest));
    dump.emplace(std::move(created));
  }
  std::vector<Finding> findings;
  Progress progress("dump", manifest->blocks.size(), "records");
  for (uint64_t block = 0; block < manifest->blocks.size();) {
    KVBED_ASSIGN_OR_RETURN(const std::vector<ReadRecord> records, reader.ReadFrom(block));
    for (const ReadRecord& record : records) {
      if (Interrupted()) return InterruptedStatus();
      if (options.hex) KVBED_RETURN_IF_ERROR(PrintHex(*manifest, record));
      if (record.finding) findings.push_back(*record.finding);
      // A snapshot with a damaged record is not written, but all that is damaged is found.
      if (dump && findings.empty()) KVBED_RETURN_IF_ERROR(dump->Add(*manifest, record));
    }
    block += records.size();
    progress.Update(block);
  }
  EnvironmentQuery query;
  query.path = PathOfSpec(options.store.spec);
  json["env"] = EnvironmentJson(ReadEnvironment(query));
  const StoreInfo info = reader.store().info();
  json["store"] = StoreJson(info, std::nullopt);
  json["snapshots"] = Json::array({DumpedSnapshotJson(*manifest)});
  json["records"] = info.records;
  json["free_bytes"] = info.free_bytes;
  json["findings"] = Json::array();
  for (const Finding& finding : findings) json["findings"].push_back(FindingJson(finding));
  json["dump"] = nullptr;
  std::string text;
  if (!findings.empty()) {
    for (size_t i = 0; i < std::min(findings.size(), kDumpFindingsShown); ++i) {
      for (const std::string& line : FindingLines(findings[i])) text += Printable(line) + "\n";
    }
    const std::string what = fmt::format(
        "{} of {} {} of {} failed a check", findings.size(), Thousands(manifest->blocks.size()),
        manifest->blocks.size() == 1 ? "record" : "records", manifest->name);
    text += fmt::format("{}{}\n", what, dump ? ": nothing was written" : "");
    AddFailure(json, what);
    SetNull(json, "dump", "a record failed a check");
  } else if (dump) {
    KVBED_RETURN_IF_ERROR(dump->Commit());
    text += fmt::format("dumped {} to {}: {}, {} a layer of [1, {}, {}, {}] {}, {} bytes\n",
                        manifest->name, Printable(*options.out),
                        Count(manifest->geometry.layers, "layer", "layers"), "keys and values",
                        manifest->geometry.kv_heads, manifest->cached_tokens,
                        manifest->geometry.head_dim, SafetensorsDType(manifest->geometry.dtype),
                        Thousands(dump->size_bytes()));
    json["dump"] = {{"path", *options.out},
                    {"format", "safetensors"},
                    {"tensors", dump->tensors()},
                    {"size_bytes", dump->size_bytes()}};
  } else {
    SetNull(json, "dump", "no --out");
  }
  KVBED_RETURN_IF_ERROR(EmitResult(options.output, text, json));
  return findings.empty() ? kExitOk : kExitFailedCheck;
}

}  // namespace

void AddStoreDumpCommand(CommandLine& line) {
  StoreDumpOptions& options = line.Own<StoreDumpOptions>();
  OptionSet set = line.AddCommand("store dump",
                                  "write a snapshot's K and V to a safetensors file, or show them");
  set.Group("Store");
  set.Required(set.Text("SPEC", "SPEC", "slab:DIR#NAME, rocksdb:DIR#NAME or files:DIR#NAME",
                        options.store.spec));
  AddStoreTuningOptions(set, options.store);
  set.Group("Dump");
  set.Text(
      "--out", "FILE",
      "safetensors: layers.N.keys and layers.N.values, each [1, KV heads, tokens, head_dim] in "
      "the snapshot's dtype; replaces FILE",
      options.out);
  set.Flag("--hex", options.hex,
           "print each record's header fields and payload in hexadecimal, as they lie in memory");
  AddOutputOptions(set, options.output);
  set.Footer(
      "Every record is verified. One that fails its checks is a finding: then FILE is left as it\n"
      "was, and --hex shows what was read, marked DAMAGED.\n"
      "The file is as a dump of transformers' DynamicCache: `kvbed diff` compares the two, and\n"
      "safetensors.torch.load_file reads it. Its metadata has the model's fingerprint, the tokens "
      "and\n"
      "their ids.\n\n"
      "Exit codes: 0 done; 1 a record or the manifest is damaged; 2 usage; 4 no such store or\n"
      "snapshot, in use, I/O error, or written by a newer kvbed.\n\n"
      "Examples:\n"
      "  kvbed store dump 'slab:/data/kv#s1' --out s1.safetensors\n"
      "  kvbed store dump 'slab:/data/kv#s1' --hex | less");
  line.SetFunction("store dump", [&options] { return Run(options); });
}

}  // namespace kvbed
