// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The routines of one letter, under every name that callers have for them, for integers of 32 and of 64 bits.
#define TURN JOIN(JOIN(tilewright_, LETTER), _turn)
#include "Checked.h"
#if !COMPLEX
#include "Vector.h"
#endif

// Factors come to C's functions by value where they are real, and matrices as pointers to void where they are complex.
#if COMPLEX
#define SCALAR const void *
#define POINTED void
#define VALUE(scalar) (*(const T *)(scalar))
#else
#define SCALAR T
#define POINTED T
#define VALUE(scalar) (scalar)
#endif

#define UPPER_gemm GEMM
#define UPPER_gemmtr GEMMTR
#define UPPER_symm SYMM
#define UPPER_hemm HEMM
#define UPPER_syrk SYRK
#define UPPER_herk HERK
#define UPPER_syr2k SYR2K
#define UPPER_her2k HER2K
#define UPPER_trmm TRMM
#define UPPER_trsm TRSM
#define UPPER_gemv GEMV

#define NAMED(before, routine, after) JOIN(JOIN(before, JOIN(LETTER, routine)), after)
#define INT int32_t
#define FORTRAN(routine) NAMED(, routine, _)
#define CBLAS(routine) NAMED(cblas_, routine, )
#include "Entries.inc"
#undef INT
#undef FORTRAN
#undef CBLAS

#define INT int64_t
#define FORTRAN(routine) NAMED(, routine, _64_)
#define CBLAS(routine) NAMED(cblas_, routine, 64_)
#include "Entries.inc"

// The names in scipy-openblas, which the wheels of numpy and scipy bring along.
#define SAME(name, as) extern "C" __attribute__((alias(TEXT(as)))) void name()
#define SCIPY(routine)                                                                                                 \
  SAME(NAMED(scipy_, routine, _), NAMED(, routine, _));                                                                \
  SAME(NAMED(scipy_, routine, _64_), NAMED(, routine, _64_));                                                          \
  SAME(NAMED(scipy_cblas_, routine, ), NAMED(cblas_, routine, ));                                                      \
  SAME(NAMED(scipy_cblas_, routine, 64_), NAMED(cblas_, routine, 64_));
SCIPY(gemm)
SCIPY(gemmtr)
SCIPY(symm)
SCIPY(syrk)
SCIPY(syr2k)
SCIPY(trmm)
SCIPY(trsm)
#if COMPLEX
SCIPY(hemm)
SCIPY(herk)
SCIPY(her2k)
#else
SCIPY(gemv)
#endif
