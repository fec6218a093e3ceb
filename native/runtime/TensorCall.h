// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled kernel with any number of operands, of any rank, that Python calls on NumPy arrays.

#ifndef TILEWRIGHT_RUNTIME_TENSORCALL_H
#define TILEWRIGHT_RUNTIME_TENSORCALL_H

#include "CallParts.h"
#include "Operands.h"

#include <memory>
#include <vector>

namespace tilewright::runtime {

/// The entry that the lowering makes for it: takes the DLTensors in the order of the Python call, the result last.
using TensorEntry = int32_t(const dlpack::Tensor *const *tensors);

/// Immutable after construction, so that any number of threads may call it at once.
class TensorCall {
public:
  /// `operands` are in the order of the call, the result last. `operations` is how many a call does. Extents that are
  /// open, as openAxis says, take what `limits` says, which is empty where none is. Throws nanobind::value_error when
  /// `entry` was not linked, or a shape names an extent without limits.
  TensorCall(Code code, const std::string &entry, std::vector<TensorOperand> operands, bool accumulate,
             double operations, std::vector<Limits> limits);

  /// self(*operands, out=None), operands also by their names. A new reference, or null with a Python error. May throw
  /// as Operands.h says. Where `packed` says so, operand 1 is B, packed.
  PyObject *call(PyObject *positional, PyObject *keywords, const PackedB &packed) const;

private:
  PyObject *run(const Arrays &arrays, const std::vector<PyObject *> &values, PyObject *out,
                const std::vector<TensorOperand> &operands, const PackedB &packed) const;
  bool parse(PyObject *positional, PyObject *keywords, std::vector<PyObject *> &values) const;

  Code code;
  TensorEntry *entry;
  std::vector<TensorOperand> operands;
  bool accumulate;
  double operations;
  std::vector<Limits> limits;
  std::string usage; // "(a, b, bias, *, out=None)"
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_TENSORCALL_H
