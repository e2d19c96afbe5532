#include "engine/model/fingerprint.h"
#include "engine/model/hf_config.h"
#include "engine/model/shape_config.h"
#include "engine/model/shape_kv.h"
#include "engine/model/shape_weights.h"
#include "tests/fuzz/fuzz_targets.h"

namespace kvbed {

bool FuzzHfConfig(Bytes input) {
  const std::string_view text = AsText(input);
  const auto config = ParseHfConfig(text);
  if (config.ok()) {
    (void)RopeInverseFrequencies(*config);
    (void)DigestConfig(*config);
  }
  (void)ParseGenerationEosIds(text);
  const auto shape = ParseShapeConfig(text);
  KVBED_CHECK(!shape.ok() || ValidateModelShape(*shape).ok());
  return config.ok() || shape.ok();
}

}  // namespace kvbed
