#include "engine/model/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include "offload/bytes.h"

namespace kvbed {

std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& tensors,
                              const std::vector<std::pair<std::string, std::string>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [name, value] : metadata) header["__metadata__"][name] = value;
  uint64_t begin = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    const uint64_t end = begin + tensor.size_bytes;
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", nlohmann::ordered_json::array({begin, end})}};
    begin = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize(RoundUp(text.size(), 8), ' ');
  std::string file(8, '\0');
  StoreLe<uint64_t>(std::as_writable_bytes(std::span(file)), 0, text.size());
  return file + text;
}

}  // namespace kvbed
