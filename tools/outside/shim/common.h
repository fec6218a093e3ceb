/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   What OpenBLAS's tests take from OpenBLAS's headers, for a BLAS of the usual names with indices of 32 bits. */
#ifndef COMMON_H
#define COMMON_H
#include <stdint.h>
#include <stdio.h>

#define BUILD_SINGLE 1
#define BUILD_DOUBLE 1
#define BUILD_COMPLEX 1
#define BUILD_COMPLEX16 1
#define BLASFUNC(name) name##_

typedef int blasint;
#ifndef __cplusplus
#include <complex.h>
typedef float _Complex openblas_complex_float;
typedef double _Complex openblas_complex_double;
#define openblas_make_complex_float(real, imaginary) ((float)(real) + (float)(imaginary) * _Complex_I)
#define openblas_make_complex_double(real, imaginary) ((double)(real) + (double)(imaginary) * _Complex_I)
#define CREAL creal
#define CIMAG cimag

openblas_complex_double zdotu_(blasint *, openblas_complex_double *, blasint *, openblas_complex_double *, blasint *);
float sdot_(blasint *, float *, blasint *, float *, blasint *);
double ddot_(blasint *, double *, blasint *, double *, blasint *),
    dsdot_(blasint *, float *, blasint *, float *, blasint *);
float snrm2_(blasint *, float *, blasint *);
double dnrm2_(blasint *, double *, blasint *);
float scnrm2_(blasint *, float *, blasint *);
double dznrm2_(blasint *, double *, blasint *);
#endif
#endif
