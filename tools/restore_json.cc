#include "tools/restore_json.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tools/rates.h"

namespace kvbed {
namespace {

Json FindingsJson(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& finding : findings) out.push_back(FindingJson(finding));
  return out;
}

template <class Integer>
std::optional<Integer> OptionalNumber(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<Integer>(value.get<Integer>());
}

template <class Enum>
std::optional<Enum> ByName(const std::string& name, std::string_view (*name_of)(Enum), Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

RecordId ParseId(const std::string& hex) {
  const auto bytes = FromHex(hex);
  return bytes && bytes->size() == kRecordIdBytes ? RecordId::Decode(AsBytes(*bytes)) : RecordId{};
}

Finding FindingFromJson(const Json& json) {
  Finding finding;
  finding.check = ByName(json.at("check").get<std::string>(), CheckName, Check::kStore)
                      .value_or(Check::kPayload);
  finding.id = ParseId(json.at("id").get<std::string>());
  finding.layer = OptionalNumber<uint32_t>(json.at("layer"));
  if (json.at("kv").is_string()) finding.kv = json.at("kv") == "K" ? KvPart::kK : KvPart::kV;
  finding.head = OptionalNumber<uint32_t>(json.at("head"));
  finding.token = OptionalNumber<uint64_t>(json.at("token"));
  finding.dim = OptionalNumber<uint32_t>(json.at("dim"));
  finding.first_token = OptionalNumber<uint64_t>(json.at("first_token"));
  finding.token_count = OptionalNumber<uint64_t>(json.at("token_count"));
  finding.byte_offset = OptionalNumber<uint64_t>(json.at("byte_offset"));
  if (json.at("place").is_string()) finding.place = json.at("place").get<std::string>();
  finding.expected = json.at("expected").get<std::string>();
  finding.actual = json.at("actual").get<std::string>();
  if (json.at("damage").is_string()) {
    finding.damage = ByName(json.at("damage").get<std::string>(), DamageName, Damage::kByteOrder);
  }
  if (json.at("other_id").is_string()) {
    finding.other_id = ParseId(json.at("other_id").get<std::string>());
  }
  if (json.at("reread").is_string()) {
    finding.reread = ByName(json.at("reread").get<std::string>(), RereadName, Reread::kFailed);
  }
  finding.message = json.at("message").get<std::string>();
  return finding;
}

// `read` takes fields with at() and get(), which throw what the JSON library throws.
template <class T, class Read>
Result<T> ReadSummary(const Json& json, Read read) {
  try {
    return read(json);
  } catch (const nlohmann::json::exception& error) {
    return Status::IoError(
        fmt::format("the fresh process sent a broken summary: {}", error.what()));
  }
}

}  // namespace

Json RestoreJson(const RestoreSummary& summary) {
  const RestoreReport& restore = summary.restore;
  Json out;
  out["pid"] = summary.pid;
  out["run_pid"] = ::getpid();
  out["fresh_process"] = summary.fresh_process;
  out["blocks"] = restore.blocks;
  out["blocks_restored"] = restore.blocks_restored;
  out["kv_bytes"] = restore.kv_bytes;
  out["stored_bytes"] = restore.stored_bytes;
  out["read_ns"] = restore.read_ns;
  out["verify_ns"] = restore.verify_ns;
  out["overlap_ns"] = restore.overlap_ns;
  out["wall_ns"] = restore.wall_ns;
  const auto rate = [&](uint64_t bytes) {
    return restore.whole() ? GbPerS(bytes, restore.wall_ns) : std::nullopt;
  };
  const char* const reason = restore.whole() ? "nothing was read" : "not every record was restored";
  SetOrReason(out, "gb_per_s", rate(restore.stored_bytes), reason);
  SetOrReason(out, "kv_gb_per_s", rate(restore.kv_bytes), reason);
  out["prefill_tokens_after_restore"] = summary.prefill_tokens_after_restore;
  out["recomputed"] = summary.recomputed;
  return out;
}

Json NumericEnvironmentJson(const NumericEnvironment& environment) {
  Json out;
  out["kernel_set"] = environment.kernel_set;
  out["isa"] = environment.isa;
  out["library"] = environment.library;
  out["linear"] = environment.linear;
  out["threads"] = environment.threads;
  out["prefill_chunk"] = environment.prefill_chunk;
  return out;
}

Json ResumeSummaryJson(const RestoreSummary& summary, const NumericEnvironment& environment) {
  Json out;
  out["restore"] = RestoreJson(summary);
  out["findings"] = FindingsJson(summary.restore.findings);
  Json failed = Json::array();
  for (const FailedRead& read : summary.restore.failed_reads) {
    failed.push_back({{"block", read.block}, {"message", read.status.message()}});
  }
  out["failed_reads"] = std::move(failed);
  out["environment"] = NumericEnvironmentJson(environment);
  return out;
}

Result<RestoreSummary> RestoreSummaryFromJson(const Json& json) {
  return ReadSummary<RestoreSummary>(json, [](const Json& from) {
    const Json& in = from.at("restore");
    RestoreSummary summary;
    summary.pid = in.at("pid").get<int>();
    summary.prefill_tokens_after_restore = in.at("prefill_tokens_after_restore").get<uint64_t>();
    summary.recomputed = in.at("recomputed").get<bool>();
    RestoreReport& restore = summary.restore;
    restore.blocks = in.at("blocks").get<uint64_t>();
    restore.blocks_restored = in.at("blocks_restored").get<uint64_t>();
    restore.kv_bytes = in.at("kv_bytes").get<uint64_t>();
    restore.stored_bytes = in.at("stored_bytes").get<uint64_t>();
    restore.read_ns = in.at("read_ns").get<uint64_t>();
    restore.verify_ns = in.at("verify_ns").get<uint64_t>();
    restore.overlap_ns = in.at("overlap_ns").get<uint64_t>();
    restore.wall_ns = in.at("wall_ns").get<uint64_t>();
    for (const Json& finding : from.at("findings")) {
      restore.findings.push_back(FindingFromJson(finding));
    }
    for (const Json& failed : from.at("failed_reads")) {
      restore.failed_reads.push_back({failed.at("block").get<uint64_t>(),
                                      Status::IoError(failed.at("message").get<std::string>())});
    }
    return summary;
  });
}

Result<NumericEnvironment> EnvironmentFromJson(const Json& json) {
  return ReadSummary<NumericEnvironment>(json, [](const Json& from) {
    const Json& in = from.at("environment");
    NumericEnvironment environment;
    environment.kernel_set = in.at("kernel_set").get<std::string>();
    environment.isa = in.at("isa").get<std::string>();
    environment.library = in.at("library").get<std::string>();
    environment.linear = in.at("linear").get<std::string>();
    environment.threads = in.at("threads").get<uint32_t>();
    environment.prefill_chunk = in.at("prefill_chunk").get<uint32_t>();
    return environment;
  });
}

}  // namespace kvbed
