#include "engine/kernels/cpu_features.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace kvbed {

#if defined(__x86_64__)

bool CpuMultipliesBf16() {
  // Asks the operating system's support for the registers too.
  return __builtin_cpu_supports("avx512bf16") != 0;
}

std::string CpuSignature() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return "unknown";
  char vendor[13] = {};
  std::memcpy(vendor, &ebx, 4);
  std::memcpy(vendor + 4, &edx, 4);
  std::memcpy(vendor + 8, &ecx, 4);
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return vendor;
  // Base and extended fields are joined as Intel's SDM, volume 2, CPUID, says.
  const unsigned base_family = eax >> 8 & 0xf;
  const unsigned family = base_family == 0xf ? base_family + (eax >> 20 & 0xff) : base_family;
  const unsigned model = base_family == 0x6 || base_family == 0xf
                             ? (eax >> 4 & 0xf) + (eax >> 12 & 0xf0)
                             : eax >> 4 & 0xf;
  return std::string(vendor) + " " + std::to_string(family) + "." + std::to_string(model);
}

#elif defined(__aarch64__)

bool CpuMultipliesBf16() {
  constexpr unsigned long kHwcap2Bf16 = 1UL << 14;  // HWCAP2_BF16 of Linux's asm/hwcap.h
  return (getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
}

std::string CpuSignature() { return "unknown"; }

#else

bool CpuMultipliesBf16() { return false; }

std::string CpuSignature() { return "unknown"; }

#endif

std::string CpuLimitsInEnvironment() {
  std::string text;
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
                           "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_CORETYPE"}) {
    if (const char* value = std::getenv(name)) text += std::string(" ") + name + "=" + value;
  }
  return text;
}

}  // namespace kvbed
