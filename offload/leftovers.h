// What lies in a store beside what is committed: records that no manifest names, temporary files,
// and files that aren't the store's. It doesn't say what becomes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/bytes.h"
#include "offload/record_id.h"

namespace kvbed {

enum class LeftoverKind : uint8_t {
  kRecord,     // a record that no manifest names
  kTemporary,  // what a killed writer left, or what a living one is at; its name says so
  kUnknown,    // nothing that a store makes: somebody else's, and left alone
};

struct Leftover {
  LeftoverKind kind = LeftoverKind::kUnknown;
  std::string path;
  uint64_t offset = 0;  // of a record within the file
  uint64_t size_bytes = 0;
  std::optional<RecordId> id;  // a record's
  // The record lies in a place that counts as free, and is written over: nothing is lost by it. One
  // that doesn't takes room until a writer opens the store.
  bool place_is_free = false;
};

// What there is of one kind.
struct LeftoverTotal {
  uint64_t count = 0;
  uint64_t size_bytes = 0;
};

// Each kind is counted whole, and named up to a limit, since a large store may have millions.
class Leftovers {
 public:
  static constexpr uint64_t kNamedMax = 10'000;  // of each kind

  void Add(Leftover leftover) {
    LeftoverTotal& total = totals_[static_cast<size_t>(leftover.kind)];
    ++total.count;
    total.size_bytes += leftover.size_bytes;
    const bool goes = leftover.kind == LeftoverKind::kTemporary ||
                      (leftover.kind == LeftoverKind::kRecord && !leftover.place_is_free);
    if (goes) ++swept_by_a_writer_;
    if (total.count <= kNamedMax) named_.push_back(std::move(leftover));
  }

  const std::vector<Leftover>& named() const { return named_; }
  const LeftoverTotal& total(LeftoverKind kind) const { return totals_[static_cast<size_t>(kind)]; }
  // How many a writer that opens the store removes, when all manifests can be read.
  uint64_t swept_by_a_writer() const { return swept_by_a_writer_; }

 private:
  std::vector<Leftover> named_;
  LeftoverTotal totals_[3];
  uint64_t swept_by_a_writer_ = 0;
};

// Which record a header page is of; nullopt when it is none. Stores don't know the format.
using RecordNamer = std::optional<RecordId> (*)(Bytes header_page);

}  // namespace kvbed
