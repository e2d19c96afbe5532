#include "offload/numeric_environment.h"

#include <fmt/format.h>

namespace kvbed {

std::string NumericEnvironment::DifferenceFrom(const NumericEnvironment& here) const {
  std::string text;
  const auto compare = [&](std::string_view what, const auto& stored, const auto& now) {
    if (stored == now) return;
    text += fmt::format("{}{} was {}, here {}", text.empty() ? "" : "; ", what, stored, now);
  };
  compare("kernel set", kernel_set, here.kernel_set);
  compare("instruction set", isa, here.isa);
  compare("library", library, here.library);
  compare("linear", linear, here.linear);
  if (kernel_set == "native" && here.kernel_set == "native") return text;
  compare("threads", threads, here.threads);
  compare("prefill chunk", prefill_chunk, here.prefill_chunk);
  return text;
}

}  // namespace kvbed
