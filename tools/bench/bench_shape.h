// The KV shapes that can be benchmarked without a model: a few known ones by name, and those of a
// config.json.
#pragma once

#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "offload/kv_geometry.h"
#include "offload/model_digests.h"
#include "offload/status.h"

namespace kvbed {

struct BenchShape {
  std::string name;
  ModelConfig config;

  KvGeometry Geometry(DType dtype, uint32_t block_tokens) const;
  // Of the config alone: there are no weights and no tokenizer. For ids and manifests.
  ModelDigests Digests() const;
};

std::vector<std::string> BenchShapeNames();

// A name, or the path of a config.json. Invalid argument with the nearest name for neither.
Result<BenchShape> FindBenchShape(const std::string& name_or_path);

}  // namespace kvbed
