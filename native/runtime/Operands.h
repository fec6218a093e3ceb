// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy arrays as matrices: what a kernel takes, what is refused and with which message. No array is ever copied.

#ifndef TILEWRIGHT_RUNTIME_OPERANDS_H
#define TILEWRIGHT_RUNTIME_OPERANDS_H

#include "Arrays.h"

#include <array>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <string>
#include <vector>

namespace tilewright::runtime {

/// The problem's extents, in the order of the C entry.
enum Extent : unsigned { extentM, extentN, extentK, extentCount };

/// A value of openExtent is not known before the operands are seen.
constexpr int64_t openExtent = -1;
using Extents = std::array<int64_t, extentCount>;

/// What an extent that is open may be.
struct Limits {
  int64_t least, most, multiple;
};
using AllLimits = std::array<Limits, extentCount>;

/// In a shape, an extent that is open: openAxis - i for extent i, those of the batch coming after M, N and K.
constexpr int64_t openAxis = openExtent - 1;

/// What a kernel asks of one operand.
struct Operand {
  const char *name; // In the Python call.
  Extent rows;
  Extent columns;
  bool written;
  nanobind::object type; // numpy.dtype
  int64_t itemBytes;
  dlpack::Type code;
};

/// The memory that an array spans, the gaps between its rows included; begin == end when it is empty.
struct Span {
  uintptr_t begin;
  uintptr_t end;
};

/// A matrix in row-major order, as the C entry takes it.
struct Matrix : Span {
  char *data;
  int64_t leading; // Elements from row to row.
};

/// What a kernel asks of one operand of any rank.
struct TensorOperand {
  std::string name; // In the Python call.
  std::vector<int64_t> shape;
  bool written;
  nanobind::object type; // numpy.dtype
  int64_t itemBytes;
  dlpack::Type code;
  size_t batch; // How many of its dimensions, the first ones, are of a batch.
};

/// An array as the C entry takes it. The header points into this object.
struct Tensor : Span {
  dlpack::Tensor header;
  std::vector<int64_t> shape, strides;
};

// Functions that raise in Python set its error indicator, as the C API does. Where memory runs out on the way there,
// they throw what nanobind and the standard library throw.

/// Makes NumPy's C API usable. Throws nanobind::python_error.
void importNumpy();

/// An operand of `type`, which is anything that NumPy takes for a dtype. Throws nanobind::python_error.
Operand makeOperand(const char *name, Extent rows, Extent columns, bool written, nanobind::handle type);

/// A matrix of `rows` by `columns` that is read, and that may be stored transposed.
Operand makeStored(const char *name, Extent rows, Extent columns, bool transposed, nanobind::handle type);

/// The same for an operand of any rank, whose element type is `code` in DLPack.
TensorOperand makeTensorOperand(const std::string &name, std::vector<int64_t> shape, bool written,
                                nanobind::handle type, dlpack::Type code, size_t batch);

/// What `arrays` read of `value`, as Arrays::read says.
template <typename AnyOperand>
PyObject *readArray(Arrays &arrays, PyObject *value, const AnyOperand &operand) {
  return arrays.read(value, std::string(operand.name).c_str(), operand.written, {operand.type, operand.code});
}

/// Checks `value` against `operand` and the extents, and fills in the extents that were open. On a misfit raises
/// tilewright.errors.OperandError in Python and returns false.
bool readMatrix(PyObject *value, const Operand &operand, Extents &extents, Matrix &matrix);

/// Checks those of `extents`, which the operands up to `operand` have filled in, that were open in `before`, against
/// `limits`; raises OperandError for `operand` otherwise.
bool checkLimits(const char *operand, const Extents &before, const Extents &extents, const AllLimits &limits);

/// Fills in what is open in the shape of `operand`: from `extents`, of which there are as many as `limits`, or, where
/// they are open too, from `value`.
bool closeShape(PyObject *value, TensorOperand &operand, std::vector<int64_t> &extents,
                const std::vector<Limits> &limits);

/// Checks `value` against `operand`, as readMatrix does; rows are adjacent elements, and outer dimensions contain inner
/// ones. The matrices of a batch lie anywhere, in order, and may be the same; those that are written share no element.
bool readTensor(PyObject *value, const TensorOperand &operand, Tensor &tensor);

/// A new reference: `value` itself, or, where `operand` is one number and `value` is one of Python's or NumPy's, an
/// array of it. Null, with an OperandError raised, for a number that the operand's type does not hold.
PyObject *numberArray(PyObject *value, const TensorOperand &operand);

/// A new array of `operand` with uninitialized elements, as `arrays` make them, or null with a Python error. Raises
/// OperandError where an extent is still open.
PyObject *newTensor(const Arrays &arrays, const TensorOperand &operand, Tensor &tensor);

/// Raises OperandError because `operand`, whose former elements are read, was not passed.
void raiseMissing(const Operand &operand, const Extents &extents);
void raiseMissing(const TensorOperand &operand);

/// A new array of `operand` with uninitialized elements, as `arrays` make them, or null with a Python error.
PyObject *newMatrix(const Arrays &arrays, const Operand &operand, const Extents &extents, Matrix &matrix);

/// Whether no byte of `out` belongs to `in`, gaps between rows set aside; otherwise raises OperandError.
bool checkDisjoint(PyObject *out, const Span &outSpan, PyObject *in, const Span &inSpan, const char *inName);

/// Has raiseError take exceptions from the module `errors` that lies beside this extension.
void useErrorsBeside(const nanobind::module_ &extension);

/// Raises in Python `name`(what, **details), an exception of that module.
void raiseError(const char *name, const std::string &what, const nanobind::dict &details);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OPERANDS_H
