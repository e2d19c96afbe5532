#include "verify/kv_dump.h"

#include <algorithm>

namespace kvbed {

std::string_view KvElementName(KvElement element) {
  switch (element) {
    case KvElement::kBf16: return "bf16";
    case KvElement::kFp16: return "fp16";
    case KvElement::kFp32: return "fp32";
    case KvElement::kFp8E4m3: return "fp8_e4m3";
    case KvElement::kFp8E5m2: return "fp8_e5m2";
    case KvElement::kInt8: return "int8";
    case KvElement::kByte: return "u8";
  }
  return "?";
}

uint64_t KvElementBytes(KvElement element) {
  switch (element) {
    case KvElement::kFp32: return 4;
    case KvElement::kBf16:
    case KvElement::kFp16: return 2;
    default: return 1;
  }
}

KvElement KvElementOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return KvElement::kBf16;
    case DType::kFp32: return KvElement::kFp32;
    case DType::kInt8: return KvElement::kInt8;
    case DType::kFp8: return KvElement::kByte;
  }
  return KvElement::kByte;
}

bool ComparableElements(KvElement a, KvElement b) {
  if (a == b) return true;
  const bool unknown = a == KvElement::kByte || b == KvElement::kByte;
  return unknown && KvElementBytes(a) == KvElementBytes(b);
}

KvElement ComparedAs(KvElement a, KvElement b) { return a == KvElement::kByte ? b : a; }

Bytes KvDump::Rows(uint64_t layer, KvPart part, uint64_t head, uint64_t token, uint64_t rows,
                   MutableBytes scratch) const {
  KVBED_CHECK(token >= first_token && token < end_token && rows > 0);
  const uint64_t element_bytes = KvElementBytes(shape.element);
  const uint64_t row_bytes = shape.row_bytes();
  uint64_t index = token - first_token;
  uint64_t together = std::min(rows, end_token - token);
  uint64_t offset = head * strides.head;
  if (block_tokens > 0) {
    offset += block_table[index / block_tokens] * strides.block;
    index %= block_tokens;
    together = std::min(together, block_tokens - index);
  }
  offset += index * strides.token;
  const Bytes from = parts[layer * 2 + static_cast<uint64_t>(part)];
  const bool neighbours = strides.dims_together == 1
                              ? strides.dim == element_bytes
                              : strides.dim_inner == element_bytes &&
                                    strides.dim == element_bytes * strides.dims_together;
  if (neighbours) {
    if (strides.token != row_bytes) together = 1;
    return from.subspan(offset, together * row_bytes);
  }
  for (uint64_t dim = 0; dim < shape.head_dim; ++dim) {
    const uint64_t at = offset + dim / strides.dims_together * strides.dim +
                        dim % strides.dims_together * strides.dim_inner;
    const Bytes element = from.subspan(at, element_bytes);
    std::copy(element.begin(), element.end(),
              scratch.begin() + static_cast<ptrdiff_t>(dim * element_bytes));
  }
  return Bytes(scratch).first(row_bytes);
}

void KvDump::CopyRows(uint64_t layer, KvPart part, uint64_t head, uint64_t first, uint64_t last,
                      MutableBytes out) const {
  while (first < last) {
    // A gathered row is put straight where it belongs.
    const Bytes rows = Rows(layer, part, head, first, last - first, out.first(shape.row_bytes()));
    if (rows.data() != out.data()) std::copy(rows.begin(), rows.end(), out.begin());
    out = out.subspan(rows.size());
    first += rows.size() / shape.row_bytes();
  }
}

}  // namespace kvbed
