// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A libcublasLt for tests: products of f32, bf16 and s8 in this machine's memory, column by column, slow and plain. Its heuristic
// proposes three algorithms, of which the second has a state that says no. Signatures and numbers: cublasLt.h of CUDA 13.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ok = 0, invalid = 7, not_supported = 15 };
enum { r_32f = 0, r_8i = 3, r_32i = 10, r_16bf = 14 };

typedef struct {
  int type;
  uint64_t rows, columns;
  int64_t pitch;
} Layout;
typedef struct {
  int compute, scale, transposed[2];
  unsigned epilogue;
  const void *bias;
  int bias_type;
} Product;
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Result;
typedef struct {
  uint64_t workspace;
} Preference;

int cublasLtCreate(void **handle) { return *handle = malloc(1), ok; }
size_t cublasLtGetVersion(void) { return 130000; }

int cublasLtMatmulDescCreate(Product **made, int compute, int scale) {
  *made = calloc(1, sizeof **made);
  (*made)->compute = compute, (*made)->scale = scale;
  return (compute == 72) == (scale == r_32i) ? ok : invalid;
}
int cublasLtMatmulDescSetAttribute(Product *product, int attribute, const void *value, size_t bytes) {
  if (attribute == 3 || attribute == 4)
    return bytes == 4 ? (memcpy(&product->transposed[attribute - 3], value, 4), ok) : invalid;
  if (attribute == 7)
    return bytes == 4 ? (memcpy(&product->epilogue, value, 4), ok) : invalid;
  if (attribute == 8)
    return bytes == 8 ? (memcpy(&product->bias, value, 8), ok) : invalid;
  if (attribute == 26)
    return bytes == 4 ? (memcpy(&product->bias_type, value, 4), ok) : invalid;
  return attribute == 25 && bytes == 1 ? ok : invalid;
}
int cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t pitch) {
  *made = calloc(1, sizeof **made);
  **made = (Layout){type, rows, columns, pitch};
  return pitch >= (int64_t)rows ? ok : invalid;
}
int cublasLtMatmulPreferenceCreate(Preference **made) { return *made = calloc(1, sizeof **made), ok; }
int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes) {
  return attribute == 1 && bytes == 8 ? (memcpy(&preference->workspace, value, 8), ok) : invalid;
}

static int fits(const Product *product, const Layout *a, const Layout *b, const Layout *d) {
  uint64_t rows = product->transposed[0] ? a->columns : a->rows, depth = product->transposed[0] ? a->rows : a->columns;
  uint64_t columns = product->transposed[1] ? b->rows : b->columns;
  return rows == d->rows && columns == d->columns && depth == (product->transposed[1] ? b->columns : b->rows);
}
int cublasLtMatmulAlgoGetHeuristic(void *handle, const Product *product, const Layout *a, const Layout *b, const Layout *c,
                                   const Layout *d, const Preference *preference, int most, Result *results, int *count) {
  (void)handle, (void)preference;
  *count = 0;
  if (!fits(product, a, b, d) || c != d || most < 3)
    return invalid;
  if (a->type != r_32f && a->type != r_16bf && a->type != r_8i)
    return not_supported;
  for (*count = 0; *count < 3; ++*count)
    results[*count] = (Result){.algorithm = {1 + (uint64_t)*count}, .state = *count == 1 ? not_supported : ok};
  return ok;
}

static double number(const void *from, int type, uint64_t at) {
  if (type == r_8i)
    return ((const int8_t *)from)[at];
  if (type == r_32f)
    return ((const float *)from)[at];
  uint32_t bits = (uint32_t)((const uint16_t *)from)[at] << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static void put(void *to, int type, uint64_t at, double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  if (type == r_32i)
    ((int32_t *)to)[at] = (int32_t)value;
  else if (type == r_32f)
    ((float *)to)[at] = single;
  else
    ((uint16_t *)to)[at] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
int cublasLtMatmul(void *handle, const Product *product, const void *alpha, const void *a, const Layout *about_a,
                   const void *b, const Layout *about_b, const void *beta, const void *c, const Layout *about_c, void *d,
                   const Layout *about_d, const uint64_t *algorithm, void *workspace, size_t bytes, void *stream) {
  (void)handle, (void)about_c, (void)workspace, (void)bytes, (void)stream;
  int whole = product->scale == r_32i;
  double one = whole ? *(const int32_t *)alpha : *(const float *)alpha;
  double zero = whole ? *(const int32_t *)beta : *(const float *)beta;
  if (!fits(product, about_a, about_b, about_d) || one != 1 || zero != 0 || c != d || !*algorithm || *algorithm > 3)
    return invalid;
  uint64_t depth = product->transposed[0] ? about_a->rows : about_a->columns;
  for (uint64_t column = 0; column < about_d->columns; ++column)
    for (uint64_t row = 0; row < about_d->rows; ++row) {
      double sum = 0;
      for (uint64_t k = 0; k < depth; ++k) {
        uint64_t at_a = product->transposed[0] ? k + row * about_a->pitch : row + k * about_a->pitch;
        uint64_t at_b = product->transposed[1] ? column + k * about_b->pitch : k + column * about_b->pitch;
        sum += number(a, about_a->type, at_a) * number(b, about_b->type, at_b);
      }
      if (product->epilogue & 4)
        sum += number(product->bias, product->bias_type, row);
      if (product->epilogue & 32)
        sum *= 0.5 * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
      put(d, about_d->type, row + column * about_d->pitch, sum);
    }
  return ok;
}
