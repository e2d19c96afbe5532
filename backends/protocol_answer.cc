#include "backends/protocol_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/line_exchange.h"
#include "backends/store_protocol.h"
#include "offload/manifest.h"

namespace kvbed {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 8;

// The member when it has the type that is wanted, else null.
const Json* Member(const Json& object, const char* name, Json::value_t type) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found != object.end() && found->type() == type ? &*found : nullptr;
}

const std::string* TextIn(const Json& object, const char* name) {
  const auto* member = Member(object, name, Json::value_t::string);
  return member == nullptr ? nullptr : member->get_ptr<const std::string*>();
}

std::optional<uint64_t> NumberIn(const Json& object, const char* name) {
  const auto* member = Member(object, name, Json::value_t::number_unsigned);
  if (member == nullptr) return std::nullopt;
  return member->get<uint64_t>();
}

// Whether brackets are open in each other beyond `depth`: the parser's values would take the stack.
bool NestsDeeper(std::string_view text, int depth) {
  int open = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) return true;
    } else if (c == ']' || c == '}') {
      --open;
    }
  }
  return false;
}

}  // namespace

std::string PrintableAnswer(const Json& answer) {
  return LineExchange::Printable(answer.dump(-1, ' ', true, Json::error_handler_t::replace));
}

Result<Json> ParseAnswer(std::string_view line, uint64_t call) {
  if (NestsDeeper(line, kDepthMax)) {
    return Status::IoError(
        fmt::format("its answer is nested too deeply: {}", LineExchange::Printable(line)));
  }
  auto answer = Json::parse(line, nullptr, false);
  if (!answer.is_object()) {
    return Status::IoError(
        fmt::format("its answer is no JSON object: {}", LineExchange::Printable(line)));
  }
  const auto answered = NumberIn(answer, "call");
  if (!answered) {
    return Status::IoError(
        fmt::format("its answer names no call: {}", LineExchange::Printable(line)));
  }
  if (*answered != call) {
    return Status::IoError(
        fmt::format("it answered call {}{}", *answered,
                    *answered < call ? " a second time" : ", which wasn't made"));
  }
  return answer;
}

std::optional<Status> StatusOfAnswer(const Json& answer) {
  const std::string* name = TextIn(answer, "status");
  if (name == nullptr) return std::nullopt;
  const auto code = ParseProtocolStatus(*name);
  if (!code) return std::nullopt;
  if (*code == StatusCode::kOk) return Status::Ok();
  const std::string* message = TextIn(answer, "message");
  if (message != nullptr && !message->empty()) return Status(*code, CutMessage(*message));
  return Status(*code, *code == StatusCode::kNotFound ? "the store says that it doesn't have it"
                                                      : "the store gives no reason");
}

std::optional<uint64_t> BytesOfAnswer(const Json& answer) { return NumberIn(answer, "bytes"); }

Result<ExternalGreeting> ParseGreeting(const Json& answer) {
  // A store of another version is told from one that can't be opened.
  const auto version = NumberIn(answer, "version");
  if (version && *version != kStoreProtocolVersion) {
    return Status::NotSupported(
        fmt::format("it speaks version {} of the store protocol, this kvbed speaks {}", *version,
                    kStoreProtocolVersion));
  }
  const auto status = StatusOfAnswer(answer);
  if (!status) return Status::IoError("its answer has no status");
  if (!status->ok()) {
    return Status(status->code(), fmt::format("it can't be opened: {}", status->message()));
  }
  if (!version) return Status::IoError("its answer has no version");
  ExternalGreeting greeting;
  if (const std::string* name = TextIn(answer, "name")) greeting.name = CutMessage(*name);
  if (const auto* lossy = Member(answer, "lossy", Json::value_t::boolean)) {
    greeting.lossy = lossy->get<bool>();
  }
  const Json* capabilities = Member(answer, "capabilities", Json::value_t::array);
  if (capabilities == nullptr) return Status::IoError("its answer has no list of capabilities");
  ExternalCapabilities& can = greeting.capabilities;
  const std::pair<std::string_view, bool*> known[] = {{"flush", &can.flush},
                                                      {"exists", &can.exists},
                                                      {"remove", &can.remove},
                                                      {"list", &can.list},
                                                      {"manifests", &can.manifests}};
  for (const Json& capability : *capabilities) {
    const auto found = std::find_if(std::begin(known), std::end(known), [&](const auto& one) {
      return capability.is_string() && capability.get_ref<const std::string&>() == one.first;
    });
    if (found == std::end(known)) {
      return Status::NotSupported(
          fmt::format("it names an unknown capability, {}", PrintableAnswer(capability)));
    }
    *found->second = true;
  }
  return greeting;
}

Result<const Json*> ResultsOfAnswer(const Json& answer, size_t count) {
  const Json* results = Member(answer, "results", Json::value_t::array);
  if (results != nullptr && results->size() != count) {
    return Status::IoError(fmt::format("it gave {} {} for {} of them", results->size(),
                                       results->size() == 1 ? "result" : "results", count));
  }
  return results;
}

Result<std::vector<std::string>> PageOfAnswer(const Json& answer, const char* list,
                                              std::string_view after) {
  const Json* page = Member(answer, list, Json::value_t::array);
  if (page == nullptr) return Status::IoError(fmt::format("its answer has no {}", list));
  if (page->size() > kProtocolPageMax) {
    return Status::IoError(
        fmt::format("it lists {}, {} at most were asked for", page->size(), kProtocolPageMax));
  }
  std::vector<std::string> texts;
  std::string_view last = after;
  texts.reserve(page->size());
  for (const Json& one : *page) {
    if (!one.is_string() || one.get_ref<const std::string&>() <= last) {
      return Status::IoError(
          fmt::format("its list isn't in ascending order after {}",
                      last.empty() ? "its beginning" : LineExchange::Printable(last)));
    }
    last = texts.emplace_back(one.get<std::string>());
  }
  return texts;
}

Result<std::vector<RecordId>> ParseIds(const std::vector<std::string>& page) {
  std::vector<RecordId> ids;
  ids.reserve(page.size());
  for (const std::string& hex : page) {
    const auto id = ParseRecordIdHex(hex);
    if (!id) {
      return Status::IoError(
          fmt::format("it lists what is no id: {}", LineExchange::Printable(hex)));
    }
    ids.push_back(*id);
  }
  return ids;
}

Status CheckNames(const std::vector<std::string>& page) {
  for (const std::string& name : page) {
    if (ValidateSnapshotName(name).ok()) continue;
    return Status::IoError(
        fmt::format("it lists what is no snapshot's name: {}", LineExchange::Printable(name)));
  }
  return Status::Ok();
}

}  // namespace kvbed
