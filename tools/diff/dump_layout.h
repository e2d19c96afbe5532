// The layout string of a dump's tensor, such as L2HTD: which dimension counts what, slowest first.
// It doesn't know files; it turns a shape into counts and strides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/status.h"

namespace kvbed {

// L layers, 2 K and V, H KV heads, T tokens (of a block, where there are blocks), D dims of a head,
// N blocks, x the inner part of a split D, 1 a dimension of size 1.
enum class KvAxis : char {
  kLayer = 'L',
  kPart = '2',
  kHead = 'H',
  kToken = 'T',
  kDim = 'D',
  kBlock = 'N',
  kDimInner = 'x',
  kOne = '1',
};

struct DumpLayout {
  std::string text;
  // One for each dimension; several axes where one dimension holds them, "(HD)".
  std::vector<std::vector<KvAxis>> dimensions;

  bool Has(KvAxis axis) const;
};

// Invalid argument for a letter that is none, one that stands twice, or no D or no T and N.
Result<DumpLayout> ParseDumpLayout(std::string_view text);

struct PlacedAxis {
  uint64_t count = 1;
  uint64_t stride_bytes = 0;
};
struct PlacedAxes {
  PlacedAxis layer, part, head, token, block, dim, dim_inner;
};

// Counts of axes that share a dimension with another.
struct SharedCounts {
  std::optional<uint64_t> kv_heads;
  std::optional<uint64_t> block_tokens;
};

// Invalid argument when the shape isn't of the layout: says why. A first dimension of size 1 (a
// batch of one) needn't be in the layout.
Result<PlacedAxes> PlaceAxes(const DumpLayout& layout, const std::vector<uint64_t>& shape,
                             uint64_t element_bytes, const SharedCounts& shared);

}  // namespace kvbed
