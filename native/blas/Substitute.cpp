// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Multiplies and divides rows by a small triangle. It is compiled for each level of the processor.
#include "Triangle.h"

typedef REAL Vector __attribute__((vector_size(64)));
static constexpr int VECTORS = WIDTH * sizeof(REAL) / sizeof(Vector);

struct Row {
  Vector parts[1 + COMPLEX][VECTORS];
};

static inline Row read(const Rows &rows, int64_t i) {
  Row row;
  for (int part = 0; part <= COMPLEX; ++part)
    for (int v = 0; v < VECTORS; ++v)
      row.parts[part][v] = *(const Vector *)(rows.parts[part][i] + v * (WIDTH / VECTORS));
  return row;
}

static inline void write(Rows &rows, int64_t i, const Row &row) {
  for (int part = 0; part <= COMPLEX; ++part)
    for (int v = 0; v < VECTORS; ++v)
      *(Vector *)(rows.parts[part][i] + v * (WIDTH / VECTORS)) = row.parts[part][v];
}

static inline T factor(const Triangle &triangle, int64_t i, int64_t j) {
#if COMPLEX
  return {triangle.parts[0][i][j], triangle.parts[1][i][j]};
#else
  return triangle.parts[0][i][j];
#endif
}

// to += a*row, or to = a*row where `first`.
static inline void add(Row &to, T a, const Row &row, bool first) {
#if COMPLEX
  for (int v = 0; v < VECTORS; ++v) {
    Vector re = first ? Vector{} : to.parts[0][v], im = first ? Vector{} : to.parts[1][v];
    re += a.re * row.parts[0][v];
    im += a.re * row.parts[1][v];
    to.parts[0][v] = re - a.im * row.parts[1][v];
    to.parts[1][v] = im + a.im * row.parts[0][v];
  }
#else
  for (int v = 0; v < VECTORS; ++v)
    to.parts[0][v] = first ? a * row.parts[0][v] : to.parts[0][v] + a * row.parts[0][v];
#endif
}

static inline REAL magnitude(REAL a) { return a < 0 ? -a : a; }

// row /= a. Where no product of a's inverse overflows or loses bits, it is a product: as exact but for one rounding.
static inline void divide(Row &row, T a) {
  const REAL tiny = sizeof(REAL) == 4 ? (REAL)0x1p-100 : (REAL)0x1p-1000, large = 1 / tiny;
#if COMPLEX
  // By Smith's method (CACM 5, 1962): nothing is squared.
  bool swap = magnitude(a.re) < magnitude(a.im);
  REAL ratio = swap ? a.re / a.im : a.im / a.re, below = swap ? a.im + a.re * ratio : a.re + a.im * ratio;
  for (int v = 0; v < VECTORS; ++v) {
    Vector re = row.parts[0][v], im = row.parts[1][v];
    Vector real = swap ? re * ratio + im : re + im * ratio, imaginary = swap ? im * ratio - re : im - re * ratio;
    bool normal = magnitude(below) > tiny && magnitude(below) < large;
    row.parts[0][v] = normal ? real * (1 / below) : real / below;
    row.parts[1][v] = normal ? imaginary * (1 / below) : imaginary / below;
  }
#else
  bool normal = magnitude(a) > tiny && magnitude(a) < large;
  for (int v = 0; v < VECTORS; ++v)
    row.parts[0][v] = normal ? row.parts[0][v] * (1 / a) : row.parts[0][v] / a;
#endif
}

static inline T negative(T a) {
#if COMPLEX
  return {-a.re, -a.im};
#else
  return -a;
#endif
}

extern "C" __attribute__((visibility("hidden"))) Substitute JOIN(JOIN(tilewright_, LETTER), _substitute_code);

extern "C" int32_t JOIN(JOIN(tilewright_, LETTER), _substitute_code)(int64_t solve, int64_t n, const void *of,
                                                                     void *to) {
  const Triangle &triangle = *(const Triangle *)of;
  Rows &rows = *(Rows *)to;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = solve ? step : n - 1 - step;
    Row row = read(rows, i);
    if (!solve)
      add(row, factor(triangle, i, i), Row(row), true);
    for (int64_t j = 0; j < i; ++j) {
      T a = factor(triangle, i, j);
      add(row, solve ? negative(a) : a, read(rows, j), false);
    }
    if (solve)
      divide(row, factor(triangle, i, i));
    write(rows, i, row);
  }
  return 0;
}
