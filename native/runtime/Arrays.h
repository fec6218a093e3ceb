// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays of other libraries (DLPack, __array_interface__) as NumPy arrays over the same memory, and results in their
// kind.

#ifndef TILEWRIGHT_RUNTIME_ARRAYS_H
#define TILEWRIGHT_RUNTIME_ARRAYS_H

#include "DLPack.h"

#include <nanobind/nanobind.h>
#include <string>
#include <vector>

namespace tilewright::runtime {

/// Elements as NumPy and as DLPack know them. The former is null where it is not known yet.
struct Elements {
  nanobind::handle type; // numpy.dtype
  dlpack::Type code;
};

/// DLPack's number of a NumPy type; bits is 0 where there is none.
dlpack::Type codeOf(nanobind::handle type);

/// The arrays of one call, which keeps what it makes of them, and so their memory, until it goes.
class Arrays {
public:
  Arrays() = default;
  Arrays(const Arrays &) = delete;
  ~Arrays();

  /// `value`, a borrowed reference, where it is a NumPy array or no array at all; a NumPy array over the same memory
  /// where it is another library's, read-only where that says so. Nothing is copied. Null with an OperandError for
  /// operand `name` where the memory cannot be used: it is a card's, for example, or is part of a graph of derivatives.
  /// `expected` are the elements that it most likely has. What is `written` has to say that it may be.
  PyObject *read(PyObject *value, const char *name, bool written, const Elements &expected);

  /// Whether one of the arrays read decides, before NumPy, what results are: the first one whose library takes them.
  bool decides() const { return kind != nullptr; }

  /// A new NumPy array with uninitialized elements, which libraries that want aligned memory can take too; null with a
  /// Python error.
  PyObject *empty(const int64_t *shape, size_t rank, nanobind::handle type) const;

  /// A new NumPy array of elements of type `code`, whose reference is taken, as an array of the library that decides,
  /// over the same memory; null with an OperandError where that library refuses it.
  PyObject *give(PyObject *array, dlpack::Type code) const;

private:
  PyObject *kind = nullptr;                   // The borrowed array that decides.
  const dlpack::Exchange *exchange = nullptr; // The C functions of its library, if it has any.
  std::vector<nanobind::object> views;
};

/// An array of ours as other libraries take it: what `from_dlpack` is called with.
class Exported {
public:
  Exported(nanobind::object array, dlpack::Type code) : array(std::move(array)), code(code) {}

  /// A capsule, of version 1 where `versioned`. Throws nanobind::python_error.
  nanobind::object capsule(bool versioned) const;

private:
  nanobind::object array;
  dlpack::Type code;
};

/// Interns names. Throws nanobind::python_error.
void importArrays();

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ARRAYS_H
