#include "tests/fuzz/fuzz_targets.h"
#include "verify/ledger.h"

namespace kvbed {

bool FuzzLedger(Bytes input) {
  const auto ledger = DecodeLedger(AsText(input), "input");
  if (!ledger.ok()) return false;
  const auto again = DecodeLedger(EncodeLedger(*ledger), "encoded");
  KVBED_CHECK(again.ok() && *again == *ledger);
  return true;
}

}  // namespace kvbed
