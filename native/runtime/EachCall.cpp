// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "EachCall.h"

#include "MatmulCall.h"
#include "NumPy.h"

#include <array>
#include <map>

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// What decides which kernel computes a product: the shapes and types of its matrices.
struct Kind {
  std::array<npy_intp, 4> extents;
  PyArray_Descr *a, *b; // Those of arrays of the call, which keep them.

  bool operator<(const Kind &other) const {
    return std::tie(extents, a, b) < std::tie(other.extents, other.a, other.b);
  }
};

/// A kernel, and the same as a call without Python where it is one.
struct Chosen {
  nb::object kernel;
  const MatmulCall *native;
};

/// Whether `value` is a matrix of NumPy's that lies row by row, as a kernel takes it.
bool isMatrix(PyObject *value) {
  if (!PyArray_CheckExact(value))
    return false;
  auto *array = reinterpret_cast<PyArrayObject *>(value);
  if (PyArray_NDIM(array) != 2 || !PyArray_ISALIGNED(array))
    return false;
  npy_intp item = PyArray_ITEMSIZE(array), columns = PyArray_DIM(array, 1), row = PyArray_STRIDE(array, 0);
  return PyArray_IS_C_CONTIGUOUS(array) ||
         (columns > 1 && PyArray_STRIDE(array, 1) == item && row >= columns * item && row % item == 0);
}

/// Whether the result goes into a new array, or a matrix of NumPy's of the type that the kernel makes.
bool takes(const MatmulCall &kernel, PyObject *out) {
  return out == Py_None ||
         (isMatrix(out) && PyArray_EquivTypes(PyArray_DESCR(reinterpret_cast<PyArrayObject *>(out)),
                                              reinterpret_cast<PyArray_Descr *>(kernel.made().ptr())));
}

class Products {
public:
  Products(nb::handle choose, nb::handle other) : choose(choose), other(other) {}

  /// A new reference, or null with a Python error.
  PyObject *product(PyObject *a, PyObject *b, PyObject *out) {
    if (isMatrix(a) && isMatrix(b)) {
      const Chosen &chosen = kernelOf(a, b);
      if (chosen.native && takes(*chosen.native, out))
        return chosen.native->product(a, b, out);
      if (!chosen.native && !chosen.kernel.is_none() && out == Py_None)
        return called(chosen.kernel, a, b, out);
    }
    return called(other, a, b, out);
  }

private:
  const Chosen &kernelOf(PyObject *a, PyObject *b) {
    auto *left = reinterpret_cast<PyArrayObject *>(a), *right = reinterpret_cast<PyArrayObject *>(b);
    Kind kind{{PyArray_DIM(left, 0), PyArray_DIM(left, 1), PyArray_DIM(right, 0), PyArray_DIM(right, 1)},
              PyArray_DESCR(left),
              PyArray_DESCR(right)};
    auto found = kernels.find(kind);
    if (found == kernels.end()) {
      nb::object kernel = choose(nb::handle(a), nb::handle(b));
      const MatmulCall *native = nullptr;
      if (nb::isinstance<MatmulCall>(kernel) && !nb::inst_ptr<MatmulCall>(kernel)->hasFurther())
        native = nb::inst_ptr<MatmulCall>(kernel);
      found = kernels.emplace(kind, Chosen{std::move(kernel), native}).first;
    }
    return found->second;
  }

  static PyObject *called(nb::handle function, PyObject *a, PyObject *b, PyObject *out) {
    return function(nb::handle(a), nb::handle(b), nb::arg("out") = nb::handle(out)).release().ptr();
  }

  nb::handle choose, other;
  std::map<Kind, Chosen> kernels;
};

} // namespace

nb::object tilewright::runtime::callEach(nb::handle a, nb::handle b, nb::handle out, nb::handle choose,
                                         nb::handle other) {
  // Lists of our own, which nobody changes meanwhile.
  nb::list left(a), right(b), into;
  if (!out.is_none())
    into = nb::list(out);
  nb::object none = nb::none();
  nb::list results;
  Products products(choose, other);
  for (size_t i = 0; i < left.size(); ++i) {
    PyObject *result = nullptr;
    try {
      nb::object room = out.is_none() ? none : nb::object(into[i]);
      result = products.product(nb::object(left[i]).ptr(), nb::object(right[i]).ptr(), room.ptr());
      if (!result)
        throw nb::python_error();
    } catch (nb::python_error &error) {
      if (nb::hasattr(error.value(), "add_note")) // Python 3.11 and later.
        error.value().attr("add_note")(nb::str("in product {} of the lists").format(i));
      throw;
    }
    results.append(nb::steal(result));
  }
  return results;
}
