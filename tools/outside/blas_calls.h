/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   One call of a BLAS as data, and how the interfaces for Fortran and for C take it. */
#ifndef BLAS_CALLS_H
#define BLAS_CALLS_H

#include <complex.h>
#include <stdint.h>
#include <string.h>

enum { GEMM, GEMMTR, SYMM, HEMM, SYRK, HERK, SYR2K, HER2K, TRMM, TRSM, GEMV, FAMILIES };
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, NAMES = 8 };

typedef double complex Z;
typedef void (*Function)(void);

static const struct {
  const char *name;
  const char *types;
} families[FAMILIES] = {
    {"gemm", "sdcz"},  {"gemmtr", "sdcz"}, {"symm", "sdcz"}, {"hemm", "cz"},   {"syrk", "sdcz"}, {"herk", "cz"},
    {"syr2k", "sdcz"}, {"her2k", "cz"},    {"trmm", "sdcz"}, {"trsm", "sdcz"}, {"gemv", "sd"},
};

/* Of gemv, netlib's for complex numbers never ends on an empty matrix.
   The names of a routine in the libraries that programs call: Fortran and C, with indices of 32 and 64 bits, and those
   of the wheels of numpy and scipy. The reference has the first and the fifth. */
static const char *const patterns[NAMES] = {"%s_",      "%s_64_",      "scipy_%s_",      "scipy_%s_64_",
                                            "cblas_%s", "cblas_%s64_", "scipy_cblas_%s", "scipy_cblas_%s64_"};
static int in_c(int name) { return name >= 4; }

static Z both(double real, double imaginary) {
  double parts[2] = {real, imaginary};
  Z value;
  memcpy(&value, parts, sizeof value);
  return value;
}

/* One call. `integers` says what is multiplied, `name` which interface is called. */
typedef struct {
  int family, type, name, integers, rows_first;
  char side, uplo, transa, transb, diag;
  int64_t m, n, k, stepx, stepy;
  Z alpha, beta;
} Call;

static int is_complex(const Call *call) { return call->type >= 2; }
static int is_double(const Call *call) { return call->type & 1; }
static size_t width(const Call *call) { return (is_double(call) ? 8u : 4u) << is_complex(call); }

/* A matrix as it lies in memory: element (i, j) of rows x columns, in either order. The kind says which of them
   count. */
typedef struct {
  const Call *call;
  int rows_first;
  char kind; /* 'g'eneral, 's'ymmetric, 'h'ermitian, 't'riangular */
  char uplo, diag;
  int64_t rows, columns, ld, bytes;
  char *memory, *first;
} Matrix;

static int flag(const char *letters, char letter) {
  const char *found = strchr(letters, letter);
  return (int)(found - letters);
}

/* Enumerations of CBLAS. */
static int64_t trans_of(char letter) { return 111 + flag("NTC", letter); }
static int64_t uplo_of(char letter) { return 121 + flag("UL", letter); }
static int64_t diag_of(char letter) { return 131 + flag("NU", letter); }
static int64_t side_of(char letter) { return 141 + flag("LR", letter); }

/* A factor in the form in which an interface takes it. */
typedef struct {
  double d[2];
  float f[2];
  const void *pointer;
} Factor;

static void prepare(Factor *factor, Z value, const Call *call) {
  factor->d[0] = creal(value), factor->d[1] = cimag(value);
  factor->f[0] = (float)creal(value), factor->f[1] = (float)cimag(value);
  factor->pointer = is_double(call) ? (void *)factor->d : (void *)factor->f;
}

/* Indices are passed as 64 bits to interfaces of either width: on the machines this runs on, which are little-endian,
   the low half lies at the same address, and in the same register or stack slot. */
typedef int64_t Int;
typedef const void *Any;
/* A call of CBLAS whose factors are of the types that F and G say. */
#define CALL_C(F, G, f, g)                                                                                             \
  switch (call->family) {                                                                                              \
  case GEMM:                                                                                                           \
    ((void (*)(Int, Int, Int, Int, Int, Int, F, Any, Int, Any, Int, G, Any, Int))function)(                            \
        order, ta, tb, m, n, k, f, a->first, a->ld, b->first, b->ld, g, c->first, c->ld);                              \
    break;                                                                                                             \
  case GEMMTR:                                                                                                         \
    ((void (*)(Int, Int, Int, Int, Int, Int, F, Any, Int, Any, Int, G, Any, Int))function)(                            \
        order, uplo, ta, tb, n, k, f, a->first, a->ld, b->first, b->ld, g, c->first, c->ld);                           \
    break;                                                                                                             \
  case SYMM:                                                                                                           \
  case HEMM:                                                                                                           \
    ((void (*)(Int, Int, Int, Int, Int, F, Any, Int, Any, Int, G, Any, Int))function)(                                 \
        order, side, uplo, m, n, f, a->first, a->ld, b->first, b->ld, g, c->first, c->ld);                             \
    break;                                                                                                             \
  case SYRK:                                                                                                           \
  case HERK:                                                                                                           \
    ((void (*)(Int, Int, Int, Int, Int, F, Any, Int, G, Any, Int))function)(order, uplo, ta, n, k, f, a->first, a->ld, \
                                                                            g, c->first, c->ld);                       \
    break;                                                                                                             \
  case SYR2K:                                                                                                          \
  case HER2K:                                                                                                          \
    ((void (*)(Int, Int, Int, Int, Int, F, Any, Int, Any, Int, G, Any, Int))function)(                                 \
        order, uplo, ta, n, k, f, a->first, a->ld, b->first, b->ld, g, c->first, c->ld);                               \
    break;                                                                                                             \
  case TRMM:                                                                                                           \
  case TRSM:                                                                                                           \
    ((void (*)(Int, Int, Int, Int, Int, Int, Int, F, Any, Int, Any, Int))function)(                                    \
        order, side, uplo, ta, diag, m, n, f, a->first, a->ld, c->first, c->ld);                                       \
    break;                                                                                                             \
  default:                                                                                                             \
    ((void (*)(Int, Int, Int, Int, F, Any, Int, Any, Int, G, Any, Int))function)(order, ta, m, n, f, a->first, a->ld,  \
                                                                                 x, call->stepx, g, y, call->stepy);   \
  }

static void call_c(const Call *call, Function function, Factor *alpha, Factor *beta, const Matrix *a, const Matrix *b,
                   const Matrix *c) {
  Int order = call->rows_first ? ROW_MAJOR : COLUMN_MAJOR, m = call->m, n = call->n, k = call->k;
  Int ta = trans_of(call->transa), tb = trans_of(call->transb), uplo = uplo_of(call->uplo), diag = diag_of(call->diag);
  Int side = side_of(call->side);
  Any x = b->first, y = c->first;
  int real_alpha = !is_complex(call) || call->family == HERK;
  int real_beta = real_alpha || call->family == HER2K;
  if (real_alpha && is_double(call))
    CALL_C(double, double, alpha->d[0], beta->d[0])
  else if (real_alpha)
    CALL_C(float, float, alpha->f[0], beta->f[0])
  else if (real_beta && is_double(call))
    CALL_C(Any, double, alpha->pointer, beta->d[0])
  else if (real_beta)
    CALL_C(Any, float, alpha->pointer, beta->f[0])
  else
    CALL_C(Any, Any, alpha->pointer, beta->pointer)
}

static void call_fortran(const Call *call, Function function, Factor *alpha, Factor *beta, const Matrix *a,
                         const Matrix *b, const Matrix *c) {
  const Int *m = &call->m, *n = &call->n, *k = &call->k, *lda = &a->ld, *ldb = &b->ld, *ldc = &c->ld;
  Any f = alpha->pointer, g = beta->pointer;
  Any ta = &call->transa, tb = &call->transb, uplo = &call->uplo, diag = &call->diag, side = &call->side;
  switch (call->family) {
  case GEMM:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(
        ta, tb, m, n, k, f, a->first, lda, b->first, ldb, g, c->first, ldc);
    break;
  case GEMMTR:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(
        uplo, ta, tb, n, k, f, a->first, lda, b->first, ldb, g, c->first, ldc);
    break;
  case SYMM:
  case HEMM:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(side, uplo, m, n, f, a->first, lda,
                                                                                     b->first, ldb, g, c->first, ldc);
    break;
  case SYRK:
  case HERK:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(uplo, ta, n, k, f, a->first, lda, g,
                                                                           c->first, ldc);
    break;
  case SYR2K:
  case HER2K:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(uplo, ta, n, k, f, a->first, lda,
                                                                                     b->first, ldb, g, c->first, ldc);
    break;
  case TRMM:
  case TRSM:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(side, uplo, ta, diag, m, n, f, a->first,
                                                                                lda, c->first, ldc);
    break;
  default:
    ((void (*)(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any))function)(
        ta, m, n, f, a->first, lda, b->first, &call->stepx, g, c->first, &call->stepy);
  }
}

#endif
