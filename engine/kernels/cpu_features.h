// What of this CPU decides which arithmetic a set of kernels takes, and whether two machines may
// be expected to give equal bits. It doesn't know any kernel.
#pragma once

#include <string>

namespace kvbed {

// The CPU multiplies matrices of bf16 itself: AVX-512 BF16 (AMX has it too) or Arm's BF16.
bool CpuMultipliesBf16();

// Which implementation of an instruction set this is, e.g. "AuthenticAMD 25.1" (vendor, family,
// model): math libraries choose their kernels and blocking by it. "unknown" where it can't be read.
std::string CpuSignature();

// The environment variables that narrow what math libraries use, as " NAME=value" each; empty when
// none is set. For the record only: kvbed is not configured by them.
std::string CpuLimitsInEnvironment();

}  // namespace kvbed
