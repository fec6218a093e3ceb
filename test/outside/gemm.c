/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Test equipment, not a product: a BLAS gemm over kernels made by tilewright, for the test suites of others.

   Compiled twice (gemm_library.py): with REAL=float LETTER=s CAPITAL=S and with REAL=double LETTER=d CAPITAL=D. It exports the
   names that Fortran, C, and numpy's wheel call; each other function of a BLAS comes from the library that a program is
   linked with. The kernels know C = A*B and C += A*B of row-major matrices; alpha and beta are applied here, to a copy
   of A and to C. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define CONJOIN(a, b, c) JOIN(JOIN(a, b), c)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

typedef int32_t Kernel(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, void *c,
                       int64_t ldc);
#define KERNEL(layout, beta) JOIN(CONJOIN(tilewright_, LETTER, gemm_), JOIN(layout, beta))
Kernel KERNEL(nn, 0), KERNEL(nn, 1), KERNEL(nt, 0), KERNEL(nt, 1), KERNEL(tn, 0), KERNEL(tn, 1), KERNEL(tt, 0),
    KERNEL(tt, 1);
static Kernel *const kernels[2][2][2] = {
    {{KERNEL(nn, 0), KERNEL(nn, 1)}, {KERNEL(nt, 0), KERNEL(nt, 1)}},
    {{KERNEL(tn, 0), KERNEL(tn, 1)}, {KERNEL(tt, 0), KERNEL(tt, 1)}},
};

/* How often a kernel ran, appended to the file that a variable names when the process ends: the proof that ours was
 * called. */
static int64_t calls;

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("TILEWRIGHT_GEMM_CALLS");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (file) {
    fprintf(file, TEXT(LETTER) "gemm %lld\n", (long long)__atomic_load_n(&calls, __ATOMIC_RELAXED));
    fclose(file);
  }
}

static void stop(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* C = alpha*op(A)*op(B) + beta*C, all row-major. beta 0 reads no C, alpha 0 neither A nor B. */
static void multiply(int a_turned, int b_turned, int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a,
                     int64_t lda, const REAL *b, int64_t ldb, REAL beta, REAL *c, int64_t ldc) {
  if (m == 0 || n == 0 || ((alpha == 0 || k == 0) && beta == 1))
    return;
  int adds = beta != 0;
  if (beta != 1 && (adds || alpha == 0))
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c[i * ldc + j] = adds ? beta * c[i * ldc + j] : 0;
  if (alpha == 0)
    return;
  REAL *scaled = NULL;
  if (alpha != 1) {
    int64_t rows = a_turned ? k : m, columns = a_turned ? m : k;
    scaled = malloc(most(1, rows * columns) * sizeof(REAL));
    if (!scaled)
      stop("gemm: no memory for a scaled copy of A");
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        scaled[i * columns + j] = alpha * a[i * lda + j];
    a = scaled, lda = columns;
  }
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  if (kernels[a_turned][b_turned][adds](m, n, k, a, lda, b, ldb, c, ldc))
    stop("gemm: the kernel refused the call");
  free(scaled);
}

/* Number of the first wrong argument as Fortran counts, which has no argument for the order of elements; 0 if all are
   right. `rows` and `columns` of the operands say how long a line of each is: a column, in Fortran's order. */
static int wrong(int a_turned, int b_turned, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                 int by_row) {
  int64_t a_line = a_turned != by_row ? k : m, b_line = b_turned != by_row ? n : k, c_line = by_row ? n : m;
  return a_turned < 0            ? 1
         : b_turned < 0          ? 2
         : m < 0                 ? 3
         : n < 0                 ? 4
         : k < 0                 ? 5
         : lda < most(1, a_line) ? 8
         : ldb < most(1, b_line) ? 10
         : ldc < most(1, c_line) ? 13
                                 : 0;
}

/* The caller's, where it has one. The length of a name comes after the arguments, which Fortran's own handlers read. */
__attribute__((weak)) void xerbla_(const char *name, const int *number, size_t length);

static int turned_letter(char letter) {
  switch (letter) {
  case 'N':
  case 'n':
    return 0;
  case 'T':
  case 't':
  case 'C':
  case 'c':
    return 1;
  default:
    return -1;
  }
}

/* The lengths of transa and transb, which come last, are never read: callers in C leave them out. */
void CONJOIN(, LETTER, gemm_)(const char *transa, const char *transb, const int *m, const int *n, const int *k,
                              const REAL *alpha, const REAL *a, const int *lda, const REAL *b, const int *ldb,
                              const REAL *beta, REAL *c, const int *ldc) {
  int a_turned = turned_letter(*transa), b_turned = turned_letter(*transb);
  int number = wrong(a_turned, b_turned, *m, *n, *k, *lda, *ldb, *ldc, 0);
  if (number == 0)
    multiply(b_turned, a_turned, *n, *m, *k, *alpha, b, *ldb, a, *lda, *beta, c, *ldc);
  else if (xerbla_)
    xerbla_(TEXT(CAPITAL) "GEMM ", &number, 6);
  else
    stop(TEXT(LETTER) "gemm_: a wrong argument");
}

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, AS_IT_IS = 111, TRANSPOSED = 112, CONJUGATED = 113 };

__attribute__((weak)) void cblas_xerbla(int number, const char *name, const char *form, ...);
__attribute__((
    weak)) extern int RowMajorStrg; /* netlib's handler takes m and n of a row-major call for each other's. */

static int turned_number(int number) {
  return number == AS_IT_IS ? 0 : number == TRANSPOSED || number == CONJUGATED ? 1 : -1;
}

static void by_order(const char *name, int order, int transa, int transb, int64_t m, int64_t n, int64_t k, REAL alpha,
                     const REAL *a, int64_t lda, const REAL *b, int64_t ldb, REAL beta, REAL *c, int64_t ldc) {
  int a_turned = turned_number(transa), b_turned = turned_number(transb);
  int number = 1;
  if (order == ROW_MAJOR || order == COLUMN_MAJOR) {
    number = wrong(a_turned, b_turned, m, n, k, lda, ldb, ldc, order == ROW_MAJOR);
    number += number != 0;
  }
  if (number) {
    if (&RowMajorStrg)
      RowMajorStrg = 0;
    if (!cblas_xerbla)
      stop(name);
    cblas_xerbla(number, name, "");
  } else if (order == ROW_MAJOR)
    multiply(a_turned, b_turned, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else
    multiply(b_turned, a_turned, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);
}

void CONJOIN(cblas_, LETTER, gemm)(int order, int transa, int transb, int m, int n, int k, REAL alpha, const REAL *a,
                                   int lda, const REAL *b, int ldb, REAL beta, REAL *c, int ldc) {
  by_order(TEXT(JOIN(cblas_, LETTER)) "gemm", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* What numpy's wheel calls in the OpenBLAS that it brings along. */
void CONJOIN(scipy_cblas_, LETTER, gemm64_)(int order, int transa, int transb, int64_t m, int64_t n, int64_t k,
                                            REAL alpha, const REAL *a, int64_t lda, const REAL *b, int64_t ldb,
                                            REAL beta, REAL *c, int64_t ldc) {
  by_order(TEXT(JOIN(scipy_cblas_, LETTER)) "gemm64_", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
           ldc);
}
