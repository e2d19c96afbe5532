// A text of the benchmark's own for models, when no prompt is given: seeded, and as long as asked.
#pragma once

#include <cstdint>
#include <string>

namespace kvbed {

// Sentences in a seeded order until there are at least so many bytes. The same everywhere.
std::string BenchText(uint64_t seed, uint64_t bytes);

}  // namespace kvbed
