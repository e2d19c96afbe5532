#include "offload/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvbed {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace kvbed
