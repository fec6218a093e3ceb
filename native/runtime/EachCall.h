// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Many products of one call from Python: lists of arrays, each pair with the kernel of its shapes and types.

#ifndef TILEWRIGHT_RUNTIME_EACHCALL_H
#define TILEWRIGHT_RUNTIME_EACHCALL_H

#include <nanobind/nanobind.h>

namespace tilewright::runtime {

/// The products of `a[i]` and `b[i]`, into `out[i]` where `out` is not None: a new list of them, in order. `choose(a,
/// b)` gives the kernel of NumPy's matrices of these shapes and types, and is asked once for each; or None. `other(a,
/// b, out=...)` computes what it gives none for, and what no such matrices are. Throws nanobind::python_error, to which
/// the product's number is noted.
nanobind::object callEach(nanobind::handle a, nanobind::handle b, nanobind::handle out, nanobind::handle choose,
                          nanobind::handle other);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_EACHCALL_H
