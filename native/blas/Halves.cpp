// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of floats of 16 bits, summed in f32: sbgemm and shgemm as in OpenBLAS, and by C's names in MKL.
#include "Arguments.h"

#define HALVES(INT, fortran, c)                                                                                        \
  extern "C" void fortran(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k, const T *alpha,    \
                          const E *a, const INT *lda, const E *b, const INT *ldb, const T *beta, T *to,                \
                          const INT *ldc) {                                                                            \
    COUNT(gemm);                                                                                                       \
    gemm({TEXT(CAPITAL) "GEMM", false, false}, op_of(ta), op_of(tb), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, to,  \
         *ldc);                                                                                                        \
  }                                                                                                                    \
  extern "C" void c(int order, int ta, int tb, INT m, INT n, INT k, T alpha, const E *a, INT lda, const E *b, INT ldb, \
                    T beta, T *to, INT ldc) {                                                                          \
    COUNT(gemm);                                                                                                       \
    Caller caller = {"cblas_" TEXT(LETTER) "gemm", true, order == ROW_MAJOR};                                          \
    if (order != ROW_MAJOR && order != COLUMN_MAJOR)                                                                   \
      return tilewright_blas_wrong(true, caller.name, 1);                                                              \
    gemm(caller, op_of(ta), op_of(tb), m, n, k, alpha, a, lda, b, ldb, beta, to, ldc);                                 \
  }
#define NAMED(before, after) JOIN(before, JOIN(LETTER, after))
HALVES(int32_t, NAMED(, gemm_), NAMED(cblas_, gemm))
HALVES(int64_t, NAMED(, gemm_64_), NAMED(cblas_, gemm64_))
#define MKL JOIN(cblas_gemm_, JOIN(ELEMENT, JOIN(ELEMENT, f32)))
extern "C" __attribute__((alias(TEXT(NAMED(cblas_, gemm))))) void MKL();
extern "C" __attribute__((alias(TEXT(NAMED(cblas_, gemm64_))))) void JOIN(MKL, 64_)();
