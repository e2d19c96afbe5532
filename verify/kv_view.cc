#include "verify/kv_view.h"

namespace kvbed {

KvView KvView::Of(const Sequence& sequence) {
  KvView view;
  view.geometry = sequence.pool().geometry();
  view.tokens = sequence.cached_tokens();
  for (uint64_t block = 0; block < sequence.blocks(); ++block) {
    view.payloads.push_back(sequence.pool()
                                .record(sequence.block_table()[block])
                                .subspan(kPageBytes, view.geometry.payload_bytes()));
  }
  return view;
}

}  // namespace kvbed
