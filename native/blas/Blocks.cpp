// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Multiplies and divides rows by a small triangle, and transposes matrices. It is compiled for each level of the
// processor.
#include "Blocks.h"

typedef REAL Vector __attribute__((vector_size(64)));
static constexpr int LANES = sizeof(Vector) / sizeof(REAL), VECTORS = WIDTH / LANES;

// Real and imaginary parts are in arrays of their own.
struct Row {
  Vector parts[1 + COMPLEX][VECTORS];
};

static inline void put(Row &row, int64_t j, T value) {
#if COMPLEX
  ((REAL *)row.parts[0])[j] = value.re, ((REAL *)row.parts[1])[j] = value.im;
#else
  ((REAL *)row.parts[0])[j] = value;
#endif
}

static inline T get(const Row &row, int64_t j) {
#if COMPLEX
  return {((const REAL *)row.parts[0])[j], ((const REAL *)row.parts[1])[j]};
#else
  return ((const REAL *)row.parts[0])[j];
#endif
}

// Whole elements, real or complex, in registers of lanes of up to 8 bytes.
#if COMPLEX
using Lane = double;
#else
using Lane = REAL;
#endif
typedef Lane Line __attribute__((vector_size(64)));
typedef Lane Unaligned __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
static constexpr int ELEMENTS = sizeof(Line) / sizeof(T), GROUP = sizeof(T) / sizeof(Lane);

template <class Int, Int... numbers>
struct Numbers {};

// The elements of two registers in turn, those of their lower or upper halves.
template <int half, int... places>
static inline Line in_turn(Line a, Line b, Numbers<int, places...>) {
  return __builtin_shufflevector(
      a, b,
      (places / GROUP % 2 * ELEMENTS * GROUP + (half * ELEMENTS / 2 + places / GROUP / 2) * GROUP + places % GROUP)...);
}

// Each round moves the highest bit of a column's number to the end of its row's, and the other way round.
static inline void transpose(Line (&lines)[ELEMENTS]) {
  constexpr auto places = __make_integer_seq<Numbers, int, ELEMENTS * GROUP>();
  for (int round = 1; round < ELEMENTS; round *= 2) {
    Line next[ELEMENTS];
    for (int i = 0; i < ELEMENTS / 2; ++i) {
      next[2 * i] = in_turn<0>(lines[i], lines[i + ELEMENTS / 2], places);
      next[2 * i + 1] = in_turn<1>(lines[i], lines[i + ELEMENTS / 2], places);
    }
    for (int i = 0; i < ELEMENTS; ++i)
      lines[i] = next[i];
  }
}

#if !COMPLEX
// Copies whole columns that lie side by side in memory to rows, times alpha, or back.
template <bool back>
static inline void turn(const Substitution &given, Row (&rows)[BLOCK]) {
  bool down = given.b_down > 0;
  REAL *b = down ? given.b : given.b - (BLOCK - 1);
  for (int64_t j = 0; j < given.count; j += LANES)
    for (int64_t i = 0; i < BLOCK; i += LANES) {
      Line block[LANES];
      for (int each = 0; each < LANES; ++each) {
        int64_t row = down ? i + each : BLOCK - 1 - (i + each);
        block[each] = back ? rows[row].parts[0][j / LANES] : *(const Unaligned *)(b + (j + each) * given.b_across + i);
      }
      transpose(block);
      for (int each = 0; each < LANES; ++each) {
        int64_t row = down ? i + each : BLOCK - 1 - (i + each);
        if (back)
          *(Unaligned *)(b + (j + each) * given.b_across + i) = block[each];
        else
          rows[row].parts[0][j / LANES] = given.alpha * block[each];
      }
    }
}
#endif

// Copies the rows, times alpha, or back, along the lines that they have in memory.
template <bool back>
static inline void copy(const Substitution &given, Row (&rows)[BLOCK]) {
  auto one = [&](int64_t i, int64_t j, int64_t across) {
    T &b = given.b[i * given.b_down + j * across];
    if (back)
      b = get(rows[i], j);
    else
      put(rows[i], j, given.alpha * b);
  };
  if (given.b_across != 1) {
#if !COMPLEX
    if (given.n == BLOCK && given.count % LANES == 0)
      return turn<back>(given, rows);
#endif
    for (int64_t j = 0; j < given.count; ++j)
      for (int64_t i = 0; i < given.n; ++i)
        one(i, j, given.b_across);
    return;
  }
  for (int64_t i = 0; i < given.n; ++i)
    for (int64_t j = 0; j < given.count; ++j)
      one(i, j, 1);
}

#if !COMPLEX
// The same for rows of one or two whole vectors. Inlined, it leaves the sums fewer registers.
template <bool back, int vectors>
static __attribute__((noinline)) void copy_whole(const Substitution &given, Row (&rows)[BLOCK]) {
  for (int64_t i = 0; i < given.n; ++i)
    for (int v = 0; v < vectors; ++v) {
      Unaligned &b = *(Unaligned *)(given.b + i * given.b_down + v * LANES);
      if (back)
        b = rows[i].parts[0][v];
      else
        rows[i].parts[0][v] = given.alpha * b;
    }
}
#endif

// to += a*row of the first vectors; what a's imaginary part gives goes to `crossed`, which may be `to`.
template <int vectors>
static inline void add(Row &to, [[maybe_unused]] Row &crossed, T a, const Row &row) {
  for (int v = 0; v < vectors; ++v) {
#if COMPLEX
    to.parts[0][v] += a.re * row.parts[0][v];
    to.parts[1][v] += a.re * row.parts[1][v];
    crossed.parts[0][v] -= a.im * row.parts[1][v];
    crossed.parts[1][v] += a.im * row.parts[0][v];
#else
    to.parts[0][v] += a * row.parts[0][v];
#endif
  }
}

template <int vectors>
static inline void clear(Row &row) {
  for (auto &part : row.parts)
    for (int v = 0; v < vectors; ++v)
      part[v] = Vector{};
}

static inline REAL magnitude(REAL a) { return a < 0 ? -a : a; }

// row /= a. Where no product of a's inverse overflows or loses bits, it is a product: as exact but for one rounding.
template <int vectors>
static inline void divide(Row &row, T a) {
  const REAL tiny = sizeof(REAL) == 4 ? (REAL)0x1p-100 : (REAL)0x1p-1000, large = 1 / tiny;
#if COMPLEX
  // By Smith's method (CACM 5, 1962): nothing is squared.
  bool swap = magnitude(a.re) < magnitude(a.im);
  REAL ratio = swap ? a.re / a.im : a.im / a.re, below = swap ? a.im + a.re * ratio : a.re + a.im * ratio;
  for (int v = 0; v < vectors; ++v) {
    Vector re = row.parts[0][v], im = row.parts[1][v];
    Vector real = swap ? re * ratio + im : re + im * ratio, imaginary = swap ? im * ratio - re : im - re * ratio;
    bool normal = magnitude(below) > tiny && magnitude(below) < large;
    row.parts[0][v] = normal ? real * (1 / below) : real / below;
    row.parts[1][v] = normal ? imaginary * (1 / below) : imaginary / below;
  }
#else
  bool normal = magnitude(a) > tiny && magnitude(a) < large;
  for (int v = 0; v < vectors; ++v)
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

static inline T factor(const Substitution &given, int64_t i, int64_t j) {
  T value = given.a[i * given.a_down + j * given.a_across];
  return given.conjugated ? conjugate(value) : value;
}
static inline T diagonal(const Substitution &given, int64_t i) { return given.unit ? make(1) : factor(given, i, i); }

template <int vectors>
static inline void substitute(const Substitution &given, Row (&rows)[BLOCK]) {
  for (int64_t step = 0; step < given.n; ++step) {
    int64_t i = given.solve ? step : given.n - 1 - step;
    Row row = rows[i], other;
    // One vector of complex numbers would wait for its own sums: half of them go elsewhere.
    Row &crossed = COMPLEX && vectors == 1 ? other : row;
    clear<vectors>(other);
    if (!given.solve) {
      clear<vectors>(row);
      add<vectors>(row, crossed, diagonal(given, i), rows[i]);
    }
    for (int64_t j = 0; j < i; ++j)
      add<vectors>(row, crossed, given.solve ? negative(factor(given, i, j)) : factor(given, i, j), rows[j]);
    if (&crossed != &row)
      for (int part = 0; part <= COMPLEX; ++part)
        row.parts[part][0] += other.parts[part][0];
    if (given.solve && !given.unit)
      divide<vectors>(row, diagonal(given, i));
    rows[i] = row;
  }
}

// The rows, of at most `vectors` vectors, times the triangle or its inverse.
template <int vectors>
static inline void replace(const Substitution &given) {
  Row rows[BLOCK];
#if !COMPLEX
  if (vectors < VECTORS && given.count == vectors * LANES && given.b_across == 1) {
    copy_whole<false, vectors>(given, rows);
    substitute<vectors>(given, rows);
    return copy_whole<true, vectors>(given, rows);
  }
#endif
  if (given.count != vectors * LANES)
    for (Row &each : rows)
      clear<vectors>(each);
  copy<false>(given, rows);
  substitute<vectors>(given, rows);
  copy<true>(given, rows);
}

extern "C" __attribute__((visibility("hidden"))) Substitute JOIN(JOIN(tilewright_, LETTER), _substitute_code);

extern "C" int32_t JOIN(JOIN(tilewright_, LETTER), _substitute_code)(const Substitution *pointer) {
  const Substitution given = *pointer;
  if (given.count <= LANES)
    replace<1>(given);
  else if (given.count <= 2 * LANES)
    replace<2>(given);
  else
    replace<VECTORS>(given);
  return 0;
}

extern "C" __attribute__((visibility("hidden"))) Turn JOIN(JOIN(tilewright_, LETTER), _turn_code);

extern "C" int32_t JOIN(JOIN(tilewright_, LETTER), _turn_code)(const Turning *pointer) {
  const Turning given = *pointer;
  auto one = [&](int64_t i, int64_t j) {
    T value = given.from[i * given.from_ld + j];
    given.to[j * given.to_ld + i] = given.conjugated ? conjugate(value) : value;
  };
  int64_t rows = given.rows / ELEMENTS * ELEMENTS, columns = given.columns / ELEMENTS * ELEMENTS;
  for (int64_t i = 0; i < rows; i += ELEMENTS) {
    for (int64_t j = 0; j < columns; j += ELEMENTS) {
      Line block[ELEMENTS];
      for (int each = 0; each < ELEMENTS; ++each)
        block[each] = *(const Unaligned *)(given.from + (i + each) * given.from_ld + j);
      transpose(block);
      for (int each = 0; each < ELEMENTS; ++each) {
#if COMPLEX
        Vector signs;
        for (int lane = 0; lane < LANES; ++lane)
          signs[lane] = lane % 2 && given.conjugated ? -1 : 1;
        block[each] = (Line)((Vector)block[each] * signs);
#endif
        *(Unaligned *)(given.to + (j + each) * given.to_ld + i) = block[each];
      }
    }
    for (int64_t j = columns; j < given.columns; ++j)
      for (int64_t each = i; each < i + ELEMENTS; ++each)
        one(each, j);
  }
  for (int64_t i = rows; i < given.rows; ++i)
    for (int64_t j = 0; j < given.columns; ++j)
      one(i, j);
  return 0;
}
