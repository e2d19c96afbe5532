#include <nlohmann/json.hpp>

#include "backends/protocol_answer.h"
#include "backends/store_protocol.h"
#include "offload/manifest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

// The answer to call 7, taken as that to each verb.
bool FuzzProtocolAnswer(Bytes input) {
  constexpr uint64_t kCall = 7;
  const auto answer = ParseAnswer(AsText(input), kCall);
  if (!answer.ok()) return false;
  if (const auto status = StatusOfAnswer(*answer)) {
    KVBED_CHECK(status->ok() == status->message().empty());
    KVBED_CHECK(status->message().size() <= kProtocolMessageBytesMax);
  }
  if (const auto greeting = ParseGreeting(*answer); greeting.ok()) {
    KVBED_CHECK(greeting->name.size() <= kProtocolMessageBytesMax);
  }
  if (const auto results = ResultsOfAnswer(*answer, 2); results.ok() && *results != nullptr) {
    KVBED_CHECK((*results)->size() == 2);
    for (const auto& result : **results) {
      (void)StatusOfAnswer(result);
      (void)BytesOfAnswer(result);
    }
  }
  if (const auto page = PageOfAnswer(*answer, "ids", ""); page.ok()) {
    const auto ids = ParseIds(*page);
    KVBED_CHECK(!ids.ok() || ids->size() == page->size());
  }
  if (const auto page = PageOfAnswer(*answer, "names", "a"); page.ok() && CheckNames(*page).ok()) {
    for (const std::string& name : *page) KVBED_CHECK(ValidateSnapshotName(name).ok());
  }
  KVBED_CHECK(PrintableAnswer(*answer).size() <= 83);
  return true;
}

}  // namespace kvbed
