// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The routines of level 3 on triangular and symmetric matrices, by recursion on products.
//
// Halving leaves products of nearly all the work. Each function knows one form only: A on the left, its lower triangle;
// views turn all other forms into it.
#ifndef TILEWRIGHT_BLAS_LEVEL3_H
#define TILEWRIGHT_BLAS_LEVEL3_H

#include "Product.h"

// Rows of a dense copy on the stack of what is on a diagonal, 16 KB of f32 at most: larger ones compute more that is
// not needed, or read twice; smaller ones make products too small for the kernels.
static constexpr int64_t DENSE = COMPLEX ? 32 : 64;
// Rows of a triangle on the diagonal of a product that are computed whole: 256 bytes, faster than 128 in f32 and than
// 512 in f64.
static constexpr int64_t DIAGONAL = COMPLEX ? 32 : 256 / sizeof(REAL);

// C = alpha*A*B + beta*C with A symmetric, or Hermitian, of which the lower triangle is read.
static void symmetric_product(bool hermitian, T alpha, Matrix a, Matrix b, T beta, Matrix c) {
  int64_t n = a.rows;
  if (n <= DENSE) {
    T dense[DENSE * DENSE];
    Matrix whole = {dense, n, n, n, c.turned, false};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        whole(i, j) = element(a, i, j);
        whole(j, i) = hermitian ? conjugate(whole(i, j)) : whole(i, j);
      }
      whole(i, i) = hermitian ? real_part(a(i, i)) : element(a, i, i);
    }
    return product(alpha, whole, b, beta, c);
  }
  int64_t top = half(n, DENSE), rest = n - top, wide = c.columns;
  Matrix below = a.part(top, 0, rest, top), b1 = b.part(0, 0, top, wide), b2 = b.part(top, 0, rest, wide);
  Matrix c1 = c.part(0, 0, top, wide), c2 = c.part(top, 0, rest, wide);
  symmetric_product(hermitian, alpha, a.part(0, 0, top, top), b1, beta, c1);
  product(alpha, below.op(hermitian ? CONJUGATE : TRANSPOSE), b2, make(1), c1);
  product(alpha, below, b1, beta, c2);
  symmetric_product(hermitian, alpha, a.part(top, top, rest, rest), b2, make(1), c2);
}

// The lower triangle of C = alpha*A*B + beta*C; of a Hermitian C, the diagonal is real.
static void triangle_of_product(bool hermitian, T alpha, Matrix a, Matrix b, T beta, Matrix c) {
  int64_t n = c.rows;
  if (n <= DIAGONAL) {
    T dense[DIAGONAL * DIAGONAL];
    Matrix whole = {dense, n, n, n, c.turned, false};
    product(alpha, a, b, make(0), whole);
    for (int64_t line = 0; line < n; ++line) {
      T *to = c.at + line * c.ld, &diagonal = to[line];
      const T *sums = dense + line * n;
      if (hermitian && beta != 0) // Its imaginary part need not be set, and may be NaN.
        diagonal = real_part(diagonal);
      for (int64_t at = c.turned ? line : 0, end = c.turned ? n : line + 1; at < end; ++at)
        to[at] = beta == 0 ? sums[at] : beta * to[at] + sums[at];
      if (hermitian)
        diagonal = real_part(diagonal);
    }
    return;
  }
  int64_t top = half(n, DIAGONAL), rest = n - top, k = a.columns;
  Matrix a1 = a.part(0, 0, top, k), a2 = a.part(top, 0, rest, k);
  Matrix b1 = b.part(0, 0, k, top), b2 = b.part(0, top, k, rest);
  triangle_of_product(hermitian, alpha, a1, b1, beta, c.part(0, 0, top, top));
  product(alpha, a2, b1, beta, c.part(top, 0, rest, top));
  triangle_of_product(hermitian, alpha, a2, b2, beta, c.part(top, top, rest, rest));
}

extern "C" HIDDEN Substitute JOIN(JOIN(tilewright_, LETTER), _substitute);

// Multiplies B by a triangle of at most BLOCK rows, or divides it, some columns at a time.
static void small_triangle(bool solve, bool lower, bool unit, T alpha, Matrix a, Matrix b) {
  int64_t n = a.rows, first = lower ? 0 : n - 1, sign = lower ? 1 : -1;
  // From the last row to the first, an upper triangle is a lower one.
  int64_t a_down = a.turned ? 1 : a.ld, a_across = a.turned ? a.ld : 1, b_down = b.turned ? 1 : b.ld;
  Substitution each = {&a(first, first),
                       sign * a_down,
                       sign * a_across,
                       nullptr,
                       sign * b_down,
                       b.turned ? b.ld : 1,
                       n,
                       0,
                       alpha,
                       solve,
                       unit,
                       a.conjugated};
  for (int64_t from = 0; from < b.columns; from += WIDTH) {
    each.b = &b(first, from);
    each.count = least(WIDTH, b.columns - from);
    JOIN(JOIN(tilewright_, LETTER), _substitute)(&each);
  }
}

// B = alpha*A*B, or the solution of A*X = alpha*B, with a triangle A of which nothing else is read.
static void triangular(bool solve, bool lower, bool unit, T alpha, Matrix a, Matrix b) {
  int64_t n = a.rows, wide = b.columns;
  if (n <= BLOCK)
    return small_triangle(solve, lower, unit, alpha, a, b);
  int64_t top = half(n, BLOCK), rest = n - top;
  Matrix a1 = a.part(0, 0, top, top), a2 = a.part(top, top, rest, rest);
  Matrix b1 = b.part(0, 0, top, wide), b2 = b.part(top, 0, rest, wide);
  Matrix between = lower ? a.part(top, 0, rest, top) : a.part(0, top, top, rest);
  // The rows that `between` adds to, and those that it multiplies: solved before, multiplied after.
  Matrix to = lower ? b2 : b1, from = lower ? b1 : b2, a_to = lower ? a2 : a1, a_from = lower ? a1 : a2;
  if (solve) {
    triangular(solve, lower, unit, alpha, a_from, from);
    product(make(-1), between, from, alpha, to);
    triangular(solve, lower, unit, make(1), a_to, to);
  } else {
    triangular(solve, lower, unit, alpha, a_to, to);
    product(alpha, between, from, make(1), to);
    triangular(solve, lower, unit, alpha, a_from, from);
  }
}

#endif
