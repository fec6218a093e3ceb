// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls a kernel that tilewright compiled. It needs neither tilewright nor Python when it runs.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mm.h"

enum { M = 100, N = 200, K = 300, LDC = 256 };

int main(void) {
  float *a = malloc(sizeof(float) * M * K);
  float *b = malloc(sizeof(float) * K * N);
  float *c = malloc(sizeof(float) * M * LDC);
  if (!a || !b || !c)
    return 2;
  for (int i = 0; i < M * K; ++i)
    a[i] = (float)(i % 13 - 6);
  for (int i = 0; i < K * N; ++i)
    b[i] = (float)(i % 17 - 8);

  // Rows of A and B follow one another; those of C are LDC elements apart.
  int32_t status = matmul(M, N, K, a, K, b, N, c, LDC);
  if (status != 0) {
    fprintf(stderr, "matmul returned %d\n", status);
    return 1;
  }

  // The operands are small integers, so that every sum is exact.
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += a[i * K + k] * b[k * N + j];
      if (c[i * LDC + j] != sum) {
        fprintf(stderr, "C[%d][%d] is %g, not %g\n", i, j, c[i * LDC + j], sum);
        return 1;
      }
    }
  printf("%d x %d x %d: right\n", M, N, K);

  // Other extents than those compiled for are refused.
  printf("with another M it returns %d\n", matmul(M + 1, N, K, a, K, b, N, c, LDC));
  free(a);
  free(b);
  free(c);
  return 0;
}
