// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define TILEWRIGHT_NUMPY_TABLE
#include "NumPy.h"

#include "Operands.h"

#include <algorithm>

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// How hard NumPy may think about whether two strided arrays share an element.
constexpr int overlapWork = 100000;

PyArrayObject *asArray(PyObject *value) { return reinterpret_cast<PyArrayObject *>(value); }

std::string extentText(int64_t extent) { return extent == openExtent ? "any" : std::to_string(extent); }

template <typename Value>
std::string valuesText(const Value *values, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i)
    text += (i ? ", " : "") + extentText(values[i]);
  return text + (count == 1 ? ",)" : ")");
}

std::string typeText(nb::handle type) { return nb::str(type).c_str(); }

/// An operand as messages describe it.
struct Wanted {
  std::string name, type, shape;
  bool written;
  int64_t itemBytes;
  size_t rank;
};

Wanted describe(const Operand &operand, const Extents &extents) {
  int64_t shape[] = {extents[operand.rows], extents[operand.columns]};
  return {operand.name, typeText(operand.type), valuesText(shape, 2), operand.written, operand.itemBytes, 2};
}

Wanted describe(const TensorOperand &operand) {
  int rank = static_cast<int>(operand.shape.size());
  return {operand.name,    typeText(operand.type), valuesText(operand.shape.data(), rank),
          operand.written, operand.itemBytes,      operand.shape.size()};
}

std::string article(const std::string &noun) {
  return (std::string("aeiouAEIOU").find(noun[0]) == std::string::npos ? "a " : "an ") + noun;
}

/// A misfit: raises OperandError and returns false.
bool refuse(const Wanted &wanted, const std::string &what, const std::string &expected, const std::string &remedy) {
  nb::dict details;
  details["operand"] = wanted.name;
  details["expected"] = expected;
  details["remedy"] = remedy;
  raiseError("OperandError", what, details);
  return false;
}

std::string allocateRemedy(const Wanted &wanted) {
  return "Allocate it with numpy.empty(" + wanted.shape + ", '" + wanted.type + "')";
}

bool refuseObject(PyObject *value, const Wanted &wanted) {
  std::string remedy = wanted.written ? allocateRemedy(wanted) : "Pass numpy.asarray(" + wanted.name + ")";
  return refuse(wanted, article(Py_TYPE(value)->tp_name) + " is not a numpy array",
                "a numpy array of " + wanted.type + ", shape " + wanted.shape, remedy);
}

bool refuseType(PyArrayObject *array, const Wanted &wanted) {
  nb::handle found(reinterpret_cast<PyObject *>(PyArray_DESCR(array)));
  // ml_dtypes keeps an element of four bits in a byte of its own.
  for (const char *four : {"int4", "uint4", "float4_e2m1fn"})
    if (typeText(found) == four)
      return refuse(wanted, "element type " + typeText(found), wanted.type,
                    "Put two elements into a byte with tilewright.pack_nibbles(" + wanted.name + ")");
  return refuse(wanted, "element type " + typeText(found), wanted.type,
                wanted.written ? allocateRemedy(wanted)
                               : "Convert with " + wanted.name + ".astype('" + wanted.type + "')");
}

bool refuseShape(PyArrayObject *array, const Wanted &wanted) {
  std::string remedy = "Compile a kernel for these extents";
  if (wanted.written)
    remedy = allocateRemedy(wanted);
  else if (static_cast<size_t>(PyArray_NDIM(array)) != wanted.rank)
    remedy = "Pass " + wanted.name + ".reshape(" + (wanted.rank == 2 ? "...) with two dimensions" : wanted.shape + ")");
  return refuse(wanted, "shape " + valuesText(PyArray_DIMS(array), PyArray_NDIM(array)), wanted.shape, remedy);
}

bool refuseReadOnly(const Wanted &wanted) {
  return refuse(wanted, "the array is read-only", "a writable array", allocateRemedy(wanted));
}

bool refuseAlignment(PyArrayObject *array, const Wanted &wanted) {
  uintptr_t off = reinterpret_cast<uintptr_t>(PyArray_BYTES(array)) % wanted.itemBytes;
  return refuse(wanted, "its first element lies " + std::to_string(off) + " bytes off a multiple",
                "an array aligned to " + std::to_string(wanted.itemBytes) + " bytes",
                "Copy with numpy.array(" + wanted.name + ")");
}

bool refuseLayout(PyArrayObject *array, const Wanted &wanted, const std::string &problem) {
  std::string item = std::to_string(wanted.itemBytes);
  std::string expected = wanted.rank < 2 ? "adjacent elements (stride " + item + ")"
                                         : "rows of adjacent elements, one after another (strides (r, " + item +
                                               ") with r a multiple of " + item + " and no shorter than a row)";
  return refuse(wanted, "strides " + valuesText(PyArray_STRIDES(array), PyArray_NDIM(array)) + " bytes: " + problem,
                expected,
                wanted.written ? "Write into a C-contiguous array, and copy from it afterwards"
                               : "Copy with numpy.ascontiguousarray(" + wanted.name + ")");
}

/// What is wrong with the distance between two rows, of `row` bytes each; null for nothing.
const char *problemOfRows(int64_t stride, int64_t row, int64_t item) {
  if (stride < 0)
    return "rows run backwards";
  if (stride % item)
    return "rows lie no whole number of elements apart";
  return stride < row ? "rows overlap" : nullptr;
}

const char *problemOfColumns(int64_t stride) {
  return stride < 0 ? "columns run backwards" : "the elements of a row are not adjacent";
}

/// NumPy's type objects that are built in exist once each, so that the first comparison nearly always decides.
bool isOfType(PyArrayObject *array, nb::handle type) {
  auto *wanted = reinterpret_cast<PyArray_Descr *>(type.ptr());
  return PyArray_DESCR(array) == wanted || PyArray_EquivTypes(PyArray_DESCR(array), wanted);
}

/// Fills in `matrix` from an array whose type and shape fit.
bool readLayout(PyArrayObject *array, const Operand &operand, const Extents &extents, Matrix &matrix) {
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
    return refuseAlignment(array, describe(operand, extents));
  if (columns > 1 && columnStride != item)
    return refuseLayout(array, describe(operand, extents), problemOfColumns(columnStride));
  if (rows > 1) {
    if (const char *problem = problemOfRows(rowStride, columns * item, item))
      return refuseLayout(array, describe(operand, extents), problem);
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

/// NumPy's type for what names it, and the bytes of an element. Throws nanobind::python_error.
static std::pair<nb::object, int64_t> elementType(nb::handle type) {
  PyArray_Descr *descriptor = nullptr;
  if (!PyArray_DescrConverter(type.ptr(), &descriptor))
    throw nb::python_error();
  nb::object owned = nb::steal(reinterpret_cast<PyObject *>(descriptor));
  int64_t itemBytes = PyDataType_ELSIZE(descriptor);
  if (itemBytes <= 0 || (itemBytes & (itemBytes - 1)) || PyDataType_REFCHK(descriptor))
    throw nb::value_error((typeText(owned) + " is no element type of a matrix").c_str());
  return {std::move(owned), itemBytes};
}

Operand tilewright::runtime::makeOperand(const char *name, Extent rows, Extent columns, bool written, nb::handle type) {
  auto [owned, itemBytes] = elementType(type);
  dlpack::Type code = codeOf(owned);
  return {name, rows, columns, written, std::move(owned), itemBytes, code};
}

Operand tilewright::runtime::makeStored(const char *name, Extent rows, Extent columns, bool transposed,
                                        nb::handle type) {
  return makeOperand(name, transposed ? columns : rows, transposed ? rows : columns, /*written=*/false, type);
}

TensorOperand tilewright::runtime::makeTensorOperand(const std::string &name, std::vector<int64_t> shape, bool written,
                                                     nb::handle type, dlpack::Type code, size_t batch) {
  auto [owned, itemBytes] = elementType(type);
  return {name, std::move(shape), written, std::move(owned), itemBytes, code, batch};
}

bool tilewright::runtime::readMatrix(PyObject *value, const Operand &operand, Extents &extents, Matrix &matrix) {
  if (!PyArray_Check(value))
    return refuseObject(value, describe(operand, extents));
  PyArrayObject *array = asArray(value);
  if (!isOfType(array, operand.type))
    return refuseType(array, describe(operand, extents));
  Extents bound = extents;
  if (PyArray_NDIM(array) != 2 || !bindExtent(PyArray_DIM(array, 0), bound[operand.rows]) ||
      !bindExtent(PyArray_DIM(array, 1), bound[operand.columns]))
    return refuseShape(array, describe(operand, extents));
  extents = bound;
  if (operand.written && !PyArray_ISWRITEABLE(array))
    return refuseReadOnly(describe(operand, extents));
  return readLayout(array, operand, extents, matrix);
}

/// What is wrong with the distance between two matrices of a batch; null for nothing.
static const char *problemOfBatch(int64_t stride, int64_t item) {
  if (stride < 0)
    return "matrices run backwards";
  return stride % item ? "matrices lie no whole number of elements apart" : nullptr;
}

/// Whether no two elements of a tensor of these strides, in elements, are the same: each dimension, from the one of the
/// smallest stride on, steps over all that those before it reach.
static bool isApart(const Tensor &tensor) {
  std::vector<std::pair<int64_t, int64_t>> dimensions;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
    if (tensor.shape[axis] > 1)
      dimensions.emplace_back(tensor.strides[axis], tensor.shape[axis]);
  std::sort(dimensions.begin(), dimensions.end());
  int64_t reached = 1;
  for (auto [stride, extent] : dimensions) {
    if (stride < reached)
      return false;
    reached += (extent - 1) * stride;
  }
  return true;
}

/// Checks extent `index` of the problem, which `operand` has told, against its limits.
static bool checkLimit(const char *operand, size_t index, int64_t extent, const Limits &limit) {
  if (extent >= limit.least && extent <= limit.most && extent % limit.multiple == 0)
    return true;
  std::string name = index < extentCount ? std::string(1, "mnk"[index])
                                         : "extent " + std::to_string(index - extentCount) + " of the batch";
  nb::dict details;
  details["operand"] = operand;
  details["expected"] = (limit.multiple == 1 ? "an extent" : "a multiple of " + std::to_string(limit.multiple)) +
                        " from " + std::to_string(limit.least) + " to " + std::to_string(limit.most);
  details["remedy"] = "Compile a kernel whose Dim takes this extent";
  raiseError("OperandError", name + " is " + std::to_string(extent), details);
  return false;
}

bool tilewright::runtime::checkLimits(const char *operand, const Extents &before, const Extents &extents,
                                      const AllLimits &limits) {
  for (size_t i = 0; i < extentCount; ++i)
    if (before[i] == openExtent && extents[i] != openExtent && !checkLimit(operand, i, extents[i], limits[i]))
      return false;
  return true;
}

bool tilewright::runtime::closeShape(PyObject *value, TensorOperand &operand, std::vector<int64_t> &extents,
                                     const std::vector<Limits> &limits) {
  bool fits =
      value && PyArray_Check(value) && static_cast<size_t>(PyArray_NDIM(asArray(value))) == operand.shape.size();
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    int64_t &size = operand.shape[axis];
    if (size >= openExtent)
      continue;
    auto index = static_cast<size_t>(openAxis - size);
    int64_t &extent = extents[index];
    if (extent == openExtent && fits) {
      extent = PyArray_DIM(asArray(value), static_cast<int>(axis));
      if (!checkLimit(operand.name.c_str(), index, extent, limits[index]))
        return false;
    }
    size = extent;
  }
  return true;
}

/// The strides of `tensor`, in elements, of an array whose type and shape fit, and the memory that it spans.
static bool readStrides(PyArrayObject *array, const TensorOperand &operand, Tensor &tensor) {
  int64_t item = operand.itemBytes, last = static_cast<int64_t>(operand.shape.size()) - 1, bytes = item;
  int64_t batch = static_cast<int64_t>(operand.batch);
  bool empty = std::find(operand.shape.begin(), operand.shape.end(), 0) != operand.shape.end();
  tensor.begin = tensor.end = reinterpret_cast<uintptr_t>(PyArray_BYTES(array));
  if (!empty && tensor.begin % item)
    return refuseAlignment(array, describe(operand));
  for (int64_t axis = last; axis >= 0; --axis) {
    int64_t extent = operand.shape[axis], stride = PyArray_STRIDE(array, static_cast<int>(axis));
    // With one element or none along an axis, its stride means nothing.
    if (empty || extent == 1)
      stride = axis == last ? item : bytes;
    else if (axis == last && stride != item)
      return refuseLayout(array, describe(operand), problemOfColumns(stride));
    else if (const char *problem = axis == last   ? nullptr
                                   : axis < batch ? problemOfBatch(stride, item)
                                                  : problemOfRows(stride, bytes, item))
      return refuseLayout(array, describe(operand), problem);
    tensor.strides[axis] = stride / item;
    bytes += (empty ? 0 : extent - 1) * stride;
  }
  tensor.end += empty ? 0 : bytes;
  if (batch && operand.written && !empty && !isApart(tensor))
    return refuseLayout(array, describe(operand), "matrices overlap");
  return true;
}

/// Says in `tensor` what an array of `operand` is.
static void fillTensor(PyArrayObject *array, const TensorOperand &operand, Tensor &tensor) {
  tensor.strides.resize(operand.shape.size());
  tensor.shape = operand.shape;
  tensor.header = {PyArray_BYTES(array),
                   {/*cpu=*/1, 0},
                   static_cast<int32_t>(operand.shape.size()),
                   {operand.code.kind, operand.code.bits, 1},
                   tensor.shape.data(),
                   tensor.strides.data(),
                   0};
}

bool tilewright::runtime::readTensor(PyObject *value, const TensorOperand &operand, Tensor &tensor) {
  if (!PyArray_Check(value))
    return refuseObject(value, describe(operand));
  PyArrayObject *array = asArray(value);
  if (!isOfType(array, operand.type))
    return refuseType(array, describe(operand));
  if (static_cast<size_t>(PyArray_NDIM(array)) != operand.shape.size() ||
      !std::equal(operand.shape.begin(), operand.shape.end(), PyArray_DIMS(array)))
    return refuseShape(array, describe(operand));
  if (operand.written && !PyArray_ISWRITEABLE(array))
    return refuseReadOnly(describe(operand));
  fillTensor(array, operand, tensor);
  return readStrides(array, operand, tensor);
}

PyObject *tilewright::runtime::numberArray(PyObject *value, const TensorOperand &operand) {
  bool whole = PyLong_Check(value) || PyArray_IsScalar(value, Integer);
  bool complex = (PyComplex_Check(value) || PyArray_IsScalar(value, ComplexFloating)) &&
                 PyDataType_ISCOMPLEX(reinterpret_cast<PyArray_Descr *>(operand.type.ptr()));
  if (!operand.shape.empty() || PyBool_Check(value) ||
      !(whole || complex || PyFloat_Check(value) || PyArray_IsScalar(value, Floating)))
    return nb::handle(value).inc_ref().ptr();
  auto *type = reinterpret_cast<PyArray_Descr *>(operand.type.inc_ref().ptr()); // PyArray_FromAny takes the reference.
  bool fits = whole || !PyDataType_ISINTEGER(type);
  PyObject *array =
      fits ? PyArray_FromAny(value, type, 0, 0, NPY_ARRAY_DEFAULT | NPY_ARRAY_FORCECAST, nullptr) : nullptr;
  if (array)
    return array;
  if (!fits)
    operand.type.dec_ref();
  PyErr_Clear();
  refuse(describe(operand), "the number is " + std::string(nb::repr(value).c_str()),
         "a number that " + typeText(operand.type) + " holds, or a numpy array of it", "Pass another number");
  return nullptr;
}

PyObject *tilewright::runtime::newTensor(const Arrays &arrays, const TensorOperand &operand, Tensor &tensor) {
  if (std::find(operand.shape.begin(), operand.shape.end(), openExtent) != operand.shape.end()) {
    Wanted wanted = describe(operand);
    refuse(wanted, "it is missing, and no operand tells all of its extents",
           "a numpy array of " + wanted.type + ", shape " + wanted.shape, "Pass out=c, an array of the shape you want");
    return nullptr;
  }
  PyObject *array = arrays.empty(operand.shape.data(), operand.shape.size(), operand.type);
  if (array) {
    fillTensor(asArray(array), operand, tensor);
    readStrides(asArray(array), operand, tensor);
  }
  return array;
}

void tilewright::runtime::raiseMissing(const Operand &operand, const Extents &extents) {
  Wanted wanted = describe(operand, extents);
  refuse(wanted, "it is missing, and the kernel adds to it (beta is not 0)",
         "a numpy array of " + wanted.type + ", shape " + wanted.shape, "Pass out=c, or compile with beta=0");
}

void tilewright::runtime::raiseMissing(const TensorOperand &operand) {
  Wanted wanted = describe(operand);
  refuse(wanted, "it is missing, and the kernel adds to it (beta is not 0)",
         "a numpy array of " + wanted.type + ", shape " + wanted.shape, "Pass out=c, or compile with beta=0");
}

PyObject *tilewright::runtime::newMatrix(const Arrays &arrays, const Operand &operand, const Extents &extents,
                                         Matrix &matrix) {
  const int64_t shape[] = {extents[operand.rows], extents[operand.columns]};
  PyObject *array = arrays.empty(shape, 2, operand.type);
  if (array)
    matrix = {{0, 0}, PyArray_BYTES(asArray(array)), std::max<int64_t>(shape[1], 1)};
  return array;
}

bool tilewright::runtime::checkDisjoint(PyObject *out, const Span &outSpan, PyObject *in, const Span &inSpan,
                                        const char *inName) {
  if (outSpan.begin >= inSpan.end || inSpan.begin >= outSpan.end)
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
  raiseError("OperandError", std::string("it overlaps operand ") + inName, details);
  return false;
}

/// What the module of the exceptions is called, which is known when this extension is loaded: the compiler's package
/// and the one that only calls each have their own.
static std::string errorsModule;

void tilewright::runtime::useErrorsBeside(const nb::module_ &extension) {
  std::string name = nb::cast<std::string>(extension.attr("__name__"));
  errorsModule = name.substr(0, name.rfind('.') + 1) + "errors";
}

void tilewright::runtime::raiseError(const char *name, const std::string &what, const nb::dict &details) {
  nb::object type = nb::module_::import_(errorsModule.c_str()).attr(name);
  PyErr_SetObject(type.ptr(), type(what, **details).ptr());
}
