#include "engine/model/toy_model.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

bool FuzzToySpec(Bytes input) { return IsToySpec(AsText(input)) && MakeToy(AsText(input)).ok(); }

}  // namespace kvbed
