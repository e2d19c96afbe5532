// The KV shapes that can be benchmarked without a model: those of which a token is kept as K and V.
#pragma once

#include <string>

#include "engine/model/model_config.h"
#include "engine/model/model_shape.h"
#include "engine/model/shape_kv.h"
#include "offload/kv_geometry.h"
#include "offload/model_digests.h"
#include "offload/status.h"

namespace kvbed {

struct BenchShape {
  std::string name;
  ModelConfig config;
  ModelShape sizes;

  KvGeometry Geometry(DType dtype, uint32_t block_tokens) const;
  // Of the records of one rank of tensor parallelism, each with that rank's KV heads. The split is
  // SplitKv(sizes, ranks) of shape_kv.h.
  KvGeometry RankGeometry(DType dtype, uint32_t block_tokens, const KvSplit& split) const;
  // Of the config alone: there are no weights and no tokenizer. For ids and manifests.
  ModelDigests Digests() const;
  // Invalid argument, naming the window, for more tokens than a layer with a window keeps: records
  // hold every token of every layer.
  Status CheckContext(uint64_t ctx_tokens) const;
};

// A name, or the path of a config.json. Invalid argument with the nearest name for neither, and for
// latent attention, of which no K and V are kept.
Result<BenchShape> FindBenchShape(const std::string& name_or_path);

}  // namespace kvbed
