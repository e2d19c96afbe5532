#include "tools/bench/aged_store.h"

#include <algorithm>
#include <vector>

#include "tools/bench/seeded_order.h"
#include "tools/interrupt.h"

namespace kvbed {
namespace {

constexpr uint64_t kSnapshotsOfCell = 8;

Status WriteOne(const AgePlan& plan, uint64_t number, const AgeTools& tools) {
  if (Interrupted()) return InterruptedStatus();
  KVBED_ASSIGN_OR_RETURN(Sequence sequence,
                         tools.data.FilledSequence(tools.pool, plan.snapshot_tokens));
  Manifest manifest = tools.data.NewManifest(tools.name(number), plan.snapshot_tokens);
  LoadMover::OffloadPart part{.sequence = &sequence, .manifest = &manifest, .report = {}};
  KVBED_RETURN_IF_ERROR(tools.mover.Offload({&part, 1}, {}).status());
  tools.written(manifest);
  return Status::Ok();
}

}  // namespace

AgePlan PlanAge(const BenchCell& cell, uint64_t fill_bytes, uint64_t pool_records) {
  const uint64_t blocks = std::clamp<uint64_t>(
      cell.geometry.BlocksFor(cell.ctx_tokens) / kSnapshotsOfCell, 1, pool_records);
  AgePlan plan;
  plan.snapshot_tokens = std::min(blocks * cell.geometry.block_tokens, cell.ctx_tokens);
  plan.snapshot_bytes = blocks * cell.geometry.record_bytes();
  plan.snapshots = fill_bytes / plan.snapshot_bytes;
  plan.freed = plan.snapshots / 2;
  const uint64_t measured_bytes = cell.sets() * cell.stored_bytes();
  const uint64_t left =
      std::min(plan.freed / 2, (measured_bytes + plan.snapshot_bytes - 1) / plan.snapshot_bytes);
  plan.refilled = plan.freed - left;
  return plan;
}

Result<AgedSample> AgeStore(const AgePlan& plan, uint64_t seed, const AgeTools& tools) {
  for (uint64_t i = 0; i < plan.snapshots; ++i) KVBED_RETURN_IF_ERROR(WriteOne(plan, i, tools));
  const std::vector<uint64_t> order = SeededOrder(plan.snapshots, seed);
  for (uint64_t i = 0; i < plan.freed; ++i) {
    if (Interrupted()) return InterruptedStatus();
    KVBED_RETURN_IF_ERROR(tools.store.RemoveManifest(tools.name(order[i])));
  }
  for (uint64_t i = 0; i < plan.refilled; ++i) {
    KVBED_RETURN_IF_ERROR(WriteOne(plan, order[i], tools));
  }
  return AgedSample{plan.snapshots, plan.freed, plan.refilled,
                    plan.snapshots * plan.snapshot_bytes};
}

}  // namespace kvbed
