// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls a library of kernels from C. It needs neither tilewright nor Python when it runs.

#include <stdint.h>
#include <stdio.h>

#include "mykernels.h"

int main(void) {
  float a[64], b[64], c[64];
  for (int i = 0; i < 64; ++i) {
    a[i] = (float)(i % 7);
    b[i] = (float)(i % 5);
  }
  int32_t status = gemm_small(8, 8, 8, a, 8, b, 8, c, 8);
  if (status != 0) {
    fprintf(stderr, "gemm_small returned %d\n", status);
    return 1;
  }
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 8; ++k)
        sum += a[i * 8 + k] * b[k * 8 + j];
      if (c[i * 8 + j] != sum)
        return 1;
    }

  // A cap, as if the processor had no more than this; NULL takes it back.
  if (mykernels_isa("x86-64") != 0 || gemm_small(8, 8, 8, a, 8, b, 8, c, 8) != 0)
    return 1;
  printf("C: right, also with the instructions of %s\n", gemm_small_selected());
  return 0;
}
