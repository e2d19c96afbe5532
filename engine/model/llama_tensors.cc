#include "engine/model/llama_tensors.h"

#include <fmt/format.h>

#include <set>

#include "engine/model/utf8.h"

namespace kvbed {
namespace {

Status CheckTensor(const TensorMap& tensors, const std::string& name,
                   const std::vector<uint64_t>& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    return Status::Corruption(
        fmt::format("the file has no tensor {}, which the model needs", name));
  if (found->second.shape == shape) return Status::Ok();
  return Status::Corruption(fmt::format("tensor {} has shape [{}], the config calls for [{}]", name,
                                        fmt::join(found->second.shape, ", "),
                                        fmt::join(shape, ", ")));
}

}  // namespace

std::vector<uint64_t> LayerTensorShape(const ModelConfig& config, std::string_view part) {
  const uint64_t hidden = config.hidden, mlp = config.intermediate;
  if (part.ends_with("layernorm.weight")) return {hidden};
  if (part == "self_attn.q_proj.weight") return {config.query_rows(), hidden};
  if (part == "self_attn.k_proj.weight") return {config.kv_rows(), hidden};
  if (part == "self_attn.v_proj.weight") return {config.kv_rows(), hidden};
  if (part == "self_attn.o_proj.weight") return {hidden, config.query_rows()};
  if (part == "mlp.down_proj.weight") return {hidden, mlp};
  return {mlp, hidden};
}

Status CheckLlamaTensors(const ModelConfig& config, const TensorMap& tensors) {
  std::set<std::string_view> expected;
  const auto check = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    const Status status = CheckTensor(tensors, name, shape);
    if (status.ok()) expected.insert(tensors.find(name)->first);
    return status;
  };
  KVBED_RETURN_IF_ERROR(ForEachLlamaTensor(config, check));
  for (const auto& [name, tensor] : tensors)
    if (!expected.contains(name))
      return Status::NotSupported(
          fmt::format("tensor {} is no part of the Llama model that the config describes; kvbed "
                      "can't run it faithfully",
                      PrintableText(name, 200)));
  return Status::Ok();
}

}  // namespace kvbed
