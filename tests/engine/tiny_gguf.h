// The smallest GGUF file of a Llama model, as parts that a test changes, drops or adds to.
// It doesn't know what should come of that.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/model/byte_alphabet.h"
#include "tests/engine/model_writers.h"

namespace kvbed {

// One layer, hidden 4, 2 query heads on 1 KV head, head_dim 2, MLP 8; the vocabulary is a special
// token, 256 bytes in order, and "he". Norms are 1, the other numbers count up from the tensor's.
struct TinyGguf {
  struct Tensor {
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    std::string bytes;
  };
  GgufWriter writer;
  std::map<std::string, std::function<void(GgufWriter&, const std::string& key)>> keys;
  std::map<std::string, Tensor> tensors;

  TinyGguf() {
    SetText("general.architecture", "llama");
    SetU32("llama.block_count", 1);
    SetU32("llama.context_length", 64);
    SetU32("llama.embedding_length", 4);
    SetU32("llama.feed_forward_length", 8);
    SetU32("llama.attention.head_count", 2);
    SetU32("llama.attention.head_count_kv", 1);
    SetF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    SetF32("llama.rope.freq_base", 10000);
    SetText("tokenizer.ggml.model", "gpt2");
    SetText("tokenizer.ggml.pre", "smollm");
    SetTexts("tokenizer.ggml.tokens", Tokens());
    std::vector<int32_t> types(Tokens().size(), 1);
    types[0] = 3;
    SetI32s("tokenizer.ggml.token_type", types);
    SetTexts("tokenizer.ggml.merges", {"h e"});
    SetU32("tokenizer.ggml.bos_token_id", 0);
    SetU32("tokenizer.ggml.eos_token_id", 0);
    const uint64_t vocab = Tokens().size();
    SetTensor("token_embd.weight", {4, vocab});
    SetTensor("blk.0.attn_norm.weight", {4});
    SetTensor("blk.0.attn_q.weight", {4, 4});
    SetTensor("blk.0.attn_k.weight", {4, 2});
    SetTensor("blk.0.attn_v.weight", {4, 2});
    SetTensor("blk.0.attn_output.weight", {4, 4});
    SetTensor("blk.0.ffn_norm.weight", {4});
    SetTensor("blk.0.ffn_gate.weight", {4, 8});
    SetTensor("blk.0.ffn_up.weight", {4, 8});
    SetTensor("blk.0.ffn_down.weight", {8, 4});
    SetTensor("output_norm.weight", {4});
  }

  static std::vector<std::string> Tokens() {
    std::vector<std::string> tokens = {"<|bos|>"};
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(ToByteAlphabet(std::string(1, static_cast<char>(byte))));
    tokens.push_back("he");
    return tokens;
  }

  void SetU32(const std::string& key, uint32_t value) {
    keys[key] = [value](GgufWriter& out, const std::string& name) { out.U32(name, value); };
  }
  void SetF32(const std::string& key, float value) {
    keys[key] = [value](GgufWriter& out, const std::string& name) { out.F32(name, value); };
  }
  void SetBool(const std::string& key, bool value) {
    keys[key] = [value](GgufWriter& out, const std::string& name) { out.Bool(name, value); };
  }
  void SetText(const std::string& key, const std::string& value) {
    keys[key] = [value](GgufWriter& out, const std::string& name) { out.Text(name, value); };
  }
  void SetTexts(const std::string& key, const std::vector<std::string>& values) {
    keys[key] = [values](GgufWriter& out, const std::string& name) { out.Texts(name, values); };
  }
  void SetI32s(const std::string& key, const std::vector<int32_t>& values) {
    keys[key] = [values](GgufWriter& out, const std::string& name) { out.I32s(name, values); };
  }
  // F32, of small numbers that differ.
  void SetTensor(const std::string& name, const std::vector<uint64_t>& dims) {
    uint64_t elements = 1;
    for (const uint64_t dim : dims) elements *= dim;
    std::vector<float> values(elements);
    for (size_t i = 0; i < elements; ++i)
      values[i] = dims.size() == 1 ? 1.0f : static_cast<float>(i % 61) * 0.01f;
    tensors[name] = {dims, 0, FloatBytes(values)};
  }

  std::string File() const {
    GgufWriter out = writer;
    for (const auto& [key, write] : keys) write(out, key);
    for (const auto& [name, tensor] : tensors)
      out.Tensor(name, tensor.dims, tensor.type, tensor.bytes);
    return out.File();
  }
};

}  // namespace kvbed
