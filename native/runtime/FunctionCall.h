// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function of a compiled module, with any number of arguments and results, that Python calls on NumPy arrays.

#ifndef TILEWRIGHT_RUNTIME_FUNCTIONCALL_H
#define TILEWRIGHT_RUNTIME_FUNCTIONCALL_H

#include "CallParts.h"
#include "Operands.h"
#include "TensorCall.h"

#include <memory>
#include <vector>

namespace tilewright::runtime {

/// A tensor that a function takes or gives.
struct FunctionTensor {
  TensorOperand operand;
  bool compact;   // Its elements follow one another without gaps.
  PackedB packed; // Or it is a B that comes packed.
};

/// Immutable after construction, so that any number of threads may call it at once.
class FunctionCall {
public:
  /// `tensors` are the function's `arguments`, and after them its results. `operations` is how many a call does.
  /// Extents that are open, as openAxis says, take what `limits` says, which is empty where none is. Throws
  /// nanobind::value_error when `entry` was not linked, or a shape names an extent without limits.
  FunctionCall(Code code, const std::string &entry, std::vector<FunctionTensor> tensors, size_t arguments,
               double operations, std::vector<Limits> limits);

  /// self(*arguments, out=None), arguments also by their names. The result, a tuple of several ones, or None without
  /// any; or null with a Python error. May throw as Operands.h says.
  PyObject *call(PyObject *positional, PyObject *keywords) const;

private:
  bool parse(PyObject *positional, PyObject *keywords, std::vector<PyObject *> &values, PyObject *&out) const;
  bool takeResults(PyObject *out, std::vector<PyObject *> &values) const;
  PyObject *run(const Arrays &arrays, const std::vector<PyObject *> &given, const std::vector<PyObject *> &values,
                const std::vector<FunctionTensor> &tensors) const;
  bool read(PyObject *value, const FunctionTensor &tensor, Tensor &read) const;
  bool checkOverlaps(const std::vector<PyObject *> &values, const std::vector<Tensor> &read) const;

  Code code;
  TensorEntry *entry;
  std::vector<FunctionTensor> tensors;
  size_t arguments;
  double operations;
  std::vector<Limits> limits;
  std::string usage; // "(a, b, *, out=None)"
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_FUNCTIONCALL_H
