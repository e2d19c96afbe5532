#include "tools/bench/bench_text.h"

#include <array>
#include <string_view>

namespace kvbed {
namespace {

constexpr std::array<std::string_view, 16> kSentences{
    "A cache of keys and values holds what attention has already read. ",
    "Each token adds one row to every layer, and no row is ever changed. ",
    "The longer the text, the more there is to keep, and the dearer it is to compute again. ",
    "A server with many users can't hold all of their caches in the memory of its accelerators. ",
    "What isn't needed at the moment may go to a disk and come back when its user does. ",
    "It must come back exactly as it was, or the answer is another one and nobody notices. ",
    "A disk moves so many bytes in a second, and a processor computes so many tokens. ",
    "Which of the two is faster depends on the length of the text and on both machines. ",
    "Small models have small caches, and long documents make even those large. ",
    "Blocks of sixteen tokens are written once and read as often as somebody asks again. ",
    "The first reader waits for the first block, and the last one decides how long it took. ",
    "Whoever measures a disk through the memory of the machine measures the memory. ",
    "Data that are durable only in a report are lost when the power goes. ",
    "A checksum over every byte costs little beside the transfer that it watches. ",
    "Rounding is no corruption, and corruption is no rounding: each has a report of its own. ",
    "In the end there is one question: is it quicker to read it or to think it again? ",
};

}  // namespace

std::string BenchText(uint64_t seed, uint64_t bytes) {
  std::string text;
  uint64_t state = seed;
  while (text.size() < bytes) {
    // Knuth's MMIX multiplier; the high bits choose.
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += kSentences[state >> 60];
  }
  return text;
}

}  // namespace kvbed
