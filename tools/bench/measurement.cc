#include "tools/bench/measurement.h"

namespace kvbed {
namespace {

// `before_ns`: how long the rounds before took. Several sequences are all done in the last one.
void AddDone(uint64_t before_ns, bool several, uint64_t next_first_ns, uint64_t next_last_ns,
             uint64_t& first_done_ns, uint64_t& last_done_ns) {
  if (first_done_ns == 0 || several) first_done_ns = before_ns + next_first_ns;
  last_done_ns = before_ns + next_last_ns;
}

}  // namespace

void OffloadSample::AddRound(const OffloadSample& next) {
  several_sequences = next.several_sequences;
  AddDone(d2_ns, several_sequences, next.first_done_ns, next.last_done_ns, first_done_ns,
          last_done_ns);
  d0_ns += next.d0_ns;
  d1_ns += next.d1_ns;
  d2_ns += next.d2_ns;
  cpu_ns += next.cpu_ns;
  hash_ns += next.hash_ns;
}

void RestoreSample::AddRound(const RestoreSample& next) {
  several_sequences = next.several_sequences;
  AddDone(wall_ns, several_sequences, next.first_done_ns, next.last_done_ns, first_done_ns,
          last_done_ns);
  wall_ns += next.wall_ns;
  read_ns += next.read_ns;
  verify_ns += next.verify_ns;
  overlap_ns += next.overlap_ns;
  cpu_ns += next.cpu_ns;
}

}  // namespace kvbed
