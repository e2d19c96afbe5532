#include "engine/model/tokenizer_json.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/use_model.h"

namespace kvbed {

bool FuzzTokenizerJson(Bytes input) { return UseTokenizer(ParseTokenizerJson(AsText(input))); }

}  // namespace kvbed
