// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy arrays as matrices: what a kernel takes, what is refused and with which message. No array is ever copied.
// The only file that uses NumPy's C API is Operands.cpp.

#ifndef TILEWRIGHT_RUNTIME_OPERANDS_H
#define TILEWRIGHT_RUNTIME_OPERANDS_H

#include <array>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <string>

namespace tilewright::runtime {

/// The problem's extents, in the order of the C entry.
enum Extent : unsigned { extentM, extentN, extentK, extentCount };

/// A value of openExtent is not known before the operands are seen.
constexpr int64_t openExtent = -1;
using Extents = std::array<int64_t, extentCount>;

/// What a kernel asks of one operand.
struct Operand {
  const char *name; // In the Python call.
  Extent rows;
  Extent columns;
  bool written;
  nanobind::object type; // numpy.dtype
  int64_t itemBytes;
};

/// A matrix in row-major order, as the C entry takes it.
struct Matrix {
  char *data;
  int64_t leading; // Elements from row to row.
  uintptr_t begin; // The memory that it spans, the gaps between its rows included; begin == end when it is empty.
  uintptr_t end;
};

// Functions that raise in Python set its error indicator, as the C API does. Where memory runs out on the way there,
// they throw what nanobind and the standard library throw.

/// Makes NumPy's C API usable. Throws nanobind::python_error.
void importNumpy();

/// An operand of `type`, which is anything that NumPy takes for a dtype. Throws nanobind::python_error.
Operand makeOperand(const char *name, Extent rows, Extent columns, bool written, nanobind::handle type);

/// Checks `value` against `operand` and the extents, and fills in the extents that were open. On a misfit raises
/// tilewright.errors.OperandError in Python and returns false.
bool readMatrix(PyObject *value, const Operand &operand, Extents &extents, Matrix &matrix);

/// Raises OperandError because `operand`, whose former elements are read, was not passed.
void raiseMissing(const Operand &operand, const Extents &extents);

/// A new array of `operand` with uninitialised elements, or null with a Python error.
PyObject *newMatrix(const Operand &operand, const Extents &extents, Matrix &matrix);

/// Whether no byte of `out` belongs to `in`, gaps between rows set aside; otherwise raises OperandError.
bool checkDisjoint(PyObject *out, const Matrix &outMatrix, PyObject *in, const Matrix &inMatrix,
                   const Operand &inOperand);

/// Raises in Python tilewright.errors.`name`(what, **details).
void raiseError(const char *name, const std::string &what, const nanobind::dict &details);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OPERANDS_H
