#include "tools/bench/null_rates.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "backends/open_store.h"
#include "tools/bench/load_mover.h"
#include "tools/bench/null_io.h"
#include "tools/bench/statistics.h"
#include "tools/rates.h"

namespace kvbed {
namespace {

constexpr uint64_t kNullRuns = 3;

Result<std::unique_ptr<BlockStore>> OpenNullStore(const BenchCell& cell,
                                                  const std::string& folder) {
  StoreSpec spec = cell.store.spec;
  spec.path = folder;
  spec.snapshot.clear();
  // No disk, so neither its probe nor its syncs.
  spec.direct = DirectMode::kOff;
  spec.sync = SyncMode::kNone;
  StoreOpenOptions options;
  options.access = StoreAccess::kCreate;
  options.defaults = cell.store.settings;
  options.record_bytes_hint = cell.geometry.record_bytes();
  KVBED_ASSIGN_OR_RETURN(auto base, OpenIo(IoEngine::kPsync));
  return OpenStoreOver(MakeNullIo(std::move(base)), spec, options);
}

// A read that moves nothing is whole when it lands where the block still is. The pool hands out the
// record that was released last, so it gets them back from the last to the first.
Status PutInOrder(BlockPool& pool, const std::vector<uint32_t>& records) {
  for (size_t i = 0; i < records.size(); ++i) {
    KVBED_RETURN_IF_ERROR(pool.Allocate(BlockPool::Contents::kAsItIs).status());
  }
  for (size_t i = records.size(); i > 0; --i) pool.Release(records[i - 1]);
  return Status::Ok();
}

Result<NullRates> NullRun(CellData& data, BlockPool& pool, BlockStore& store, LoadMover& mover,
                          uint64_t tokens) {
  NullRates rates;
  Manifest manifest = data.NewManifest("null", tokens);
  std::vector<uint32_t> records;
  {
    KVBED_ASSIGN_OR_RETURN(Sequence sequence, data.FilledSequence(pool, tokens));
    records = sequence.block_table();
    LoadMover::OffloadPart part{.sequence = &sequence, .manifest = &manifest, .report = {}};
    KVBED_ASSIGN_OR_RETURN(const OffloadSample sample, mover.Offload({&part, 1}, {}));
    rates.write_gb_per_s = GbPerS(part.report.written_bytes, sample.d1_ns).value_or(0);
  }
  KVBED_RETURN_IF_ERROR(PutInOrder(pool, records));
  Sequence restored = data.NewSequence(pool, manifest.sequence_id);
  LoadMover::RestorePart part{.sequence = &restored, .manifest = &manifest, .report = {}};
  KVBED_ASSIGN_OR_RETURN(const RestoreSample sample, mover.Restore({&part, 1}, {}));
  if (!part.report.whole()) return Status::IoError("the null store's restore is not whole");
  KVBED_RETURN_IF_ERROR(store.RemoveManifest(manifest.name));
  rates.read_gb_per_s = GbPerS(part.report.stored_bytes, sample.wall_ns).value_or(0);
  return rates;
}

}  // namespace

Result<NullRates> MeasureNullRates(const BenchCell& cell, CellData& data, BlockPool& pool,
                                   const std::string& folder, uint64_t tokens) {
  std::vector<double> write, read;
  {
    KVBED_ASSIGN_OR_RETURN(auto store, OpenNullStore(cell, folder));
    KVBED_ASSIGN_OR_RETURN(auto mover,
                           LoadMover::Open(*store, pool, 1, cell.store.settings.iodepth));
    for (uint64_t run = 0; run < kNullRuns; ++run) {
      KVBED_ASSIGN_OR_RETURN(const NullRates rates, NullRun(data, pool, *store, *mover, tokens));
      write.push_back(rates.write_gb_per_s);
      read.push_back(rates.read_gb_per_s);
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return NullRates{Median(write), Median(read)};
}

}  // namespace kvbed
