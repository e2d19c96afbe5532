#include "tools/bench/cell_data.h"

#include "offload/record_id.h"
#include "tools/bench/real_kv.h"

namespace kvbed {

Result<CellData> CellData::Create(const BenchCell& cell) {
  CellData data(cell);
  if (cell.real == nullptr) {
    KVBED_ASSIGN_OR_RETURN(data.synthetic_, SyntheticKv::Create(cell.geometry, cell.seed));
  }
  return data;
}

Sequence CellData::NewSequence(BlockPool& pool, uint64_t sequence_id) const {
  if (cell_->real != nullptr) return Sequence(pool, cell_->real->IdentityOf(sequence_id));
  return Sequence(pool, {.model_fingerprint = cell_->shape.Digests().Fingerprint(),
                         .rope_identity = 0,
                         .sequence_id = sequence_id});
}

Result<Sequence> CellData::FilledSequence(BlockPool& pool, uint64_t tokens) {
  Sequence sequence = NewSequence(pool, RandomId());
  KVBED_RETURN_IF_ERROR(sequence.Reserve(tokens));
  sequence.Advance(tokens);
  const KvSource& source = synthetic_ ? static_cast<const KvSource&>(*synthetic_) : *cell_->real;
  source.Fill(sequence, fills_++);
  return sequence;
}

Manifest CellData::NewManifest(const std::string& name, uint64_t tokens) const {
  Manifest manifest;
  manifest.name = name;
  manifest.prompt_tokens = tokens;
  manifest.token_ids.assign(tokens, 0);
  if (const RealKv* real = cell_->real) {
    manifest.model_name = real->model().files.name;
    manifest.model = real->model().digests;
    manifest.environment = real->model().engine.environment();
    return manifest;
  }
  manifest.model_name = cell_->shape.name + " (synthetic KV)";
  manifest.model = cell_->shape.Digests();
  manifest.environment.kernel_set = "none";
  return manifest;
}

}  // namespace kvbed
