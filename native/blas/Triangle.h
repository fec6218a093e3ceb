// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small triangle, and rows that it multiplies or divides: what recursion on triangular matrices ends with.
//
// Complex numbers have their real and imaginary parts in arrays of their own.
#ifndef TILEWRIGHT_BLAS_TRIANGLE_H
#define TILEWRIGHT_BLAS_TRIANGLE_H

#include "Scalar.h"

// Rows of a triangle. A row of a copy is four vectors of 64 bytes, whose sums wait for one another no longer than they
// take.
static constexpr int64_t BLOCK = 16, WIDTH = 256 / sizeof(REAL);

struct Triangle {
  REAL parts[1 + COMPLEX][BLOCK][BLOCK];
  void set(int64_t i, int64_t j, T value) {
#if COMPLEX
    parts[0][i][j] = value.re, parts[1][i][j] = value.im;
#else
    parts[0][i][j] = value;
#endif
  }
};

struct alignas(64) Rows {
  REAL parts[1 + COMPLEX][BLOCK][WIDTH];
  void set(int64_t i, int64_t j, T value) {
#if COMPLEX
    parts[0][i][j] = value.re, parts[1][i][j] = value.im;
#else
    parts[0][i][j] = value;
#endif
  }
  T get(int64_t i, int64_t j) const {
#if COMPLEX
    return {parts[0][i][j], parts[1][i][j]};
#else
    return parts[0][i][j];
#endif
  }
};

// Multiplies n rows by the lower triangle, or, where `solve` is not 0, by its inverse; returns 0.
using Substitute = int32_t(int64_t solve, int64_t n, const void *triangle, void *rows);

#endif
