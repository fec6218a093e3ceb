// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "MatmulCall.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// The arguments of one call, borrowed.
struct Arguments {
  PyObject *a = nullptr;
  PyObject *b = nullptr;
  PyObject *out = nullptr;
};

bool typeError(const char *what) {
  PyErr_SetString(PyExc_TypeError, what);
  return false;
}

/// Any legal way to pass (a, b, *, out=None), and the errors for the others.
bool parseArguments(PyObject *positional, PyObject *keywords, Arguments &arguments) {
  Py_ssize_t count = PyTuple_GET_SIZE(positional);
  if (count > 2)
    return typeError("a matmul kernel takes 2 positional operands (a, b); pass the result as out=…");
  if (count > 0)
    arguments.a = PyTuple_GET_ITEM(positional, 0);
  if (count > 1)
    arguments.b = PyTuple_GET_ITEM(positional, 1);
  const std::pair<const char *, PyObject **> slots[] = {
      {"a", &arguments.a}, {"b", &arguments.b}, {"out", &arguments.out}};
  Py_ssize_t next = 0;
  PyObject *name, *value;
  while (keywords && PyDict_Next(keywords, &next, &name, &value)) {
    PyObject **target = nullptr;
    for (const auto &[known, slot] : slots)
      if (PyUnicode_CompareWithASCIIString(name, known) == 0)
        target = slot;
    if (!target || *target) {
      PyErr_Format(PyExc_TypeError,
                   target ? "a matmul kernel got several values for operand %R"
                          : "a matmul kernel takes (a, b, *, out=None), and no keyword %R",
                   name);
      return false;
    }
    *target = value;
  }
  if (!arguments.a || !arguments.b)
    return typeError("a matmul kernel takes 2 operands: kernel(a, b) or kernel(a, b, out=c)");
  return true;
}

} // namespace

MatmulCall::MatmulCall(Code linked, Extents given, nb::handle aType, nb::handle bType, nb::handle cType,
                       Transposed transposed, bool accumulate, nb::object packing, const AllLimits &limits,
                       std::unique_ptr<TensorCall> further)
    : code(std::move(linked)), entry(reinterpret_cast<MatmulEntry *>(code.address(code.entryName()))), extents(given),
      limits(limits), a(makeStored("a", extentM, extentK, transposed.a, aType)),
      b(makeStored("b", extentK, extentN, transposed.b, bType)),
      c(makeOperand("out", extentM, extentN, /*written=*/true, cType)), accumulate(accumulate),
      outName(nb::steal(PyUnicode_InternFromString("out"))), packed(std::move(packing)), tensors(std::move(further)) {
  if (!entry)
    throw nb::value_error(("the code was linked without the function \"" + code.entryName() + "\"").c_str());
  for (int64_t extent : extents)
    if (extent < openExtent)
      throw nb::value_error("an extent is negative; expected an int from 0, or None");
}

PyObject *MatmulCall::call(PyObject *positional, PyObject *keywords) const {
  if (tensors)
    return tensors->call(positional, keywords, packed);
  Arguments arguments;
  // What nearly every call looks like.
  if (PyTuple_GET_SIZE(positional) == 2) {
    arguments.a = PyTuple_GET_ITEM(positional, 0);
    arguments.b = PyTuple_GET_ITEM(positional, 1);
    if (!keywords || PyDict_GET_SIZE(keywords) == 0)
      return product(arguments.a, arguments.b, nullptr);
    if (PyDict_GET_SIZE(keywords) == 1)
      if (PyObject *out = PyDict_GetItemWithError(keywords, outName.ptr()))
        return product(arguments.a, arguments.b, out);
    arguments = {};
  }
  if (PyErr_Occurred() || !parseArguments(positional, keywords, arguments))
    return nullptr;
  return product(arguments.a, arguments.b, arguments.out);
}

PyObject *MatmulCall::product(PyObject *aValue, PyObject *bValue, PyObject *out) const {
  Extents actual = extents;
  Matrix aMatrix, bMatrix, cMatrix;
  Arrays arrays;
  nb::object result;
  if (!(aValue = readArray(arrays, aValue, a)) || !(packed.isPacked() || (bValue = readArray(arrays, bValue, b))) ||
      !readMatrix(aValue, a, actual, aMatrix) || !checkLimits(a.name, extents, actual, limits) ||
      !(packed.isPacked() ? readPacked(bValue, bMatrix) : readMatrix(bValue, b, actual, bMatrix)) ||
      !checkLimits(b.name, extents, actual, limits))
    return nullptr;
  bool isNew = !out || out == Py_None;
  if (isNew) {
    if (accumulate) {
      raiseMissing(c, actual);
      return nullptr;
    }
    result = nb::steal(newMatrix(arrays, c, actual, cMatrix));
    if (!result)
      return nullptr;
  } else {
    PyObject *cValue = readArray(arrays, out, c);
    if (!cValue || !readMatrix(cValue, c, actual, cMatrix) || !checkDisjoint(cValue, cMatrix, aValue, aMatrix, "a") ||
        !checkDisjoint(cValue, cMatrix, bValue, bMatrix, "b"))
      return nullptr;
    result = nb::borrow(out);
  }
  Status status = enter(actual, aMatrix, bMatrix, cMatrix);
  if (status == Status::ok)
    return isNew ? arrays.give(result.release().ptr(), c.code) : result.release().ptr();
  if (status != Status::wrongPacking || packed.refuse(bValue))
    raiseStatus(status, code.entryName());
  return nullptr;
}

bool MatmulCall::readPacked(PyObject *value, Matrix &matrix) const {
  // It overlaps nothing that is written: nobody else has its memory to write to.
  matrix = {{0, 0}, static_cast<char *>(packed.read(value)), 0};
  return matrix.data != nullptr;
}

Status MatmulCall::enter(const Extents &actual, const Matrix &aMatrix, const Matrix &bMatrix,
                         const Matrix &cMatrix) const noexcept {
  double operations = 2.0 * static_cast<double>(actual[extentM]) * static_cast<double>(actual[extentN]) *
                      static_cast<double>(actual[extentK]);
  return enterReleased(operations, [&] {
    return entry(actual[extentM], actual[extentN], actual[extentK], aMatrix.data, aMatrix.leading, bMatrix.data,
                 bMatrix.leading, cMatrix.data, cMatrix.leading);
  });
}
