#include "tools/diff/dump_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvbed {
namespace {

constexpr std::string_view kAxisLetters = "L2HTDNx1";

PlacedAxis* AxisOf(PlacedAxes& axes, KvAxis axis) {
  switch (axis) {
    case KvAxis::kLayer: return &axes.layer;
    case KvAxis::kPart: return &axes.part;
    case KvAxis::kHead: return &axes.head;
    case KvAxis::kToken: return &axes.token;
    case KvAxis::kDim: return &axes.dim;
    case KvAxis::kBlock: return &axes.block;
    case KvAxis::kDimInner: return &axes.dim_inner;
    case KvAxis::kOne: break;
  }
  return nullptr;
}

Status BadLayout(std::string_view text, std::string_view why) {
  return Status::InvalidArgument(fmt::format(
      "layout '{}': {}; it has a letter for each dimension, slowest first: L layers, 2 K and V, H "
      "KV heads, T tokens, D dims of a head, N blocks, x inner part of D, 1 of size 1",
      text, why));
}

// Counts of the axes that share one dimension of `size`: at most one isn't known beforehand.
Result<std::vector<uint64_t>> SplitDimension(const DumpLayout& layout,
                                             const std::vector<KvAxis>& axes, uint64_t size,
                                             const SharedCounts& shared) {
  if (axes.size() == 1) return std::vector<uint64_t>{size};
  std::vector<uint64_t> counts;
  std::optional<size_t> unknown;
  uint64_t product = 1;
  for (const KvAxis axis : axes) {
    std::optional<uint64_t> count;
    if (axis == KvAxis::kPart) count = 2;
    if (axis == KvAxis::kHead) count = shared.kv_heads;
    if (axis == KvAxis::kToken && layout.Has(KvAxis::kBlock)) count = shared.block_tokens;
    if (!count && unknown) {
      return Status::InvalidArgument(fmt::format(
          "layout {}: a dimension of {} holds several counts: give {}", layout.text, size,
          layout.Has(KvAxis::kBlock) ? "--kv-heads or --block-tokens" : "--kv-heads"));
    }
    if (!count) unknown = counts.size();
    counts.push_back(count.value_or(0));
    if (count && __builtin_mul_overflow(product, *count, &product)) product = 0;
  }
  const bool fits = product > 0 && (unknown ? size % product == 0 : size == product);
  if (!fits) {
    return Status::InvalidArgument(fmt::format("layout {}: a dimension of {} is no multiple of {}",
                                               layout.text, size, product));
  }
  if (unknown) counts[*unknown] = size / product;
  return counts;
}

}  // namespace

bool DumpLayout::Has(KvAxis axis) const {
  return std::ranges::any_of(
      dimensions, [&](const auto& axes) { return std::ranges::find(axes, axis) != axes.end(); });
}

Result<DumpLayout> ParseDumpLayout(std::string_view text) {
  DumpLayout layout{std::string(text), {}};
  bool inside = false;
  for (const char c : text) {
    if (c == '(' || c == ')') {
      if ((c == '(') == inside) return BadLayout(text, "its brackets don't match");
      if (c == ')' && layout.dimensions.back().empty()) return BadLayout(text, "empty brackets");
      inside = c == '(';
      if (inside) layout.dimensions.emplace_back();
      continue;
    }
    if (kAxisLetters.find(c) == kAxisLetters.npos) {
      return BadLayout(text, fmt::format("it holds '{}'", c));
    }
    const auto axis = static_cast<KvAxis>(c);
    if (axis != KvAxis::kOne && layout.Has(axis)) {
      return BadLayout(text, fmt::format("{} stands twice", c));
    }
    if (!inside) layout.dimensions.emplace_back();
    layout.dimensions.back().push_back(axis);
  }
  if (inside) return BadLayout(text, "its brackets don't match");
  if (!layout.Has(KvAxis::kDim)) return BadLayout(text, "it has no D");
  if (!layout.Has(KvAxis::kToken) && !layout.Has(KvAxis::kBlock)) {
    return BadLayout(text, "it has neither T nor N");
  }
  return layout;
}

Result<PlacedAxes> PlaceAxes(const DumpLayout& layout, const std::vector<uint64_t>& shape,
                             uint64_t element_bytes, const SharedCounts& shared) {
  const bool batch = shape.size() == layout.dimensions.size() + 1 && shape[0] == 1;
  if (shape.size() != layout.dimensions.size() && !batch) {
    return Status::InvalidArgument(fmt::format("layout {} has {} dimensions, the shape [{}] has {}",
                                               layout.text, layout.dimensions.size(),
                                               fmt::join(shape, ", "), shape.size()));
  }
  PlacedAxes axes;
  uint64_t stride_bytes = element_bytes;
  for (size_t i = layout.dimensions.size(); i-- > 0;) {
    const uint64_t size = shape[i + (batch ? 1 : 0)];
    const std::vector<KvAxis>& together = layout.dimensions[i];
    KVBED_ASSIGN_OR_RETURN(const std::vector<uint64_t> counts,
                           SplitDimension(layout, together, size, shared));
    for (size_t j = together.size(); j-- > 0;) {
      const bool wrong = counts[j] == 0 || (together[j] == KvAxis::kPart && counts[j] != 2) ||
                         (together[j] == KvAxis::kOne && counts[j] != 1);
      if (wrong) {
        return Status::InvalidArgument(
            fmt::format("layout {}: the dimension {} of the shape [{}] can't be {}", layout.text,
                        static_cast<char>(together[j]), fmt::join(shape, ", "), counts[j]));
      }
      if (PlacedAxis* axis = AxisOf(axes, together[j])) *axis = {counts[j], stride_bytes};
      // The product of the shape is the tensor's size and fits.
      stride_bytes *= counts[j];
    }
  }
  return axes;
}

}  // namespace kvbed
