// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The routines with their arguments as callers give them, from Fortran and from C: what is wrong is told, the rest
// becomes views.
//
// Arguments are numbered as in Fortran; C has the order of elements before them.
#ifndef TILEWRIGHT_BLAS_ARGUMENTS_H
#define TILEWRIGHT_BLAS_ARGUMENTS_H

#include "Product.h"

// Who calls: a name for errors, whether from C, and whether matrices are row-major.
struct Caller {
  const char *name;
  bool c, by_row;
};
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102 };

// What letters and numbers say: the place of a choice in its row, WRONG for none.
static int choice(char letter, const char *letters) {
  letter = letter >= 'a' ? letter - 'a' + 'A' : letter;
  for (int at = 0; letters[at]; ++at)
    if (letters[at] == letter)
      return at;
  return WRONG;
}
static int op_of(const char *letter) { return choice(*letter, "NTC"); }
static int side_of(const char *letter) { return choice(*letter, "LR"); }
static int uplo_of(const char *letter) { return choice(*letter, "LU"); }
static int unit_of(const char *letter) { return choice(*letter, "NU"); }
static int ranged(int number, int first, int count) {
  return number >= first && number < first + count ? number - first : WRONG;
}
static int op_of(int number) { return ranged(number, 111, 3); }
static int side_of(int number) { return ranged(number, 141, 2); }
static int uplo_of(int number) { return number == 121 ? 1 : number == 122 ? 0 : WRONG; }
static int unit_of(int number) { return ranged(number, 131, 2); }

// One condition on arguments, and the number of the one that breaks it.
struct Condition {
  bool wrong;
  int number;
};

template <int count>
static bool refused(Caller caller, const Condition (&conditions)[count]) {
  for (const Condition &each : conditions)
    if (each.wrong) {
      tilewright_blas_wrong(caller.c, caller.name, each.number + caller.c);
      return true;
    }
  return false;
}

// A leading dimension that is less than a line of the matrix: its columns, row-major, and otherwise its rows.
static bool narrow(Caller caller, int64_t ld, int64_t rows, int64_t columns) {
  return ld < most(1, caller.by_row ? columns : rows);
}

template <class X>
static View<X> stored(Caller caller, const X *at, int64_t rows, int64_t columns, int64_t ld, int op) {
  return (op == NONE ? view(at, rows, columns, ld, caller.by_row) : view(at, columns, rows, ld, caller.by_row))
      .op(op == NONE ? NONE
          : COMPLEX  ? op
                     : TRANSPOSE);
}
static bool narrow(Caller caller, int64_t ld, int64_t rows, int64_t columns, int op) {
  return op == NONE ? narrow(caller, ld, rows, columns) : narrow(caller, ld, columns, rows);
}

static void gemm(Caller caller, int ta, int tb, int64_t m, int64_t n, int64_t k, T alpha, const E *a, int64_t lda,
                 const E *b, int64_t ldb, T beta, T *c, int64_t ldc) {
  if (refused(caller, {{ta < 0, 1},
                       {tb < 0, 2},
                       {m < 0, 3},
                       {n < 0, 4},
                       {k < 0, 5},
                       {narrow(caller, lda, m, k, ta), 8},
                       {narrow(caller, ldb, k, n, tb), 10},
                       {narrow(caller, ldc, m, n), 13}}))
    return;
  product(alpha, stored(caller, a, m, k, lda, ta), stored(caller, b, k, n, ldb, tb), beta,
          view(c, m, n, ldc, caller.by_row));
}

#endif
