// What a store says in its answers, docs/store-protocol.md, made of the bytes of a line: everything
// in it is hostile until it was looked at here. It doesn't know processes or calls that are made.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/external_store.h"
#include "offload/record_id.h"
#include "offload/status.h"

namespace kvbed {

// What a store says of itself when it starts.
struct ExternalGreeting {
  std::string name;
  ExternalCapabilities capabilities;
  bool lossy = false;
};

// All errors are an I/O error for a broken protocol, or what is said at the function; their
// messages begin with the store: "its answer has no results".

// The object in `line`, which must be the answer to this call.
Result<nlohmann::json> ParseAnswer(std::string_view line, uint64_t call);

// The {"status", "message"} of an answer or of one of its results; nothing when it has no status
// that is known.
std::optional<Status> StatusOfAnswer(const nlohmann::json& answer);
// Its "bytes", if they are a number.
std::optional<uint64_t> BytesOfAnswer(const nlohmann::json& answer);
// What a hello is answered. Not supported for another version and for unknown capabilities; the
// store's own error when it can't be opened.
Result<ExternalGreeting> ParseGreeting(const nlohmann::json& answer);
// Its list of `count` results; null when it has none at all. The list belongs to `answer`.
Result<const nlohmann::json*> ResultsOfAnswer(const nlohmann::json& answer, size_t count);
// A page of a list: strings in ascending order, all behind `after`, at most kProtocolPageMax.
Result<std::vector<std::string>> PageOfAnswer(const nlohmann::json& answer, const char* list,
                                              std::string_view after);
Result<std::vector<RecordId>> ParseIds(const std::vector<std::string>& page);
// Nothing when all are names of snapshots.
Status CheckNames(const std::vector<std::string>& page);

// The JSON of `answer` as a message may show it.
std::string PrintableAnswer(const nlohmann::json& answer);

}  // namespace kvbed
