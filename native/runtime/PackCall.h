// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The packing of B ahead of time, called from Python on a NumPy array.

#ifndef TILEWRIGHT_RUNTIME_PACKCALL_H
#define TILEWRIGHT_RUNTIME_PACKCALL_H

#include "CallParts.h"
#include "Operands.h"

#include <memory>

namespace tilewright::runtime {

/// The C entry that packs B, a matrix of k x n elements, into `packed`. Returns 0 on success.
using PackEntry = int32_t(int64_t k, int64_t n, const void *b, int64_t ldb, void *packed);

/// Immutable after construction, so that any number of threads may call it at once.
class PackCall {
public:
  /// `b` is anything that NumPy takes for a dtype. Throws nanobind::python_error or nanobind::builtin_exception; and
  /// nanobind::value_error when `entry` was not linked.
  PackCall(Code code, const std::string &entry, int64_t n, int64_t k, nanobind::handle b, bool transposed);

  /// Packs the array `b` into `packed`, a writable buffer as large as the format says. False with a Python error.
  bool call(PyObject *b, PyObject *packed) const;

private:
  Code code;
  PackEntry *entry;
  Extents extents;
  Operand b;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_PACKCALL_H
