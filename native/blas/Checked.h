// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The routines on triangular and symmetric matrices, with their arguments checked.
#ifndef TILEWRIGHT_BLAS_CHECKED_H
#define TILEWRIGHT_BLAS_CHECKED_H

#include "Arguments.h"
#include "Level3.h"

// The form that the recursion knows: A on the left, its lower triangle.
static void symm(Caller caller, bool hermitian, int side, int uplo, int64_t m, int64_t n, T alpha, const T *a,
                 int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc) {
  int64_t order = side == 1 ? n : m;
  if (refused(caller, {{side < 0, 1},
                       {uplo < 0, 2},
                       {m < 0, 3},
                       {n < 0, 4},
                       {lda < most(1, order), 7},
                       {narrow(caller, ldb, m, n), 9},
                       {narrow(caller, ldc, m, n), 12}}))
    return;
  Matrix sym = view(a, order, order, lda, caller.by_row);
  Matrix other = view(b, m, n, ldb, caller.by_row), result = view(c, m, n, ldc, caller.by_row);
  if (m == 0 || n == 0)
    return;
  if (alpha == 0)
    return scale(beta, result);
  if (side)
    sym = sym.transposed(), other = other.transposed(), result = result.transposed();
  if ((uplo ^ side) != 0)
    sym = sym.op(hermitian ? CONJUGATE : TRANSPOSE);
  symmetric_product(hermitian, alpha, sym, other, beta, result);
}

// The lower triangle of C = alpha*A*B + beta*C. What its products would read stored transposed, again and again, is
// copied first.
static void in_row_major(bool hermitian, T alpha, Matrix a, Matrix b, T beta, Matrix c) {
  Matrix &right = c.turned ? a : b, read = c.turned ? a.transposed() : b;
  RowMajor copy;
  if (alpha != 0 && read.turned && c.rows >= 8 && copy.replace(read))
    right = c.turned ? read.transposed() : read;
  triangle_of_product(hermitian, alpha, a, b, beta, c);
}

// The triangle of C = alpha*A*B + beta*C, and, with `twice`, of conj(alpha)*B^H*A^H, or alpha*B^T*A^T, besides.
static void rank_update(bool hermitian, bool twice, int uplo, T alpha, Matrix a, Matrix b, T beta, Matrix c) {
  int64_t n = c.rows;
  if (n == 0 || ((alpha == 0 || a.columns == 0) && beta == 1))
    return;
  if (uplo) {
    Matrix swapped = b.transposed();
    b = a.transposed(), a = swapped, c = c.transposed();
  }
  in_row_major(hermitian, alpha, a, b, beta, c);
  if (twice) {
    int op = hermitian ? CONJUGATE : TRANSPOSE;
    in_row_major(hermitian, hermitian ? conjugate(alpha) : alpha, b.op(op), a.op(op), make(1), c);
  }
}

// Which of a routine's ops are none: of complex symmetric ones "C", of Hermitian ones "T".
static bool wrong_op(bool hermitian, int op) {
  return op < 0 || (COMPLEX && op == (hermitian ? TRANSPOSE : CONJUGATE));
}

static void syrk(Caller caller, bool hermitian, int uplo, int op, int64_t n, int64_t k, T alpha, const T *a,
                 int64_t lda, T beta, T *c, int64_t ldc) {
  if (refused(caller, {{uplo < 0, 1},
                       {wrong_op(hermitian, op), 2},
                       {n < 0, 3},
                       {k < 0, 4},
                       {narrow(caller, lda, n, k, op), 7},
                       {narrow(caller, ldc, n, n), 10}}))
    return;
  Matrix left = stored(caller, a, n, k, lda, op);
  rank_update(hermitian, false, uplo, alpha, left, left.op(hermitian ? CONJUGATE : TRANSPOSE), beta,
              view(c, n, n, ldc, caller.by_row));
}

static void syr2k(Caller caller, bool hermitian, int uplo, int op, int64_t n, int64_t k, T alpha, const T *a,
                  int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc) {
  if (refused(caller, {{uplo < 0, 1},
                       {wrong_op(hermitian, op), 2},
                       {n < 0, 3},
                       {k < 0, 4},
                       {narrow(caller, lda, n, k, op), 7},
                       {narrow(caller, ldb, n, k, op), 9},
                       {narrow(caller, ldc, n, n), 12}}))
    return;
  Matrix left = stored(caller, a, n, k, lda, op), right = stored(caller, b, n, k, ldb, op);
  rank_update(hermitian, true, uplo, alpha, left, right.op(hermitian ? CONJUGATE : TRANSPOSE), beta,
              view(c, n, n, ldc, caller.by_row));
}

static void gemmtr(Caller caller, int uplo, int ta, int tb, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                   const T *b, int64_t ldb, T beta, T *c, int64_t ldc) {
  if (refused(caller, {{uplo < 0, 1},
                       {ta < 0, 2},
                       {tb < 0, 3},
                       {n < 0, 4},
                       {k < 0, 5},
                       {narrow(caller, lda, n, k, ta), 8},
                       {narrow(caller, ldb, k, n, tb), 10},
                       {narrow(caller, ldc, n, n), 13}}))
    return;
  rank_update(false, false, uplo, alpha, stored(caller, a, n, k, lda, ta), stored(caller, b, k, n, ldb, tb), beta,
              view(c, n, n, ldc, caller.by_row));
}

static void trxm(Caller caller, bool solve, int side, int uplo, int op, int unit, int64_t m, int64_t n, T alpha,
                 const T *a, int64_t lda, T *b, int64_t ldb) {
  int64_t order = side == 1 ? n : m;
  if (refused(caller, {{side < 0, 1},
                       {uplo < 0, 2},
                       {op < 0, 3},
                       {unit < 0, 4},
                       {m < 0, 5},
                       {n < 0, 6},
                       {lda < most(1, order), 9},
                       {narrow(caller, ldb, m, n), 11}}))
    return;
  Matrix triangle = stored(caller, a, order, order, lda, op), result = view(b, m, n, ldb, caller.by_row);
  if (m == 0 || n == 0)
    return;
  if (alpha == 0)
    return scale(make(0), result);
  if (side)
    triangle = triangle.transposed(), result = result.transposed();
  bool upper = (uplo != 0) ^ (op != NONE) ^ (side != 0);
  triangular(solve, !upper, unit, alpha, triangle, result);
}

#endif
