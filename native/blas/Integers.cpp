// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gemm_s8u8s32: C = alpha*(A + oa)*(B + ob) + beta*C + oc of 8-bit integers, summed in 32 bits.
//
// Column-major, A is signed and B is not; row-major, the other way round: then C's rows are always of unsigned times
// signed. Source: oneMKL's developer reference, cblas_gemm_*.
#include "Arguments.h"
#include <stdlib.h>

namespace {
using Left = View<uint8_t>;
using Right = View<int8_t>;
enum { FIXED = 0, COLUMN = 1, ROW = 2 };

int offset_of(const char *letter) { return choice(*letter, "FCR"); }
int offset_of(int number) { return number == 171 ? ROW : number == 172 ? COLUMN : number == 173 ? FIXED : WRONG; }

// The nearest integer, even where two are; the largest or smallest where there is none so large.
int32_t rounded(double value) {
  const double to_integers = 0x1.8p52;
  value = value > 0x1p31 ? 0x1p31 : value < -0x1p31 ? -0x1p31 : value;
  value = (value + to_integers) - to_integers;
  return value >= 0x1p31 ? INT32_MAX : (int32_t)value;
}

// Row-major C; `lines` says whether oc is one number, or one for each row, or each column.
void multiply(int lines, float alpha, Left a, int left, Right b, int right, float beta, Matrix c, const int32_t *oc) {
  int64_t m = c.rows, n = c.columns, k = a.columns;
  const int32_t one = 1, none = 0, again = beta != 0;
  bool plain = alpha == 1 && (beta == 0 || beta == 1) && left == 0 && right == 0;
  int64_t ld = plain ? c.ld : n;
  int32_t *sums = plain ? c.at : (int32_t *)malloc((m * n + n) * sizeof(int32_t));
  Kernel *kernel = kernels[a.turned][b.turned];
  bool known = k > 0 && alpha != 0 && sums &&
               kernel(m, n, k, a.at, a.ld, b.at, b.ld, sums, ld, &one, plain ? &again : &none) == 0;
  if (tilewright_blas_counts && known)
    tilewright_blas_product("u8,i8,i32", layouts[a.turned][b.turned], m, n, k, 0);
  if (known && plain && lines == FIXED && *oc == 0)
    return;
  int32_t *of_columns = known && !plain ? sums + m * n : nullptr;
  for (int64_t j = 0; of_columns && j < n; ++j) {
    of_columns[j] = 0;
    for (int64_t p = 0; left && p < k; ++p)
      of_columns[j] += b(p, j);
  }
  for (int64_t i = 0; i < m; ++i) {
    int64_t of_row = k * left;
    for (int64_t p = 0; of_columns && right && p < k; ++p)
      of_row += a(i, p);
    for (int64_t j = 0; j < n; ++j) {
      double value;
      if (known && plain)
        value = c.at[i * c.ld + j];
      else {
        int64_t sum = 0;
        if (known)
          sum = sums[i * n + j] + (int64_t)left * of_columns[j] + right * of_row;
        else
          for (int64_t p = 0; alpha != 0 && p < k; ++p)
            sum += (int64_t)(a(i, p) + left) * (b(p, j) + right);
        value = (double)alpha * sum + (beta == 0 ? 0 : (double)beta * c.at[i * c.ld + j]);
      }
      c.at[i * c.ld + j] = rounded(value + oc[lines == ROW ? j : lines == COLUMN ? i : 0]);
    }
  }
  if (!plain)
    free(sums);
}

void checked(Caller caller, int ta, int tb, int lines, int64_t m, int64_t n, int64_t k, float alpha, const void *a,
             int64_t lda, int oa, const void *b, int64_t ldb, int ob, float beta, int32_t *c, int64_t ldc,
             const int32_t *oc) {
  if (refused(caller, {{ta < 0, 1},
                       {tb < 0, 2},
                       {lines < 0, 3},
                       {m < 0, 4},
                       {n < 0, 5},
                       {k < 0, 6},
                       {narrow(caller, lda, m, k, ta), 9},
                       {narrow(caller, ldb, k, n, tb), 12},
                       {narrow(caller, ldc, m, n), 16}}) ||
      m == 0 || n == 0)
    return;
  Matrix result = view(c, m, n, ldc, caller.by_row);
  if (caller.by_row)
    return multiply(lines, alpha, stored(caller, (const uint8_t *)a, m, k, lda, ta), oa,
                    stored(caller, (const int8_t *)b, k, n, ldb, tb), ob, beta, result, oc);
  multiply(lines == ROW      ? COLUMN
           : lines == COLUMN ? ROW
                             : FIXED,
           alpha, stored(caller, (const uint8_t *)b, k, n, ldb, tb).transposed(), ob,
           stored(caller, (const int8_t *)a, m, k, lda, ta).transposed(), oa, beta, result.transposed(), oc);
}
} // namespace

#define INTEGERS(INT, fortran, c)                                                                                      \
  extern "C" void fortran(const char *ta, const char *tb, const char *lines, const INT *m, const INT *n, const INT *k, \
                          const float *alpha, const int8_t *a, const INT *lda, const int8_t *oa, const uint8_t *b,     \
                          const INT *ldb, const int8_t *ob, const float *beta, int32_t *to, const INT *ldc,            \
                          const int32_t *oc) {                                                                         \
    COUNT(gemm_s8u8s32);                                                                                               \
    checked({"GEMM_S8U8S32", false, false}, op_of(ta), op_of(tb), offset_of(lines), *m, *n, *k, *alpha, a, *lda, *oa,  \
            b, *ldb, *ob, *beta, to, *ldc, oc);                                                                        \
  }                                                                                                                    \
  extern "C" void c(int order, int ta, int tb, int lines, INT m, INT n, INT k, float alpha, const void *a, INT lda,    \
                    int8_t oa, const void *b, INT ldb, int8_t ob, float beta, int32_t *to, INT ldc,                    \
                    const int32_t *oc) {                                                                               \
    COUNT(gemm_s8u8s32);                                                                                               \
    Caller caller = {"cblas_gemm_s8u8s32", true, order == ROW_MAJOR};                                                  \
    if (order != ROW_MAJOR && order != COLUMN_MAJOR)                                                                   \
      return tilewright_blas_wrong(true, caller.name, 1);                                                              \
    checked(caller, op_of(ta), op_of(tb), offset_of(lines), m, n, k, alpha, a, lda, oa, b, ldb, ob, beta, to, ldc,     \
            oc);                                                                                                       \
  }
INTEGERS(int32_t, gemm_s8u8s32_, cblas_gemm_s8u8s32)
INTEGERS(int64_t, gemm_s8u8s32_64_, cblas_gemm_s8u8s3264_)
