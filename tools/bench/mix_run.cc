#include "tools/bench/mix_run.h"

#include <algorithm>
#include <memory>

#include "offload/block_pool.h"
#include "tools/bench/beside_offload.h"
#include "tools/bench/cell_data.h"

namespace kvbed {

Status RunMix(const MixTools& tools, MixSamples& samples) {
  BenchCell beside_cell = tools.cell;
  ++beside_cell.seed;  // other data
  const KvGeometry& geometry = beside_cell.geometry;
  const uint64_t records = std::min(tools.beside_records, beside_cell.blocks());
  KVBED_ASSIGN_OR_RETURN(const auto pool,
                         BlockPool::Create(geometry, static_cast<uint32_t>(records)));
  KVBED_ASSIGN_OR_RETURN(CellData data, CellData::Create(beside_cell));
  const uint64_t tokens =
      beside_cell.real != nullptr ? beside_cell.ctx_tokens : records * geometry.block_tokens;
  KVBED_ASSIGN_OR_RETURN(Sequence sequence, data.FilledSequence(*pool, tokens));
  const auto beside =
      BesideOffload::Start(tools.store, sequence, data.NewManifest(tools.beside_name, tokens),
                           {.gb_per_s = *beside_cell.mix_gb_per_s,
                            .iodepth = beside_cell.store.settings.iodepth,
                            .snapshot = tools.beside_name});
  samples.snapshot_bytes = records * geometry.record_bytes();
  for (uint32_t i = 0; i < beside_cell.repetitions; ++i) {
    KVBED_ASSIGN_OR_RETURN(const RestoreSample sample, tools.restore());
    samples.restore_ns.push_back(sample.wall_ns);
  }
  KVBED_ASSIGN_OR_RETURN(const BesideOffload::Report report, beside->Stop());
  samples.offloaded_bytes = report.bytes;
  samples.offload_ns = report.ns;
  return Status::Ok();
}

}  // namespace kvbed
