#include "verify/kv_diff.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "verify/element_bits.h"

namespace kvbed {
namespace {

// Rows are compared in runs of this many bytes: a run with a difference is looked at again, element
// by element.
constexpr uint64_t kRunBytes = 64 * 1024;

// Calls `visit` with the bit patterns of an element type.
template <class Visit>
auto WithBits(KvElement element, Visit visit) {
  switch (element) {
    case KvElement::kBf16: return visit(Bf16Bits{});
    case KvElement::kFp16: return visit(Fp16Bits{});
    case KvElement::kFp32: return visit(Fp32Bits{});
    case KvElement::kFp8E4m3: return visit(Fp8E4m3Bits{});
    case KvElement::kFp8E5m2: return visit(Fp8E5m2Bits{});
    case KvElement::kInt8: return visit(Int8Bits{});
    case KvElement::kByte: break;
  }
  return visit(ByteBits{});
}

template <class T>
uint64_t CountDifferingBits(Bytes a, Bytes b) {
  uint64_t bits = 0;
  for (size_t i = 0; i < a.size() / sizeof(typename T::Bits); ++i) {
    const auto differing = static_cast<typename T::Bits>(LoadBits<T>(a, i) ^ LoadBits<T>(b, i));
    bits += static_cast<uint64_t>(std::popcount(differing));
  }
  return bits;
}

auto PlaceOf(const KvDifference& at) {
  return std::tuple(at.layer, at.part, at.head, at.token, at.dim);
}

// One of K and V of a layer, tokens [first, last).
template <class T>
void ComparePart(const KvDump& a, const KvDump& b, uint64_t layer, KvPart part, uint64_t first,
                 uint64_t last, MutableBytes scratch, DriftPart& sum, KvDiffReport& report) {
  const uint64_t row_bytes = a.shape.row_bytes();
  const uint64_t run_rows = std::max<uint64_t>(1, kRunBytes / row_bytes);
  for (uint64_t head = 0; head < a.shape.kv_heads; ++head) {
    for (uint64_t token = first; token < last;) {
      const uint64_t rows_max = std::min(run_rows, last - token);
      Bytes from_a = a.Rows(layer, part, head, token, rows_max, scratch.first(row_bytes));
      Bytes from_b = b.Rows(layer, part, head, token, rows_max, scratch.subspan(row_bytes));
      const uint64_t bytes = std::min(from_a.size(), from_b.size());
      from_a = from_a.first(bytes);
      from_b = from_b.first(bytes);
      const uint64_t identical_before = sum.identical;
      CompareElements<T, double>(from_a, from_b, sum);
      report.compared_bytes += bytes;
      const uint64_t elements = bytes / sizeof(typename T::Bits);
      if (sum.identical - identical_before != elements) {
        report.differing_bits += CountDifferingBits<T>(from_a, from_b);
        size_t at = 0;
        while (LoadBits<T>(from_a, at) == LoadBits<T>(from_b, at)) ++at;
        const KvDifference here{layer,
                                part,
                                head,
                                token + at / a.shape.head_dim,
                                at % a.shape.head_dim,
                                LoadBits<T>(from_a, at),
                                LoadBits<T>(from_b, at)};
        if (!report.first || PlaceOf(here) < PlaceOf(*report.first)) report.first = here;
      }
      token += bytes / row_bytes;
    }
  }
}

}  // namespace

DriftPart KvDiffReport::total() const {
  DriftPart sum;
  for (const LayerDifference& layer : layers) {
    sum.Add(layer.k);
    sum.Add(layer.v);
  }
  return sum;
}

KvDiff::KvDiff(const KvDumpShape& shape, KvElement element) : shape_(shape) {
  report_.element = element;
  for (uint64_t layer = 0; layer < shape.layers; ++layer) report_.layers.push_back({layer, {}, {}});
}

void KvDiff::Add(const KvDump& a, const KvDump& b, uint64_t first, uint64_t last) {
  KVBED_CHECK(a.shape.row_bytes() == b.shape.row_bytes() && a.shape.kv_heads == b.shape.kv_heads);
  KVBED_CHECK(a.shape.layers == shape_.layers && b.shape.layers == shape_.layers);
  std::vector<std::byte> scratch(2 * shape_.row_bytes());
  WithBits(report_.element, [&](auto bits) {
    for (LayerDifference& layer : report_.layers) {
      for (KvPart part : {KvPart::kK, KvPart::kV}) {
        ComparePart<decltype(bits)>(a, b, layer.layer, part, first, last, scratch,
                                    part == KvPart::kK ? layer.k : layer.v, report_);
      }
    }
  });
}

std::optional<double> KvElementValue(KvElement element, uint32_t bits) {
  if (element == KvElement::kByte) return std::nullopt;
  return WithBits(element, [&](auto type) -> std::optional<double> {
    using Type = decltype(type);
    const auto own = static_cast<typename Type::Bits>(bits);
    if (!Type::IsFinite(own)) return std::nullopt;
    return double{Type::Value(own)};
  });
}

}  // namespace kvbed
