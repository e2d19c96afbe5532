#include "tools/result_json.h"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/output_file.h"
#include "tools/version.h"

namespace kvbed {
namespace {

template <class T>
Json ValueOrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <class T>
void SetValueOrReason(Json& object, std::string_view name, const std::optional<T>& value,
                      std::string_view reason) {
  if (value) {
    object[std::string(name)] = *value;
  } else {
    SetNull(object, name, reason);
  }
}

}  // namespace

Json MakeResult(const ResultHeader& header) {
  Json result;
  result["schema"] = header.schema;
  result["kvbed_version"] = VersionNumber();
  result["argv"] = header.argv;
  result["seed"] = header.seed;
  result["started_at"] = Iso8601(header.started_unix_ns);
  result["env"] = nullptr;
  result["model"] = nullptr;
  result["status"] = "ok";
  result["reasons"] = Json::array();
  return result;
}

void AddFailure(Json& result, std::string_view reason) {
  result["status"] = "failed";
  AddReason(result, reason);
}

void AddReason(Json& result, std::string_view reason) {
  result["reasons"].push_back(std::string(reason));
}

Json ModelJson(const ModelDescription& model) {
  const ModelConfig& config = model.config;
  Json out;
  out["name"] = model.name;
  const auto digest = [&](const char* name, auto pick) {
    std::optional<std::string> hex;
    if (model.digests) hex = pick(*model.digests).ToHex();
    SetOrReason(out, name, hex, model.absent_reason);
  };
  digest("fingerprint", [](const ModelDigests& d) { return d.Fingerprint(); });
  digest("weights_digest", [](const ModelDigests& d) { return d.weights; });
  digest("config_digest", [](const ModelDigests& d) { return d.config; });
  digest("tokenizer_digest", [](const ModelDigests& d) { return d.tokenizer; });
  out["dtype"] = std::string(DTypeName(model.geometry.dtype));
  SetOrReason(out, "kernels", model.kernels, model.absent_reason);
  out["layers"] = config.layers;
  out["heads"] = config.heads;
  out["kv_heads"] = config.kv_heads;
  out["head_dim"] = config.head_dim;
  out["hidden"] = config.hidden;
  out["vocab"] = config.vocab;
  out["rope_theta"] = config.rope_theta;
  SetOrReason(out, "weight_bytes", model.weight_bytes, model.absent_reason);
  // What a token takes in the pool's records, and what the model's config says it must take.
  out["kv_bytes_per_token"] = model.geometry.payload_bytes() / model.geometry.block_tokens;
  out["kv_bytes_per_token_formula"] = KvBytesPerToken(config, DTypeBytes(model.geometry.dtype));
  return out;
}

Json StoreJson(const StoreInfo& info, std::optional<uint64_t> huge_page_bytes) {
  Json out;
  out["spec"] = info.spec;
  out["kind"] = info.kind;
  out["uuid"] = info.uuid.ToHex();
  out["ioengine"] = info.ioengine;
  out["ioengine_reason"] = TextOrNull(info.ioengine_reason);
  out["direct"] = info.direct;
  out["direct_reason"] = TextOrNull(info.direct_reason);
  SetTextOrReason(out, "fs_type", info.fs_type, "the store has no files");
  out["alignment_bytes"] = info.alignment_bytes;
  if (info.record_bytes > 0) {
    out["record_bytes"] = info.record_bytes;
  } else {
    SetNull(out, "record_bytes", "no records, or records of several sizes");
  }
  out["iodepth_requested"] = info.iodepth_requested;
  out["iodepth_achieved"] = info.iodepth_achieved;
  out["registered_buffers"] = info.registered_buffers;
  out["registered_buffers_reason"] = TextOrNull(info.registered_buffers_reason);
  out["registered_files"] = info.registered_files;
  out["registered_files_reason"] = TextOrNull(info.registered_files_reason);
  out["ring_flags"] = info.ring_flags;
  SetOrReason(out, "huge_page_bytes", huge_page_bytes, "no pool");
  out["durability"] = info.durability;
  out["design"] = info.design;
  Json details = Json::object();
  for (const auto& [name, value] : info.details) details[name] = value;
  out["details"] = std::move(details);
  out["warnings"] = info.warnings;
  return out;
}

Json FindingJson(const Finding& finding) {
  Json out;
  out["check"] = std::string(CheckName(finding.check));
  out["id"] = finding.id.ToHex();
  out["layer"] = ValueOrNull(finding.layer);
  out["kv"] = finding.kv ? Json(*finding.kv == KvPart::kK ? "K" : "V") : Json();
  out["head"] = ValueOrNull(finding.head);
  out["token"] = ValueOrNull(finding.token);
  out["dim"] = ValueOrNull(finding.dim);
  out["first_token"] = ValueOrNull(finding.first_token);
  out["token_count"] = ValueOrNull(finding.token_count);
  out["byte_offset"] = ValueOrNull(finding.byte_offset);
  out["place"] = TextOrNull(finding.place);
  out["expected"] = finding.expected;
  out["actual"] = finding.actual;
  out["damage"] = finding.damage ? Json(std::string(DamageName(*finding.damage))) : Json();
  out["other_id"] = finding.other_id ? Json(finding.other_id->ToHex()) : Json();
  out["reread"] = finding.reread ? Json(std::string(RereadName(*finding.reread))) : Json();
  out["message"] = finding.message;
  return out;
}

void SetNull(Json& object, std::string_view name, std::string_view reason) {
  object[std::string(name)] = nullptr;
  object[std::string(name) + "_reason"] = std::string(reason);
}

void SetOrReason(Json& object, std::string_view name, std::optional<uint64_t> value,
                 std::string_view reason) {
  SetValueOrReason(object, name, value, reason);
}
void SetOrReason(Json& object, std::string_view name, std::optional<double> value,
                 std::string_view reason) {
  SetValueOrReason(object, name, value, reason);
}
void SetOrReason(Json& object, std::string_view name, std::optional<bool> value,
                 std::string_view reason) {
  SetValueOrReason(object, name, value, reason);
}
void SetOrReason(Json& object, std::string_view name, const std::optional<std::string>& value,
                 std::string_view reason) {
  SetValueOrReason(object, name, value, reason);
}

void SetTextOrReason(Json& object, std::string_view name, const std::string& text,
                     std::string_view reason) {
  SetOrReason(object, name, text.empty() ? std::nullopt : std::optional(text), reason);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string Iso8601(uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     unix_ns / 1'000'000 % 1000);
}

std::vector<std::string> CommandLineOfThisProcess() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> argv;
  for (std::string word; std::getline(in, word, '\0');) argv.push_back(word);
  return argv;
}

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string JsonPretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Status WriteJsonFile(const std::string& path, const Json& json) {
  return ReplaceFile(path, JsonPretty(json) + "\n");
}

Status AppendJsonLine(const std::string& path, const Json& json) {
  return AppendToFile(path, JsonLine(json) + "\n");
}

}  // namespace kvbed
