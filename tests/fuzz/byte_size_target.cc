#include "backends/byte_size.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tools/option_values.h"

namespace kvbed {

bool FuzzByteSize(Bytes input) {
  const std::string_view text = AsText(input);
  const auto size = ParseByteSize(text, "capacity");
  if (size.ok()) {
    KVBED_CHECK(*size <= INT64_MAX);
    const auto again = ParseByteSize(std::to_string(*size), "capacity");
    KVBED_CHECK(again.ok() && *again == *size);
  }
  const auto count = ParseTokenCount(text);
  KVBED_CHECK(!count.ok() || *count > 0);
  const auto or_zero = ParseTokenCountOrZero(text);
  KVBED_CHECK(!count.ok() || (or_zero.ok() && *or_zero == *count));
  bool list = false;
  for (const auto& values : {ParseTokenCounts(text), ParseBlockSizes(text), ParseDepths(text)}) {
    if (!values.ok()) continue;
    list = true;
    KVBED_CHECK(!values->empty() && values->size() <= 4096);
    for (const uint64_t value : *values) KVBED_CHECK(value > 0);
  }
  const auto ids = ParseTokenIds(text);
  KVBED_CHECK(!ids.ok() || !ids->empty());
  return size.ok() || or_zero.ok() || list || ids.ok();
}

}  // namespace kvbed
