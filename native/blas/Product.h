// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C = alpha*A*B + beta*C by the kernels: the one thing that every routine of level 3 is made of.
#ifndef TILEWRIGHT_BLAS_PRODUCT_H
#define TILEWRIGHT_BLAS_PRODUCT_H

#include "Blocks.h"
#include "Service.h"
#include <stdlib.h>

// A kernel of tilewright's for row-major matrices; 0, or a status with C as it was.
using Kernel = int32_t(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, void *c,
                       int64_t ldc, const void *alpha, const void *beta);
#define KERNEL(layout) JOIN(JOIN(JOIN(tilewright_, ELEMENT), _), layout)
// A kernel for one shape, in a table of 2**bits entries that a hash of the shape looks up.
struct Shape {
  int64_t m, n, k, layout;
  Kernel *kernel;
};
struct Shapes {
  int64_t mask;
  const Shape *table;
  int64_t same_bits; // Whether an element has the same bits for every number of rows and columns.
};
extern "C" {
extern HIDDEN Kernel KERNEL(nn), KERNEL(nt), KERNEL(tn);
#if COMPLEX
extern HIDDEN Kernel KERNEL(nc), KERNEL(cn);
#elif !defined(TURN)
extern HIDDEN Kernel KERNEL(tt);
#endif
extern HIDDEN const Shapes KERNEL(shapes);
}
static constexpr const char *layouts[3][3] = {{"nn", "nt", "nc"}, {"tn", "tt", "tc"}, {"cn", "ct", "cc"}};
// By the ops of A and B. Where there is none, B is copied to row-major order.
#if COMPLEX
static Kernel *const kernels[3][3] = {{KERNEL(nn), KERNEL(nt), KERNEL(nc)}, {KERNEL(tn)}, {KERNEL(cn)}};
#elif defined(TURN)
static Kernel *const kernels[2][2] = {{KERNEL(nn), KERNEL(nt)}, {KERNEL(tn)}};
#else
static Kernel *const kernels[2][2] = {{KERNEL(nn), KERNEL(nt)}, {KERNEL(tn), KERNEL(tt)}};
#endif

// The kernel for just this shape, or none.
static Kernel *own_kernel(int64_t m, int64_t n, int64_t k, int64_t layout) {
  const Shapes &shapes = KERNEL(shapes);
  for (uint64_t at = ((uint64_t)m * 31 + n) * 31 + k + layout;; ++at) {
    const Shape &found = shapes.table[at & shapes.mask];
    if (!found.kernel || (found.m == m && found.n == n && found.k == k && found.layout == layout))
      return found.kernel;
  }
}

// C = beta*C; 0 never reads C.
static void scale(T beta, Matrix c) {
  if (c.turned)
    c = c.transposed();
  if (beta == 1)
    return;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j)
      c(i, j) = beta == 0 ? make(0) : beta * c(i, j);
}

// What a kernel refuses, such as extents beyond 2**31: slow, and right.
__attribute__((noinline, cold)) static void plain_product(T alpha, View<E> a, View<E> b, T beta, Matrix c) {
  scale(beta, c);
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j) {
      T sum = make(0);
      for (int64_t p = 0; p < a.columns; ++p)
        sum = sum + element(a, i, p) * element(b, p, j);
      c(i, j) = c(i, j) + alpha * sum;
    }
}

#ifdef TURN
extern "C" HIDDEN Turn TURN;

// A copy in row-major order of what is stored transposed: where it is small, on the stack. Its lines are no multiple of
// 1 KB apart, so that those of a block are in different sets of a cache.
class RowMajor {
public:
  static constexpr int64_t FEW = 16384 / sizeof(T);

  // Whether there is memory for it; `b` then is the copy.
  bool replace(Matrix &b) {
    int64_t ld = b.columns + (b.columns * sizeof(T) % 1024 ? 0 : 64 / sizeof(T)), count = b.rows * ld;
    T *to = count > FEW ? allocated = (T *)malloc(count * sizeof(T)) : few;
    if (!to)
      return false;
    Turning each = {b.at, to, b.ld, ld, b.columns, b.rows, b.conjugated};
    TURN(&each);
    b = {to, b.rows, b.columns, ld, false, false};
    return true;
  }
  ~RowMajor() { free(allocated); }

private:
  T few[FEW], *allocated = nullptr;
};

// Whether a copy of a B stored transposed, and its product, take less time than the kernels' own way to read it, which
// is for larger ones and fewer rows: in f32 16 x 16 x 64 takes 0.4, 100 x 100 x 1000 0.75 of it.
static inline bool turns(int64_t m, int64_t count) {
  return (m >= 8 && count <= RowMajor::FEW) || (m >= 32 && count * (int64_t)sizeof(T) <= 1 << 20);
}
#endif

// The product by a kernel, or without where there is none that fits.
static void computed(Kernel *kernel, T alpha, View<E> a, View<E> b, T beta, Matrix c) {
  if (!kernel || kernel(c.rows, c.columns, a.columns, a.at, a.ld, b.at, b.ld, c.at, c.ld, &alpha, &beta) != 0)
    plain_product(alpha, a, b, beta, c);
}

// One row by a B of so many bytes, half of a large cache, takes so many rows of B at a time: memory then delivers along
// rows, and rows a power of two apart have their lines in L1. f64 4096 x 4096 takes 0.71, f32 0.80 of the time (Zen 5).
static constexpr int64_t FAR = 1 << 24, STREAMS = 8;

// C = alpha*A*B + beta*C; alpha 0 reads neither A nor B, beta 0 no C.
static void product(T alpha, View<E> a, View<E> b, T beta, Matrix c) {
  if (c.turned)
    return product(alpha, b.transposed(), a.transposed(), beta, c.transposed());
  if (c.rows == 0 || c.columns == 0)
    return;
  int64_t m = c.rows, n = c.columns, k = a.columns;
  if (alpha == 0 || k == 0)
    return scale(beta, c);
#if COMPLEX
  // A column that lies in one line is a row of B^T*A^T, of which kernels copy neither A nor more than that row.
  bool in_lines = c.ld == 1 && (b.turned || b.ld == 1) && !a.conjugated && !b.conjugated;
  if (n == 1 && m > 1 && in_lines && !KERNEL(shapes).same_bits)
    return product(alpha, {b.at, 1, k, k, false, false}, a.transposed(), beta, {c.at, 1, m, m, false, false});
#endif
  int left = a.turned + (a.turned && a.conjugated), right = b.turned + (b.turned && b.conjugated);
  Kernel *own = own_kernel(m, n, k, left * 3 + right);
  if (tilewright_blas_counts)
    tilewright_blas_product(TEXT(ELEMENT), layouts[left][right], m, n, k, own != nullptr);
  Kernel *kernel = own ? own : kernels[left][right];
#ifdef TURN
  RowMajor copy;
  if (!own && b.turned && (!kernel || turns(m, n * k)) && copy.replace(b))
    kernel = kernels[left][0];
#endif
  // Conjugated, and not transposed, is what no routine asks for.
  if (a.turned < a.conjugated || b.turned < b.conjugated)
    kernel = nullptr;
  bool streams = !COMPLEX && sizeof(E) == sizeof(T) && m == 1 && !own && !b.turned && !KERNEL(shapes).same_bits;
  if (!streams || n * k < FAR / (int64_t)sizeof(E))
    return computed(kernel, alpha, a, b, beta, c);
  for (int64_t at = 0; at < k; at += STREAMS) {
    int64_t depth = least(STREAMS, k - at);
    computed(kernel, alpha, a.part(0, at, 1, depth), b.part(at, 0, depth, n), at ? make(1) : beta, c);
  }
}

#endif
