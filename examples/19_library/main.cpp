// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls a library of kernels from C++: typed functions, and one that finds the kernel for the extents.

#include <cstdio>
#include <vector>

#include "mykernels.h"

int main() {
  std::vector<float> a(10 * 64, 1), b(64 * 48, 2), c(10 * 48);
  // gemm_rows serves, which takes any number of rows.
  if (mykernels::matmul(10, 48, 64, a.data(), 64, b.data(), 48, c.data(), 48) != 0)
    return 1;
  for (float each : c)
    if (each != 128)
      return 1;
  // No kernel of the library has 49 columns.
  int status = mykernels::matmul(10, 49, 64, a.data(), 64, b.data(), 49, c.data(), 49);
  std::printf("C++: right; with other extents matmul returns %d\n", status);
  return 0;
}
