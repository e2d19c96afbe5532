// Which tables this CPU and this build have.
#include <algorithm>

#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/portable_kernels.h"

#ifdef KVBED_HAS_BF16_KERNELS
#include "engine/kernels/cpu_features.h"
#include "engine/kernels/native/amx_kernels.h"
#include "engine/kernels/native/avx512_bf16_kernels.h"
#endif

namespace kvbed {

std::vector<KernelTable> KernelTables(DType dtype) {
  std::vector<KernelTable> tables = PortableTables(dtype);
#ifdef KVBED_HAS_BF16_KERNELS
  const bool wide = !tables.empty() && tables.front().name == "avx512";
  if (dtype == DType::kBf16 && wide && CpuMultipliesBf16()) {
    tables.insert(tables.begin(), Avx512Bf16Table(tables.front()));
    // Behind it as long as nobody has measured which is faster.
    if (MayUseAmxTiles()) tables.insert(tables.begin() + 1, AmxTable(tables.front()));
  }
#endif
  return tables;
}

Result<KernelTable> FindKernelTable(DType dtype, const std::string& isa) {
  const std::vector<KernelTable> tables = KernelTables(dtype);
  if (tables.empty()) {
    return Status::NotSupported(
        "native kernels want AVX2 with FMA, AVX-512 or NEON, which this CPU or build doesn't have: "
        "use --kernels torch");
  }
  const auto found = std::ranges::find_if(tables, [&](const KernelTable& table) {
    return isa.empty() || table.name == isa || table.arithmetic == isa;
  });
  if (found != tables.end()) return *found;
  std::string names;
  for (const KernelTable& table : tables) names += (names.empty() ? "" : ", ") + table.name;
  return Status::InvalidArgument("--isa " + isa + ": native kernels of this dtype run here on " +
                                 names);
}

}  // namespace kvbed
