// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Operands.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// How hard NumPy may think about whether two strided arrays share an element.
constexpr int overlapWork = 100000;

PyArrayObject *asArray(PyObject *value) { return reinterpret_cast<PyArrayObject *>(value); }

std::string tupleText(const std::array<std::string, 2> &items) { return "(" + items[0] + ", " + items[1] + ")"; }

std::string valuesText(const npy_intp *values, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + (count == 1 ? ",)" : ")");
}

std::string extentText(int64_t extent) { return extent == openExtent ? "any" : std::to_string(extent); }

std::string shapeText(const Operand &operand, const Extents &extents) {
  return tupleText({extentText(extents[operand.rows]), extentText(extents[operand.columns])});
}

std::string typeText(nb::handle type) { return nb::str(type).c_str(); }

std::string article(const std::string &noun) {
  return (std::string("aeiouAEIOU").find(noun[0]) == std::string::npos ? "a " : "an ") + noun;
}

/// A misfit: raises OperandError and returns false.
bool refuse(const Operand &operand, const std::string &what, const std::string &expected, const std::string &remedy) {
  nb::dict details;
  details["operand"] = operand.name;
  details["expected"] = expected;
  details["remedy"] = remedy;
  raiseError("OperandError", what, details);
  return false;
}

std::string allocateRemedy(const Operand &operand, const Extents &extents) {
  return "Allocate it with numpy.empty(" + shapeText(operand, extents) + ", '" + typeText(operand.type) + "')";
}

bool refuseObject(PyObject *value, const Operand &operand, const Extents &extents) {
  std::string name = operand.name;
  std::string remedy = "Pass numpy.asarray(" + name + ")";
  if (operand.written)
    remedy = allocateRemedy(operand, extents);
  else if (PyObject_HasAttrString(value, "__dlpack__"))
    remedy = "Pass numpy.from_dlpack(" + name + "), which shares the memory of a CPU tensor";
  return refuse(operand, article(Py_TYPE(value)->tp_name) + " is not a numpy array",
                "a numpy array of " + typeText(operand.type) + ", shape " + shapeText(operand, extents), remedy);
}

bool refuseType(PyArrayObject *array, const Operand &operand, const Extents &extents) {
  std::string wanted = typeText(operand.type);
  nb::handle found(reinterpret_cast<PyObject *>(PyArray_DESCR(array)));
  return refuse(operand, "element type " + typeText(found), wanted,
                operand.written ? allocateRemedy(operand, extents)
                                : "Convert with " + std::string(operand.name) + ".astype('" + wanted + "')");
}

bool refuseShape(PyArrayObject *array, const Operand &operand, const Extents &extents) {
  std::string remedy = "Compile a kernel for these extents";
  if (operand.written)
    remedy = allocateRemedy(operand, extents);
  else if (PyArray_NDIM(array) != 2)
    remedy = "Pass " + std::string(operand.name) + ".reshape(...) with two dimensions";
  return refuse(operand, "shape " + valuesText(PyArray_DIMS(array), PyArray_NDIM(array)), shapeText(operand, extents),
                remedy);
}

bool refuseLayout(PyArrayObject *array, const Operand &operand, const std::string &problem) {
  std::string name = operand.name;
  return refuse(operand, "strides " + valuesText(PyArray_STRIDES(array), 2) + " bytes: " + problem,
                "rows of adjacent elements, one after another (strides (r, " + std::to_string(operand.itemBytes) +
                    ") with r a multiple of " + std::to_string(operand.itemBytes) + " and no shorter than a row)",
                operand.written ? "Write into a C-contiguous array, and copy from it afterwards"
                                : "Copy with numpy.ascontiguousarray(" + name + ")");
}

/// Fills in `matrix` from an array whose type and shape fit.
bool readLayout(PyArrayObject *array, const Operand &operand, Matrix &matrix) {
  npy_intp rows = PyArray_DIM(array, 0), columns = PyArray_DIM(array, 1);
  npy_intp rowStride = PyArray_STRIDE(array, 0), columnStride = PyArray_STRIDE(array, 1);
  int64_t item = operand.itemBytes;
  matrix.data = PyArray_BYTES(array);
  matrix.begin = matrix.end = reinterpret_cast<uintptr_t>(matrix.data);
  matrix.leading = std::max<int64_t>(columns, 1);
  // With one element or none along an axis, its stride means nothing.
  if (rows == 0 || columns == 0)
    return true;
  if (matrix.begin % item)
    return refuse(operand, "its first element lies " + std::to_string(matrix.begin % item) + " bytes off a multiple",
                  "an array aligned to " + std::to_string(item) + " bytes",
                  "Copy with numpy.array(" + std::string(operand.name) + ")");
  if (columns > 1 && columnStride != item)
    return refuseLayout(array, operand,
                        columnStride < 0 ? "columns run backwards" : "the elements of a row are not adjacent");
  if (rows > 1) {
    if (rowStride < 0)
      return refuseLayout(array, operand, "rows run backwards");
    if (rowStride % item)
      return refuseLayout(array, operand, "rows lie no whole number of elements apart");
    if (rowStride < columns * item)
      return refuseLayout(array, operand, "rows overlap");
    matrix.leading = rowStride / item;
  }
  matrix.end += ((rows - 1) * matrix.leading + columns) * item;
  return true;
}

bool bindExtent(int64_t found, int64_t &extent) {
  if (extent == openExtent)
    extent = found;
  return extent == found;
}

} // namespace

void tilewright::runtime::importNumpy() {
  if (_import_array() < 0)
    throw nb::python_error();
}

Operand tilewright::runtime::makeOperand(const char *name, Extent rows, Extent columns, bool written, nb::handle type) {
  PyArray_Descr *descriptor = nullptr;
  if (!PyArray_DescrConverter(type.ptr(), &descriptor))
    throw nb::python_error();
  nb::object owned = nb::steal(reinterpret_cast<PyObject *>(descriptor));
  int64_t itemBytes = PyDataType_ELSIZE(descriptor);
  if (itemBytes <= 0 || (itemBytes & (itemBytes - 1)) || PyDataType_REFCHK(descriptor))
    throw nb::value_error((typeText(owned) + " is no element type of a matrix").c_str());
  return {name, rows, columns, written, std::move(owned), itemBytes};
}

bool tilewright::runtime::readMatrix(PyObject *value, const Operand &operand, Extents &extents, Matrix &matrix) {
  if (!PyArray_Check(value))
    return refuseObject(value, operand, extents);
  PyArrayObject *array = asArray(value);
  auto *wanted = reinterpret_cast<PyArray_Descr *>(operand.type.ptr());
  // The types built into NumPy exist once each, so that the first comparison nearly always decides.
  if (PyArray_DESCR(array) != wanted && !PyArray_EquivTypes(PyArray_DESCR(array), wanted))
    return refuseType(array, operand, extents);
  Extents bound = extents;
  if (PyArray_NDIM(array) != 2 || !bindExtent(PyArray_DIM(array, 0), bound[operand.rows]) ||
      !bindExtent(PyArray_DIM(array, 1), bound[operand.columns]))
    return refuseShape(array, operand, extents);
  extents = bound;
  if (operand.written && !PyArray_ISWRITEABLE(array))
    return refuse(operand, "the array is read-only", "a writable array", allocateRemedy(operand, extents));
  return readLayout(array, operand, matrix);
}

void tilewright::runtime::raiseMissing(const Operand &operand, const Extents &extents) {
  refuse(operand, "it is missing, and the kernel adds to it (beta is 1)",
         "a numpy array of " + typeText(operand.type) + ", shape " + shapeText(operand, extents),
         "Pass out=c, or compile with beta=0");
}

PyObject *tilewright::runtime::newMatrix(const Operand &operand, const Extents &extents, Matrix &matrix) {
  npy_intp shape[2] = {static_cast<npy_intp>(extents[operand.rows]), static_cast<npy_intp>(extents[operand.columns])};
  auto *type = reinterpret_cast<PyArray_Descr *>(operand.type.inc_ref().ptr()); // PyArray_Empty takes the reference.
  PyObject *array = PyArray_Empty(2, shape, type, /*is_f_order=*/0);
  if (array)
    matrix = {PyArray_BYTES(asArray(array)), std::max<int64_t>(shape[1], 1), 0, 0};
  return array;
}

bool tilewright::runtime::checkDisjoint(PyObject *out, const Matrix &outMatrix, PyObject *in, const Matrix &inMatrix,
                                        const Operand &inOperand) {
  if (outMatrix.begin >= inMatrix.end || inMatrix.begin >= outMatrix.end)
    return true;
  // The spans meet, but rows of one may lie in the gaps of the other: columns of one array, for example.
  nb::object shares = nb::module_::import_("numpy").attr("shares_memory");
  try {
    if (!nb::cast<bool>(shares(nb::handle(out), nb::handle(in), overlapWork)))
      return true;
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_RuntimeError)) // numpy.exceptions.TooHardError: take it that they do.
      throw;
  }
  nb::dict details;
  details["operand"] = "out";
  details["expected"] = "an array that shares no element with a or b";
  details["remedy"] = "Write into another array";
  raiseError("OperandError", std::string("it overlaps operand ") + inOperand.name, details);
  return false;
}

void tilewright::runtime::raiseError(const char *name, const std::string &what, const nb::dict &details) {
  nb::object type = nb::module_::import_("tilewright.errors").attr(name);
  PyErr_SetObject(type.ptr(), type(what, **details).ptr());
}
