// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls a BLAS's routines of one type, and compares with plain loops: where there is no other BLAS to compare with, as
// on an emulated processor or with musl's C library.
//
// Compiled with LETTER (s, d, c, z), REAL (float or double) and COMPLEX (0 or 1). Elements are small integers, so that
// every sum is exact in every order, and results have to be equal. C is NaN where beta is 0. It prints which code
// served and how many calls differed, and ends with status 1 if any did.
#include <complex.h>
#include <stdio.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ROUTINE(name) JOIN(JOIN(LETTER, name), _)
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

#if COMPLEX
typedef REAL _Complex T;
static T conjugate(T value) { return (T)conj(value); }
static const char ops[] = "NTC";
#else
typedef REAL T;
static T conjugate(T value) { return value; }
static const char ops[] = "NT";
#endif
typedef const char *Flag;
typedef const int *Int;

void ROUTINE(gemm)(Flag, Flag, Int, Int, Int, const T *, const T *, Int, const T *, Int, const T *, T *, Int);
void ROUTINE(syrk)(Flag, Flag, Int, Int, const T *, const T *, Int, const T *, T *, Int);
void ROUTINE(symm)(Flag, Flag, Int, Int, const T *, const T *, Int, const T *, Int, const T *, T *, Int);
void ROUTINE(trmm)(Flag, Flag, Flag, Flag, Int, Int, const T *, const T *, Int, T *, Int);
void ROUTINE(trsm)(Flag, Flag, Flag, Flag, Int, Int, const T *, const T *, Int, T *, Int);
const char *tilewright_blas_selected(void);

#define LD 72
typedef T Matrix[LD * LD]; // Columns are LD apart.
static Matrix a, b, c, expected;
static const int ld = LD;

// Rows, columns and depths: single ones, fewer and more than vectors and register tiles have.
static const int shapes[][3] = {{1, 1, 1},   {1, 50, 30}, {50, 1, 30},  {2, 3, 70},
                                {17, 33, 9}, {5, 64, 64}, {64, 24, 40}, {70, 71, 69}};

static int calls, differences;

// From -3 to 3.
static int small(void) {
  static unsigned state = 1;
  state = state * 1103515245 + 12345;
  return (int)(state >> 16) % 7 - 3;
}

static void fill(T *to) {
  for (int i = 0; i < LD * LD; ++i)
    to[i] = COMPLEX ? small() + small() * (T)I : small();
}

// An element of op(x).
static T at(const T *x, char op, int i, int j) {
  T value = op == 'N' ? x[i + j * LD] : x[j + i * LD];
  return op == 'C' ? conjugate(value) : value;
}

static void compare(const T *result, const char *routine, int m, int n, int k, const char *flags) {
  int differs = 0;
  for (int i = 0; i < LD * LD; ++i) // NaN, which is beside the result, has to stay.
    differs |= result[i] != expected[i] && !(result[i] != result[i] && expected[i] != expected[i]);
  ++calls;
  differences += differs;
  if (differs)
    printf("differs: %s %s %dx%dx%d\n", routine, flags, m, n, k);
}

// The call for the matrices above; of one row, whose elements are LD apart, `tight` ones lie side by side.
static void gemm(Flag ta, Flag tb, int m, int n, int k, T alpha, T beta, int tight) {
  static T row[LD], result[LD];
  const int one = 1;
  for (int i = 0; tight && i < LD; ++i)
    row[i] = a[*ta == 'N' ? i * LD : i], result[i] = c[i * LD];
  if (tight)
    ROUTINE(gemm)(ta, tb, &m, &n, &k, &alpha, row, *ta == 'N' ? &one : &ld, b, &ld, &beta, result, &one);
  else
    ROUTINE(gemm)(ta, tb, &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, c, &ld);
  for (int i = 0; tight && i < LD; ++i)
    c[i * LD] = result[i];
}

static void products(int m, int n, int k) {
  static const int factors[][2] = {{1, 0}, {2, 1}, {-1, 2}, {0, -1}, {0, 0}};
  for (const char *ta = ops; *ta; ++ta)
    for (const char *tb = ops; *tb; ++tb)
      for (int which = 0; which < COUNT(factors); ++which) {
        T alpha = factors[which][0], beta = factors[which][1];
        const char flags[] = {*ta, *tb, ' ', (char)('0' + which), 0};
        fill(a), fill(b), fill(c);
        for (int i = 0; beta == 0 && i < LD * LD; ++i)
          c[i] = (T)__builtin_nan("");
        memcpy(expected, c, sizeof c);
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            T sum = 0, *to = &expected[i + j * LD];
            for (int p = 0; p < k; ++p)
              sum += at(a, *ta, i, p) * at(b, *tb, p, j);
            *to = beta == 0 ? alpha * sum : alpha * sum + beta * *to;
          }
        gemm(ta, tb, m, n, k, alpha, beta, m == 1 && which % 2);
        compare(c, "gemm", m, n, k, flags);
      }
}

static void triangles(int n, int k) {
  const T one = 1, two = 2;
  fill(a), fill(b), fill(c);
  memcpy(expected, c, sizeof c);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j)
      for (int p = 0; p < k; ++p)
        expected[i + j * LD] += two * a[i + p * LD] * a[j + p * LD];
  ROUTINE(syrk)("L", "N", &n, &k, &two, a, &ld, &one, c, &ld);
  compare(c, "syrk", n, n, k, "LN");

  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j)
      for (int p = 0; p < n; ++p)
        expected[i + j * LD] += (p < i ? a[i + p * LD] : a[p + i * LD]) * b[p + j * LD];
  ROUTINE(symm)("L", "L", &n, &k, &one, a, &ld, b, &ld, &one, c, &ld);
  compare(c, "symm", n, k, 0, "LL");

  // With a diagonal of ones, the solution of A*X = A*B is B, and all that is between are integers.
  memcpy(c, b, sizeof c);
  memcpy(expected, b, sizeof b);
  for (int j = 0; j < k; ++j)
    for (int i = n - 1; i >= 0; --i)
      for (int p = 0; p < i; ++p)
        expected[i + j * LD] += a[i + p * LD] * c[p + j * LD];
  ROUTINE(trmm)("L", "L", "N", "U", &n, &k, &one, a, &ld, b, &ld);
  compare(b, "trmm", n, k, 0, "LLNU");
  memcpy(expected, c, sizeof c);
  ROUTINE(trsm)("L", "L", "N", "U", &n, &k, &one, a, &ld, b, &ld);
  compare(b, "trsm", n, k, 0, "LLNU");
}

int main(void) {
  for (int each = 0; each < COUNT(shapes); ++each) {
    products(shapes[each][0], shapes[each][1], shapes[each][2]);
    triangles(shapes[each][0], shapes[each][1]);
  }
  const char *level = tilewright_blas_selected();
  printf("%d calls, %d differences, served by %s\n", calls, differences, level ? level : "none");
  return differences != 0;
}
