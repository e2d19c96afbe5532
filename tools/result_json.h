// The parts that every result file has in common, with the names that are fixed for scripts.
// It doesn't know any subcommand's own fields.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_config.h"
#include "offload/block_store.h"
#include "offload/finding.h"
#include "offload/kv_geometry.h"
#include "offload/model_digests.h"
#include "offload/status.h"

namespace kvbed {

// Fields stay in the order in which they were set, so that people can read the files.
using Json = nlohmann::ordered_json;

struct ResultHeader {
  std::string schema;             // "kvbed-run/1"
  std::vector<std::string> argv;  // CommandLineOfThisProcess()
  uint64_t seed = 0;
  uint64_t started_unix_ns = 0;  // UnixNs() at the start
};

// {schema, kvbed_version, argv, seed, started_at, env: null, model: null, status: "ok", reasons:
// []}
Json MakeResult(const ResultHeader& header);
// status becomes "failed", and `reason` is added.
void AddFailure(Json& result, std::string_view reason);
// Adds a reason and leaves the status as it is.
void AddReason(Json& result, std::string_view reason);

// What is known of a model. Digests are absent for a mere shape.
struct ModelDescription {
  std::string name;
  ModelConfig config;
  std::optional<ModelDigests> digests;
  KvGeometry geometry;
  std::optional<std::string> kernels;
  std::optional<uint64_t> weight_bytes;
  std::string absent_reason;  // why the optional ones are absent
};
Json ModelJson(const ModelDescription& model);

// `huge_page_bytes`: of the pool, as the kernel backs it; nullopt when there is no pool.
Json StoreJson(const StoreInfo& info, std::optional<uint64_t> huge_page_bytes);
Json FindingJson(const Finding& finding);

// object[name] = null and object[name_reason] = reason.
void SetNull(Json& object, std::string_view name, std::string_view reason);
// object[name] = value, or as SetNull.
void SetOrReason(Json& object, std::string_view name, std::optional<uint64_t> value,
                 std::string_view reason);
void SetOrReason(Json& object, std::string_view name, std::optional<double> value,
                 std::string_view reason);
void SetOrReason(Json& object, std::string_view name, std::optional<bool> value,
                 std::string_view reason);
void SetOrReason(Json& object, std::string_view name, const std::optional<std::string>& value,
                 std::string_view reason);
// The same for a text that is empty when there is none.
void SetTextOrReason(Json& object, std::string_view name, const std::string& text,
                     std::string_view reason);
// Null where the text is empty: for reasons, which have none of their own.
Json TextOrNull(const std::string& text);

// "2026-01-31T12:34:56.789Z"
std::string Iso8601(uint64_t unix_ns);
// From /proc/self/cmdline.
std::vector<std::string> CommandLineOfThisProcess();

// Text that is not UTF-8 (a prompt, a path) is written with replacement characters.
std::string JsonLine(const Json& json);    // one line, without its end
std::string JsonPretty(const Json& json);  // indented
// Indented, in the place of an old file.
Status WriteJsonFile(const std::string& path, const Json& json);
// Adds one line to the file, which is made when missing.
Status AppendJsonLine(const std::string& path, const Json& json);

}  // namespace kvbed
