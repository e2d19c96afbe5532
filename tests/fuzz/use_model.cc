#include "tests/fuzz/use_model.h"

#include <vector>

#include "engine/model/tokenizer.h"

namespace kvbed {

void UseTensors(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    std::vector<float> values(tensor.elements());
    tensor.ReadRows(0, tensor.rows(), values);
    std::vector<uint16_t> rounded(tensor.elements());
    tensor.ReadRowsBf16(0, tensor.rows(), rounded);
  }
}

bool UseTokenizer(Result<TokenizerDefinition> definition) {
  if (!definition.ok()) return false;
  const auto tokenizer = Tokenizer::Create(std::move(definition).value());
  if (!tokenizer.ok()) return false;
  const std::string text = "The <|im_end|> 123  \xff\n\n it's\xe2\x82 é";
  for (const bool parse_special : {false, true}) {
    const auto encoding = tokenizer->Encode(text, {.parse_special = parse_special});
    if (!encoding.ok()) continue;
    KVBED_CHECK(!encoding->ids.empty());
    for (const TokenId id : encoding->ids) (void)tokenizer->TokenText(id);
  }
  return true;
}

}  // namespace kvbed
