// Which tables this CPU and this build have.
#include "engine/kernels/native/kernel_table.h"
#include "engine/kernels/native/portable_kernels.h"

#ifdef KVBED_HAS_AVX512_BF16_KERNELS
#include "engine/kernels/cpu_features.h"
#include "engine/kernels/native/avx512_bf16_kernels.h"
#endif

namespace kvbed {

std::vector<KernelTable> KernelTables(DType dtype) {
  std::vector<KernelTable> tables = PortableTables(dtype);
#ifdef KVBED_HAS_AVX512_BF16_KERNELS
  const bool wide = !tables.empty() && tables.front().name == "avx512";
  if (dtype == DType::kBf16 && wide && CpuMultipliesBf16()) {
    tables.insert(tables.begin(), Avx512Bf16Table(tables.front()));
  }
#endif
  return tables;
}

}  // namespace kvbed
