// The outputs of every operation of a forward pass, as a digest for each position, and the first
// operation in which two passes over the same tokens differ. It doesn't know kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/op_output.h"

namespace kvbed {

class OpTrace {
 public:
  // What a position's row was: its digest, and how many rows went through the operation with it.
  struct Row {
    uint64_t digest = 0;
    uint32_t rows = 0;  // 0: none was seen
  };
  struct Operation {
    std::string op;
    std::optional<uint32_t> layer;
    uint64_t columns = 0;
    std::vector<Row> rows;  // by position
  };

  // A position that comes again takes the place of what was there.
  void Note(const OpOutput& output);
  // In the order in which they were first seen, which is that of the pass.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

// The first operation whose output differs at any position that both passes have.
struct FirstOp {
  std::string op;
  std::optional<uint32_t> layer;
  uint64_t columns = 0;
  uint64_t position = 0;     // the first that differs
  uint32_t cached_rows = 0;  // of the call in which that position came
  uint32_t recomputed_rows = 0;
  uint64_t differing = 0;  // positions
  uint64_t compared = 0;   // positions
};

struct OpComparison {
  uint64_t operations = 0;   // that both have
  uint64_t same_before = 0;  // operations before the first that differs, all the same
  std::optional<FirstOp> first;
};
OpComparison CompareOperations(const OpTrace& cached, const OpTrace& recomputed);

}  // namespace kvbed
