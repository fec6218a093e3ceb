// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy's C API, for the files that use it. Operands.cpp defines TILEWRIGHT_NUMPY_TABLE first, and so holds its table.

#ifndef TILEWRIGHT_RUNTIME_NUMPY_H
#define TILEWRIGHT_RUNTIME_NUMPY_H

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL tilewrightNumPy
#ifndef TILEWRIGHT_NUMPY_TABLE
#define NO_IMPORT_ARRAY
#endif
// nanobind.h comes first: it includes Python.h.
#include <nanobind/nanobind.h>
#include <numpy/arrayobject.h>

#endif // TILEWRIGHT_RUNTIME_NUMPY_H
