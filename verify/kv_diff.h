// Compares two KV dumps bit by bit and says how much of them is identical, where they first differ
// and by how much. It doesn't know files, and what a difference proves is kv_damage.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/drift.h"
#include "verify/kv_dump.h"

namespace kvbed {

// An element that differs: its place and both bit patterns.
struct KvDifference {
  uint64_t layer = 0;
  KvPart part = KvPart::kK;
  uint64_t head = 0;
  uint64_t token = 0;
  uint64_t dim = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  bool operator==(const KvDifference&) const = default;
};

struct LayerDifference {
  uint64_t layer = 0;
  DriftPart k, v;
};

struct KvDiffReport {
  KvElement element = KvElement::kBf16;  // what the elements were compared as
  std::vector<LayerDifference> layers;
  std::optional<KvDifference> first;  // in the order layer, K before V, head, token, dim
  uint64_t compared_bytes = 0;
  uint64_t differing_bits = 0;

  DriftPart total() const;
  bool equal() const { return differing_bits == 0; }
};

// Compares piece by piece, so that neither dump must be in memory at once.
class KvDiff {
 public:
  // `element`: ComparedAs of the two.
  KvDiff(const KvDumpShape& shape, KvElement element);

  // Tokens [first, last), which both dumps must have. Their shapes may differ in the element only
  // as ComparableElements allows.
  void Add(const KvDump& a, const KvDump& b, uint64_t first, uint64_t last);

  const KvDiffReport& report() const { return report_; }

 private:
  const KvDumpShape shape_;
  KvDiffReport report_;
};

// The value of a finite bit pattern; nullopt for infinities, NaN and bytes of unknown meaning.
std::optional<double> KvElementValue(KvElement element, uint32_t bits);

}  // namespace kvbed
