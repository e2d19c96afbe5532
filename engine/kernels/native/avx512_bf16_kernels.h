// Products of bf16 by AVX-512's dot products of pairs, which Highway 1.0.3 lacks.
#pragma once

#include "engine/kernels/native/kernel_table.h"

namespace kvbed {

// `base` is the portable AVX-512 table of bf16, whose other functions it takes. For CPUs with
// AVX512_BF16 only.
KernelTable Avx512Bf16Table(const KernelTable& base);

}  // namespace kvbed
