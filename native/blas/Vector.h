// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// y = alpha*op(A)*x + beta*y: a product with one row.
#ifndef TILEWRIGHT_BLAS_VECTOR_H
#define TILEWRIGHT_BLAS_VECTOR_H

#include "Arguments.h"
#include <stdlib.h>

// A vector of a caller's, whose elements are `step` apart; with a negative step, the last one comes first.
struct Strided {
  T *at;
  int64_t count, step;
  T &operator()(int64_t i) const { return at[(step < 0 ? i - (count - 1) : i) * step]; }
};

static void gemv(Caller caller, int op, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *from,
                 int64_t from_step, T beta, T *to, int64_t to_step) {
  if (refused(caller, {{op < 0, 1},
                       {m < 0, 2},
                       {n < 0, 3},
                       {narrow(caller, lda, m, n), 6},
                       {from_step == 0, 8},
                       {to_step == 0, 11}}))
    return;
  if (m == 0 || n == 0)
    return;
  Strided x = {const_cast<T *>(from), op ? m : n, from_step}, y = {to, op ? n : m, to_step};
  Matrix c = {y.at, 1, y.count, y.count, false, false}, row = {x.at, 1, x.count, x.count, false, false};
  Matrix right = view(a, m, n, lda, caller.by_row).op(op ? NONE : TRANSPOSE);
  if (x.step == 1 && y.step == 1)
    return product(alpha, row, right, beta, c);
  // Contiguous copies; without memory for them, one element of y after the other.
  T few[512], *copies = few;
  if (x.count + y.count > 512)
    copies = (T *)malloc((x.count + y.count) * sizeof(T));
  if (!copies) {
    for (int64_t i = 0; i < y.count; ++i) {
      T sum = 0;
      for (int64_t j = 0; alpha != 0 && j < x.count; ++j)
        sum += right(j, i) * x(j);
      y(i) = (beta == 0 ? 0 : beta * y(i)) + alpha * sum;
    }
    return;
  }
  row.at = copies, c.at = copies + x.count;
  for (int64_t i = 0; alpha != 0 && i < x.count; ++i)
    row.at[i] = x(i);
  product(alpha, row, right, 0, c);
  for (int64_t i = 0; i < y.count; ++i)
    y(i) = beta == 0 ? c.at[i] : beta * y(i) + c.at[i];
  if (copies != few)
    free(copies);
}

#endif
