// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all letters share: counters, the handlers of errors, and the BLAS that everything else goes on to.
#ifndef TILEWRIGHT_BLAS_SERVICE_H
#define TILEWRIGHT_BLAS_SERVICE_H

#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Calls of one routine; they are in a list from their first call on.
struct Tally {
  const char *name;
  int64_t calls;
  Tally *next;
  bool listed;
};

extern "C" {
// Whether anything is counted; read before the two below are called.
extern HIDDEN int tilewright_blas_counts;
HIDDEN void tilewright_blas_count(Tally *tally);
// A product that a kernel computes: row-major, `element` as the command line has types, `layout` as "nt", `own` where a
// kernel of just this shape served.
HIDDEN void tilewright_blas_product(const char *element, const char *layout, int64_t m, int64_t n, int64_t k, int own);
// Tells the caller's handler that argument `number` is wrong, by Fortran's xerbla_ or C's cblas_xerbla.
HIDDEN void tilewright_blas_wrong(int c, const char *name, int64_t number);
}

#define COUNT(routine)                                                                                                 \
  do {                                                                                                                 \
    static Tally tally = {TEXT(LETTER) #routine, 0, nullptr, false};                                                   \
    if (tilewright_blas_counts)                                                                                        \
      tilewright_blas_count(&tally);                                                                                   \
  } while (0)

#endif
