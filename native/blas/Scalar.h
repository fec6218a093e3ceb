// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers that one letter of BLAS computes with, and views of matrices of them.
//
// Each letter is a translation unit of its own, with REAL (float or double), COMPLEX (0 or 1), LETTER (s, d, c, z),
// CAPITAL and ELEMENT (the kernels' name of the type: f32, ...) defined. There is no C++ runtime: no exceptions, no
// allocation but malloc.
#ifndef TILEWRIGHT_BLAS_SCALAR_H
#define TILEWRIGHT_BLAS_SCALAR_H

#include <stddef.h>
#include <stdint.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#if COMPLEX
struct T {
  REAL re, im;
};
static inline T make(REAL re) { return {re, 0}; }
static inline T operator+(T a, T b) { return {a.re + b.re, a.im + b.im}; }
static inline T operator*(T a, T b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static inline T operator-(T a) { return {-a.re, -a.im}; }
static inline bool operator==(T a, REAL b) { return a.re == b && a.im == 0; }
static inline bool operator!=(T a, REAL b) { return !(a == b); }
static inline T conjugate(T a) { return {a.re, -a.im}; }
static inline T real_part(T a) { return {a.re, 0}; }
#else
using T = REAL;
static inline T make(REAL re) { return re; }
static inline T conjugate(T a) { return a; }
static inline T real_part(T a) { return a; }
#endif

// The elements of A and B of a product: those of C, or floats of 16 bits.
#ifdef EXPONENT_BITS
using E = uint16_t;
static inline T widen(E bits) {
  const int fraction = 15 - EXPONENT_BITS, largest = (1 << EXPONENT_BITS) - 1;
  int exponent = bits >> fraction & largest, below = bits & ((1 << fraction) - 1);
  T value = (T)(exponent ? below | 1 << fraction : below);
  if (exponent == largest)
    value = below ? __builtin_nanf("") : __builtin_inff();
  for (int left = (exponent ? exponent : 1) - largest / 2 - fraction; left != 0; left += left < 0 ? 1 : -1)
    value *= left < 0 ? (T)0.5 : (T)2;
  return bits >> 15 ? -value : value;
}
#else
using E = T;
static inline T widen(T value) { return value; }
#endif

enum Op : int { NONE = 0, TRANSPOSE = 1, CONJUGATE = 2, WRONG = -1 };

// A matrix in a caller's array: row-major, or `turned`, which is column-major; read conjugated where it says so.
template <class E>
struct View {
  E *at;
  int64_t rows, columns, ld;
  bool turned, conjugated;

  E &operator()(int64_t i, int64_t j) const { return turned ? at[j * ld + i] : at[i * ld + j]; }
  View part(int64_t i, int64_t j, int64_t height, int64_t width) const {
    return {&(*this)(i, j), height, width, ld, turned, conjugated};
  }
  View transposed() const { return {at, columns, rows, ld, !turned, conjugated}; }
  View conjugate() const { return {at, rows, columns, ld, turned, COMPLEX && !conjugated}; }
  View op(int what) const { return what == NONE ? *this : what == TRANSPOSE ? transposed() : transposed().conjugate(); }
};

using Matrix = View<T>;
// What only is read is never written through: const is cast away so that one kind of view serves.
template <class X>
static inline View<X> view(const X *at, int64_t rows, int64_t columns, int64_t ld, bool by_row) {
  return {const_cast<X *>(at), rows, columns, ld, !by_row, false};
}

static inline T element(View<E> a, int64_t i, int64_t j) {
  T value = widen(a(i, j));
  return a.conjugated ? conjugate(value) : value;
}
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Half of n, a multiple of `unit`: where a recursion cuts.
static inline int64_t half(int64_t n, int64_t unit) { return most(unit, n / 2 / unit * unit); }

#endif
