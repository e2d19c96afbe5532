#include "engine/model/fingerprint.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_model.h"
#include "engine/model/gguf_tokenizer.h"
#include "engine/model/llama_tensors.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/use_model.h"

namespace kvbed {

bool FuzzGguf(Bytes input) {
  const auto file = GgufFile::Parse(input);
  if (!file.ok()) return false;
  const auto config = ReadGgufConfig(*file);
  if (!config.ok()) return false;
  (void)RopeInverseFrequencies(*config);
  (void)DigestConfig(*config);
  const auto tensors = ReadGgufTensors(*file, *config);
  if (!tensors.ok() || !CheckLlamaTensors(*config, *tensors).ok()) return false;
  UseTensors(*tensors);
  auto definition = ReadGgufTokenizer(*file, config->vocab);
  if (!definition.ok()) return false;
  return !definition->has_value() || UseTokenizer(**std::move(definition));
}

}  // namespace kvbed
