// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is compiled for each level of the processor besides kernels: a small triangle and rows that it multiplies or
// divides, and the transposition of a matrix.
#ifndef TILEWRIGHT_BLAS_BLOCKS_H
#define TILEWRIGHT_BLAS_BLOCKS_H

#include "Scalar.h"

// Rows of a triangle, and columns of the rows. A row of their copy is four vectors of 64 bytes, whose sums wait for one
// another no longer than they take.
static constexpr int64_t BLOCK = 16, WIDTH = 256 / sizeof(REAL);

// Multiplies rows by a lower triangle in place, or, where `solve` is not 0, by its inverse, times alpha; returns 0.
//
// Element (i, j) of the triangle is at a + i*a_down + j*a_across; of the rows, at b + i*b_down + j*b_across. Steps of
// an upper triangle, whose last row is its first one here, are negative.
struct Substitution {
  const T *a;
  int64_t a_down, a_across;
  T *b;
  int64_t b_down, b_across;
  int64_t n, count; // At most BLOCK rows, WIDTH columns.
  T alpha;
  int32_t solve, unit, conjugated;
};
using Substitute = int32_t(const Substitution *);

// Copies `rows` lines of `columns` elements to as many columns, conjugated where it says so; returns 0.
struct Turning {
  const T *from;
  T *to;
  int64_t from_ld, to_ld, rows, columns;
  int32_t conjugated;
};
using Turn = int32_t(const Turning *);

#endif
