// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled matmul that Python calls on NumPy arrays.

#ifndef TILEWRIGHT_RUNTIME_MATMULCALL_H
#define TILEWRIGHT_RUNTIME_MATMULCALL_H

#include "CallParts.h"
#include "Operands.h"
#include "TensorCall.h"

#include <memory>

namespace tilewright::runtime {

/// The C entry that the lowering makes. Leading dimensions are in elements.
using MatmulEntry = int32_t(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                            void *c, int64_t ldc);

/// Which operands are stored transposed.
struct Transposed {
  bool a, b;
};

/// Immutable after construction, so that any number of threads may call it at once.
class MatmulCall {
public:
  /// Extents may be openExtent, and then are what `limits` says; `a`, `b` and `c` are anything that NumPy takes for a
  /// dtype. Code that accumulates reads the result's former elements, so that calls have to pass `out`. `packed` is as
  /// PackedB says. With `tensors`, the kernel has other operands than A and B, and calls go there. Throws
  /// nanobind::python_error or nanobind::builtin_exception.
  MatmulCall(Code code, Extents extents, nanobind::handle a, nanobind::handle b, nanobind::handle c,
             Transposed transposed, bool accumulate, nanobind::object packed, const AllLimits &limits,
             std::unique_ptr<TensorCall> tensors);

  /// self(a, b, *, out=None). A new reference, or null with a Python error. May throw as Operands.h says.
  PyObject *call(PyObject *positional, PyObject *keywords) const;

  /// The same for a kernel of A and B alone; `out` may be None or null.
  PyObject *product(PyObject *a, PyObject *b, PyObject *out) const;

  /// Whether the kernel has other operands.
  bool hasFurther() const { return tensors != nullptr; }

  /// NumPy's type of the result.
  nanobind::handle made() const { return c.type; }

private:
  bool readPacked(PyObject *value, Matrix &matrix) const;
  Status enter(const Extents &actual, const Matrix &a, const Matrix &b, const Matrix &c) const noexcept;

  Code code;
  MatmulEntry *entry;
  Extents extents;
  AllLimits limits;
  Operand a, b, c;
  bool accumulate;
  nanobind::object outName; // The interned "out".
  PackedB packed;
  std::unique_ptr<TensorCall> tensors;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_MATMULCALL_H
