// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "MatmulCall.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// From so many operations on (some 10 µs of one core) other Python threads may run meanwhile. Below, letting them
/// would cost more than the product.
constexpr double releaseOperations = 1 << 20;

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

/// Raises the Python error for a status other than ok.
void raiseStatus(Status status, const std::string &entry) {
  if (status == Status::outOfMemory) {
    PyErr_SetString(PyExc_MemoryError, "no memory for the kernel's packed panels");
    return;
  }
  std::string what = status == Status::wrongExtents
                         ? "the code was compiled for other extents than the kernel was made with"
                         : "the kernel returned status " + std::to_string(static_cast<int32_t>(status));
  nb::dict details;
  details["where"] = "kernel entry " + entry;
  details["expected"] = "status 0";
  raiseError("TilewrightError", what, details);
}

} // namespace

MatmulCall::MatmulCall(std::shared_ptr<const ObjectCode> linked, Extents given, nb::handle aType, nb::handle bType,
                       nb::handle cType, bool accumulate, nb::object packing)
    : code(std::move(linked)), entry(reinterpret_cast<MatmulEntry *>(const_cast<void *>(code->entry()))),
      extents(given), a(makeOperand("a", extentM, extentK, /*written=*/false, aType)),
      b(makeOperand("b", extentK, extentN, /*written=*/false, bType)),
      c(makeOperand("out", extentM, extentN, /*written=*/true, cType)), accumulate(accumulate),
      outName(nb::steal(PyUnicode_InternFromString("out"))), packed(std::move(packing)),
      addressName(nb::steal(PyUnicode_InternFromString("address"))) {
  if (!packed.is_none())
    packedType = packed.attr("type");
  for (int64_t extent : extents)
    if (extent < openExtent)
      throw nb::value_error("an extent is negative; expected an int from 0, or None");
}

PyObject *MatmulCall::call(PyObject *positional, PyObject *keywords) const {
  Arguments arguments;
  // What nearly every call looks like.
  if (PyTuple_GET_SIZE(positional) == 2) {
    arguments.a = PyTuple_GET_ITEM(positional, 0);
    arguments.b = PyTuple_GET_ITEM(positional, 1);
    if (!keywords || PyDict_GET_SIZE(keywords) == 0)
      return run(arguments.a, arguments.b, nullptr);
    if (PyDict_GET_SIZE(keywords) == 1)
      if (PyObject *out = PyDict_GetItemWithError(keywords, outName.ptr()))
        return run(arguments.a, arguments.b, out);
    arguments = {};
  }
  if (PyErr_Occurred() || !parseArguments(positional, keywords, arguments))
    return nullptr;
  return run(arguments.a, arguments.b, arguments.out);
}

PyObject *MatmulCall::run(PyObject *aValue, PyObject *bValue, PyObject *out) const {
  Extents actual = extents;
  Matrix aMatrix, bMatrix, cMatrix;
  nb::object result;
  if (!readMatrix(aValue, a, actual, aMatrix) ||
      !(packedType ? readPacked(bValue, bMatrix) : readMatrix(bValue, b, actual, bMatrix)))
    return nullptr;
  if (!out || out == Py_None) {
    if (accumulate) {
      raiseMissing(c, actual);
      return nullptr;
    }
    result = nb::steal(newMatrix(c, actual, cMatrix));
    if (!result)
      return nullptr;
  } else {
    if (!readMatrix(out, c, actual, cMatrix) || !checkDisjoint(out, cMatrix, aValue, aMatrix, a) ||
        !checkDisjoint(out, cMatrix, bValue, bMatrix, b))
      return nullptr;
    result = nb::borrow(out);
  }
  Status status = enter(actual, aMatrix, bMatrix, cMatrix);
  if (status == Status::ok)
    return result.release().ptr();
  if (status != Status::wrongPacking || refusePacked(bValue))
    raiseStatus(status, code->entryName());
  return nullptr;
}

bool MatmulCall::readPacked(PyObject *value, Matrix &matrix) const {
  if (Py_TYPE(value) != reinterpret_cast<PyTypeObject *>(packedType.ptr())) {
    if (refusePacked(value))
      PyErr_SetString(PyExc_TypeError, "B is not packed");
    return false;
  }
  nb::object address = nb::steal(PyObject_GetAttr(value, addressName.ptr()));
  if (!address)
    return false;
  // It overlaps nothing that is written: nobody else has its memory to write to.
  matrix = {static_cast<char *>(PyLong_AsVoidPtr(address.ptr())), 0, 0, 0};
  return !PyErr_Occurred();
}

/// Lets Python raise the error; true when it raises none.
bool MatmulCall::refusePacked(PyObject *value) const {
  try {
    packed.attr("refuse")(nb::handle(value));
  } catch (nb::python_error &error) {
    error.restore();
    return false;
  }
  return true;
}

Status MatmulCall::enter(const Extents &actual, const Matrix &aMatrix, const Matrix &bMatrix,
                         const Matrix &cMatrix) const noexcept {
  double operations = 2.0 * static_cast<double>(actual[extentM]) * static_cast<double>(actual[extentN]) *
                      static_cast<double>(actual[extentK]);
  PyThreadState *released = operations >= releaseOperations ? PyEval_SaveThread() : nullptr;
  int32_t status = entry(actual[extentM], actual[extentN], actual[extentK], aMatrix.data, aMatrix.leading, bMatrix.data,
                         bMatrix.leading, cMatrix.data, cMatrix.leading);
  if (released)
    PyEval_RestoreThread(released);
  return static_cast<Status>(status);
}
