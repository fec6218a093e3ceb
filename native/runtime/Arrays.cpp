// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Arrays.h"
#include "NumPy.h"
#include "Operands.h"

#include <climits>
#include <cstdlib>
#include <memory>

namespace nb = nanobind;
using namespace tilewright::runtime;

namespace {

/// Rows of results start at cache lines where another library takes them: JAX copies memory that is aligned less.
constexpr size_t lineBytes = 64;

/// How many operands most calls have, the result among them.
constexpr size_t usualOperands = 4;

/// NumPy's least for the number of dimensions that an array may have.
constexpr int32_t mostDimensions = 32;

/// Types that ml_dtypes adds to NumPy's, by their names there and in DLPack.
constexpr struct {
  const char *name;
  dlpack::Type code;
} added[] = {
    {"bfloat16", {4, 16}},          {"float8_e3m4", {7, 8}},      {"float8_e4m3", {8, 8}},
    {"float8_e4m3b11fnuz", {9, 8}}, {"float8_e4m3fn", {10, 8}},   {"float8_e4m3fnuz", {11, 8}},
    {"float8_e5m2", {12, 8}},       {"float8_e5m2fnuz", {13, 8}}, {"float8_e8m0fnu", {14, 8}},
};

/// Names of capsules. What takes over the tensor in one gives it another name.
constexpr const char *unversionedName = "dltensor", *versionedName = "dltensor_versioned";

/// Types that NumPy itself has. Source of DLPack's kinds: int 0, uint 1, float 2, complex 5, bool 6.
constexpr struct {
  int number;
  dlpack::Type code;
} own[] = {
    {NPY_FLOAT32, {2, 32}},   {NPY_FLOAT64, {2, 64}},     {NPY_FLOAT16, {2, 16}}, {NPY_INT8, {0, 8}},
    {NPY_UINT8, {1, 8}},      {NPY_INT32, {0, 32}},       {NPY_INT64, {0, 64}},   {NPY_BOOL, {6, 8}},
    {NPY_INT16, {0, 16}},     {NPY_UINT16, {1, 16}},      {NPY_UINT32, {1, 32}},  {NPY_UINT64, {1, 64}},
    {NPY_COMPLEX64, {5, 64}}, {NPY_COMPLEX128, {5, 128}},
};

/// Interned names of what arrays are asked for. Made once, when the extension is imported, and never changed.
struct Names {
  PyObject *exchange, *capsule, *device, *interface, *hardmask, *requiresGrad, *isNegated, *isConjugated;
} names;

PyArrayObject *asArray(PyObject *value) { return reinterpret_cast<PyArrayObject *>(value); }

/// A misfit: raises OperandError and returns null.
PyObject *refuse(const char *name, const std::string &what, const std::string &expected, const std::string &remedy) {
  nb::dict details;
  details["operand"] = name;
  details["expected"] = expected;
  if (!remedy.empty())
    details["remedy"] = remedy;
  raiseError("OperandError", what, details);
  return nullptr;
}

std::string typeName(PyObject *value) { return Py_TYPE(value)->tp_name; }

/// Turns the error of another library into an OperandError, unless it is of another sort, such as an interrupt.
PyObject *refuseFor(const char *name, const std::string &what, const std::string &expected,
                    const std::string &remedy = "") {
  if (!PyErr_Occurred())
    return refuse(name, what, expected, remedy);
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
    return nullptr;
  nb::python_error error;
  return refuse(name, what + ": " + std::string(nb::str(error.value()).c_str()), expected, remedy);
}

PyObject *refuseMemory(PyObject *value, const char *name) {
  return refuseFor(
      name, "the memory of the " + typeName(value) + " cannot be shared",
      "an array whose memory DLPack or __array_interface__ can describe",
      "Pass its numbers, x.detach() of a torch tensor with gradients; for what is traced or derived there are "
      "tilewright.torch and tilewright.jax");
}

/// The C functions of the library of `type`, or null: there are none of a version that is known.
const dlpack::Exchange *exchangeOf(PyTypeObject *type) {
  nb::object capsule = nb::steal(PyObject_GetAttr(reinterpret_cast<PyObject *>(type), names.exchange));
  constexpr const char *name = "dlpack_exchange_api";
  void *found = capsule.is_valid() ? PyCapsule_GetPointer(capsule.ptr(), name) : nullptr;
  if (!found) {
    PyErr_Clear();
    return nullptr;
  }
  auto *header = static_cast<const dlpack::Exchange::Header *>(found);
  while (header && header->version.major != dlpack::majorVersion)
    header = header->previous;
  return reinterpret_cast<const dlpack::Exchange *>(header);
}

/// Whether the attribute `name` of `value`, called first where `called`, is something other than False.
bool isTrue(PyObject *value, PyObject *name, bool called) {
  nb::object found = nb::steal(called ? PyObject_CallMethodNoArgs(value, name) : PyObject_GetAttr(value, name));
  if (!found.is_valid())
    PyErr_Clear();
  return found.is_valid() && found.ptr() != Py_False;
}

/// NumPy's type of DLPack's `code`, a new reference, or null.
PyArray_Descr *descriptorOf(dlpack::Type code, const Elements &expected) {
  if (expected.type.is_valid() && code == expected.code)
    return reinterpret_cast<PyArray_Descr *>(nb::handle(expected.type).inc_ref().ptr());
  for (const auto &[number, itsCode] : own)
    if (itsCode == code)
      return PyArray_DescrFromType(number);
  for (const auto &[name, itsCode] : added)
    if (itsCode == code) {
      PyArray_Descr *descriptor = nullptr;
      try {
        nb::object type = nb::module_::import_("ml_dtypes").attr(name);
        return PyArray_DescrConverter(type.ptr(), &descriptor) ? descriptor : nullptr;
      } catch (nb::python_error &) {
        return nullptr; // It is not installed, or too old.
      }
    }
  return nullptr;
}

/// A capsule that owns `managed`, until somebody gives it another name. Throws nanobind::python_error.
template <typename Managed>
nb::object capsuleOf(Managed *managed, const char *name) {
  auto drop = [](PyObject *self) {
    for (const char *each : {unversionedName, versionedName})
      if (PyCapsule_IsValid(self, each)) {
        auto *left = static_cast<Managed *>(PyCapsule_GetPointer(self, each));
        if (left->deleter)
          left->deleter(left);
      }
  };
  PyObject *capsule = PyCapsule_New(managed, name, drop);
  if (capsule)
    return nb::steal(capsule);
  if (managed->deleter)
    managed->deleter(managed);
  throw nb::python_error();
}

/// What a tensor lacks to be described to NumPy, or null.
const char *problemOf(const dlpack::Tensor &tensor) {
  if (tensor.rank < 0 || tensor.rank > mostDimensions)
    return "its number of dimensions is out of range";
  if (tensor.rank && !tensor.shape)
    return "its shape is missing";
  bool empty = false;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] < 0)
      return "an extent is negative";
    empty |= tensor.shape[axis] == 0;
  }
  return tensor.data || empty ? nullptr : "its memory is missing";
}

/// A new NumPy array over the memory of `tensor`, which `owner` keeps; null with an OperandError.
PyObject *viewOf(const dlpack::Tensor &tensor, bool writable, PyObject *owner, const char *name,
                 const Elements &expected) {
  if (int32_t device = tensor.device.type;
      device != dlpack::cpu && device != dlpack::cudaHost && device != dlpack::rocmHost)
    return refuse(name, "it is on a device of DLPack's kind " + std::to_string(device),
                  "an array in this machine's memory", "Move it there, as with x.cpu(), or compile for the device");
  PyArray_Descr *type = tensor.type.lanes == 1 ? descriptorOf({tensor.type.kind, tensor.type.bits}, expected) : nullptr;
  if (!type) {
    if (PyErr_Occurred())
      return nullptr;
    return refuse(name,
                  "its elements are of DLPack's kind " + std::to_string(tensor.type.kind) + ", " +
                      std::to_string(tensor.type.bits) + " bits, " + std::to_string(tensor.type.lanes) + " lanes",
                  "a type that numpy or ml_dtypes has",
                  tensor.type.lanes == 1 && tensor.type.bits % CHAR_BIT == 0
                      ? "Convert it, as with x.to(float32)"
                      : "Pass elements that share a byte as bytes, x.view(uint8)");
  }
  auto drop = [](PyArray_Descr *each) { Py_DECREF(reinterpret_cast<PyObject *>(each)); };
  std::unique_ptr<PyArray_Descr, decltype(drop)> kept(type, drop);
  if (const char *problem = problemOf(tensor))
    return refuse(name, problem, "a tensor as dlpack.h describes it", "");
  npy_intp shape[mostDimensions], strides[mostDimensions];
  int64_t item = PyDataType_ELSIZE(type);
  bool far = false;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    shape[axis] = tensor.shape[axis];
    far |= tensor.strides && __builtin_mul_overflow(tensor.strides[axis], item, &strides[axis]);
  }
  if (far)
    return refuse(name, "a stride is out of range", "a tensor as dlpack.h describes it", "");
  static char nothing[lineBytes];
  char *data = tensor.data ? static_cast<char *>(tensor.data) + tensor.byteOffset : nothing;
  PyObject *view = PyArray_NewFromDescr(&PyArray_Type, kept.release(), tensor.rank, shape,
                                        tensor.strides ? strides : nullptr, data, writable ? NPY_ARRAY_WRITEABLE : 0,
                                        /*obj=*/nullptr);
  if (!view)
    return refuseFor(name, "its extents are out of range", "an array that memory can hold");
  Py_INCREF(owner);
  if (PyArray_SetBaseObject(asArray(view), owner) < 0) {
    Py_DECREF(view);
    return nullptr;
  }
  return view;
}

/// What `array.__dlpack__` gives, without a copy. Throws nanobind::python_error.
nb::object exported(nb::handle array) {
  nb::object method = array.attr(names.capsule);
  try {
    nb::dict options;
    options["max_version"] = nb::make_tuple(dlpack::majorVersion, dlpack::minorVersion);
    options["copy"] = false;
    return method(**options);
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_TypeError))
      throw;
  }
  return method(); // It is older than versions.
}

/// A new view of what `capsule` from `value` holds; null with an OperandError. The capsule is not consumed, but kept:
/// what it holds goes when it goes.
PyObject *viewOfCapsule(PyObject *capsule, PyObject *value, const char *name, const Elements &expected) {
  if (PyCapsule_IsValid(capsule, versionedName)) {
    auto *managed = static_cast<dlpack::Versioned *>(PyCapsule_GetPointer(capsule, versionedName));
    if (managed->version.major != dlpack::majorVersion)
      return refuse(name, "it comes in version " + std::to_string(managed->version.major) + " of DLPack", "version 1",
                    "");
    if (managed->flags & dlpack::copied)
      return refuse(name, "the " + typeName(value) + " gives a copy of its memory", "an array that shares its memory",
                    "");
    return viewOf(managed->tensor, !(managed->flags & dlpack::readOnly), capsule, name, expected);
  }
  if (PyCapsule_IsValid(capsule, unversionedName)) {
    // It cannot say whether it may be written. NumPy takes it as read-only too.
    auto *managed = static_cast<dlpack::Unversioned *>(PyCapsule_GetPointer(capsule, unversionedName));
    return viewOf(managed->tensor, /*writable=*/false, capsule, name, expected);
  }
  return refuse(name, "the __dlpack__ of the " + typeName(value) + " gives no tensor",
                "a capsule as the specification of DLPack describes it", "");
}

/// A new view of an array by the methods of Python's specification; null with an OperandError. What it makes goes to
/// `kept`: with an error raised, no foreign code may run.
PyObject *viewByMethods(PyObject *value, const char *name, const Elements &expected, std::vector<nb::object> &kept) {
  nb::object capsule;
  try {
    if (PyObject_HasAttr(value, names.device)) {
      auto device = nb::cast<nb::tuple>(nb::handle(value).attr(names.device)());
      // Asked first: exporting from a card may wait for it.
      auto kind = nb::cast<int32_t>(nb::int_(device[0]));
      if (kind != dlpack::cpu && kind != dlpack::cudaHost && kind != dlpack::rocmHost)
        return viewOf({nullptr, {kind, 0}, 0, {0, 0, 0}, nullptr, nullptr, 0}, false, value, name, expected);
    }
    capsule = exported(value);
    kept.push_back(capsule);
  } catch (nb::python_error &error) {
    error.restore();
    return refuseMemory(value, name);
  } catch (const std::exception &) {
    return refuse(name, "the __dlpack_device__ of the " + typeName(value) + " gives no pair of numbers",
                  "a device as the specification of DLPack describes it", "");
  }
  return viewOfCapsule(capsule.ptr(), value, name, expected);
}

/// A new view of an array by its library's C functions; null, without an error, where its methods have to be asked.
PyObject *viewByExchange(PyObject *value, const dlpack::Exchange &exchange, const char *name, bool written,
                         const Elements &expected) {
  constexpr uint8_t complexKind = 5;
  dlpack::Tensor tensor;
  // What is part of a graph of derivatives, or has to be changed before it is read, is for methods to refuse.
  if (!exchange.borrow || isTrue(value, names.requiresGrad, /*called=*/false))
    return nullptr;
  if (exchange.borrow(value, &tensor) != 0 ||
      (tensor.type.kind == complexKind && isTrue(value, names.isConjugated, /*called=*/true))) {
    PyErr_Clear();
    return nullptr;
  }
  if (written) {
    // Only what is managed says whether it may be written.
    dlpack::Versioned *managed = nullptr;
    if (exchange.fromObject(value, &managed) != 0)
      return refuseMemory(value, name);
    written = !(managed->flags & dlpack::readOnly);
    if (managed->deleter)
      managed->deleter(managed);
  }
  return viewOf(tensor, written, value, name, expected);
}

/// A result as other libraries take it.
template <typename Managed>
struct Shared {
  Managed managed;
  nb::object array;
  std::unique_ptr<int64_t[]> strides;

  static Managed *make(nb::object array, dlpack::Type code) {
    PyArrayObject *source = asArray(array.ptr());
    auto made = std::make_unique<Shared>();
    int rank = PyArray_NDIM(source);
    made->strides = std::make_unique<int64_t[]>(rank);
    for (int axis = 0; axis < rank; ++axis)
      made->strides[axis] = PyArray_STRIDE(source, axis) / PyArray_ITEMSIZE(source);
    made->managed = {};
    made->managed.tensor = {PyArray_DATA(source), {dlpack::cpu, 0},    rank, {code.kind, code.bits, 1},
                            PyArray_DIMS(source), made->strides.get(), 0};
    made->managed.context = made.get();
    made->managed.deleter = [](Managed *self) {
      if (!Py_IsInitialized())
        return; // The interpreter is gone, and the array with it.
      PyGILState_STATE state = PyGILState_Ensure();
      delete static_cast<Shared *>(self->context);
      PyGILState_Release(state);
    };
    if constexpr (std::is_same_v<Managed, dlpack::Versioned>)
      made->managed.version = {dlpack::majorVersion, dlpack::minorVersion};
    made->array = std::move(array);
    return &made.release()->managed;
  }
};

/// What makes arrays of the library of `array` of those of others, or None.
nb::object importerOf(nb::handle array) {
  if (nb::hasattr(array, "__array_namespace__"))
    return nb::getattr(array.attr("__array_namespace__")(), "from_dlpack", nb::none());
  nb::object module = nb::getattr(array.type(), "__module__", nb::str(""));
  nb::object package = nb::str(module).attr("partition")(".")[0];
  nb::object found = nb::module_::import_("sys").attr("modules").attr("get")(package);
  return nb::getattr(found, "from_dlpack", nb::none());
}

} // namespace

void tilewright::runtime::importArrays() {
  const std::pair<PyObject **, const char *> all[] = {{&names.exchange, "__dlpack_c_exchange_api__"},
                                                      {&names.capsule, "__dlpack__"},
                                                      {&names.device, "__dlpack_device__"},
                                                      {&names.interface, "__array_interface__"},
                                                      {&names.hardmask, "hardmask"},
                                                      {&names.requiresGrad, "requires_grad"},
                                                      {&names.isNegated, "is_neg"},
                                                      {&names.isConjugated, "is_conj"}};
  for (auto [slot, text] : all)
    if (!(*slot = PyUnicode_InternFromString(text)))
      throw nb::python_error();
}

dlpack::Type tilewright::runtime::codeOf(nb::handle type) {
  auto *descriptor = reinterpret_cast<PyArray_Descr *>(type.ptr());
  for (const auto &[number, code] : own)
    if (PyArray_EquivTypenums(number, descriptor->type_num))
      return code;
  std::string name = nb::str(type.attr("name")).c_str();
  for (const auto &[itsName, code] : added)
    if (name == itsName)
      return code;
  return {0, 0};
}

Arrays::~Arrays() {
  nb::error_scope kept; // Tensors are dropped by their libraries' code.
  views.clear();
}

PyObject *Arrays::read(PyObject *value, const char *name, bool written, const Elements &expected) {
  if (PyArray_CheckExact(value) || value == Py_None)
    return value;
  if (PyArray_Check(value))
    return PyObject_HasAttr(value, names.hardmask)
               ? refuse(name, "is a masked array", "an array, all of whose elements count",
                        "Pass x.filled(0), or x.data if masked elements are to count")
               : value;
  PyObject *view = nullptr;
  const dlpack::Exchange *functions = exchangeOf(Py_TYPE(value));
  bool decides = functions || PyObject_HasAttr(value, names.capsule);
  if (decides) {
    if (isTrue(value, names.isNegated, /*called=*/true))
      return refuse(name, "its elements are negated when they are read", "elements as they lie in memory",
                    "Pass x.resolve_neg()");
    view = functions ? viewByExchange(value, *functions, name, written, expected) : nullptr;
    if (!view && !PyErr_Occurred())
      view = viewByMethods(value, name, expected, views);
  } else if (!PyArray_IsAnyScalar(value) && PyObject_HasAttr(value, names.interface)) {
    view = PyArray_FromInterface(value);
    if (!view)
      return refuseMemory(value, name);
  } else {
    return value;
  }
  if (!view)
    return nullptr;
  if (views.empty())
    views.reserve(usualOperands);
  views.push_back(nb::steal(view));
  if (decides && !kind)
    kind = value, exchange = functions;
  return view;
}

PyObject *Arrays::empty(const int64_t *shape, size_t dimensions, nb::handle type) const {
  static_assert(std::is_same_v<npy_intp, int64_t>);
  auto *extents = const_cast<int64_t *>(shape); // Nothing writes to it.
  int rank = static_cast<int>(dimensions);
  auto *descriptor = reinterpret_cast<PyArray_Descr *>(type.ptr());
  Py_INCREF(descriptor); // Both functions take a reference.
  if (!kind || exchange) // C functions take what there is.
    return PyArray_Empty(rank, extents, descriptor, /*is_f_order=*/0);
  // NumPy has no arguments for an alignment: the array is part of one that is a line longer.
  npy_intp bytes = PyDataType_ELSIZE(descriptor);
  bool vast = false;
  for (int axis = 0; axis < rank; ++axis)
    vast |= __builtin_mul_overflow(bytes, extents[axis], &bytes);
  if (vast || __builtin_add_overflow(bytes, static_cast<npy_intp>(lineBytes), &bytes)) {
    Py_DECREF(descriptor);
    return PyErr_NoMemory();
  }
  PyObject *memory = PyArray_SimpleNew(1, &bytes, NPY_UINT8);
  if (!memory) {
    Py_DECREF(descriptor);
    return nullptr;
  }
  auto start = reinterpret_cast<uintptr_t>(PyArray_DATA(asArray(memory)));
  char *data = PyArray_BYTES(asArray(memory)) + (-start % lineBytes);
  PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descriptor, rank, extents, /*strides=*/nullptr, data,
                                         NPY_ARRAY_WRITEABLE, /*obj=*/nullptr);
  if (!array) {
    Py_DECREF(memory);
    return nullptr;
  }
  if (PyArray_SetBaseObject(asArray(array), memory) < 0) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}

/// The library of `kind` has refused an array of `type`.
static PyObject *refuseResult(PyObject *kind, nb::handle type) {
  return refuseFor("out", "an array of " + std::string(nb::str(type).c_str()) + " cannot become a " + typeName(kind),
                   "a type that the library of the operands has");
}

PyObject *Arrays::give(PyObject *array, dlpack::Type code) const {
  nb::object result = nb::steal(array);
  if (!kind || !array)
    return result.release().ptr();
  if (exchange) {
    auto *managed = Shared<dlpack::Versioned>::make(result, code);
    void *made = nullptr;
    if (exchange->toObject(managed, &made) == 0)
      return static_cast<PyObject *>(made);
    managed->deleter(managed);
    return refuseResult(kind, reinterpret_cast<PyObject *>(PyArray_DESCR(asArray(array))));
  }
  try {
    nb::object take = importerOf(kind);
    return (take.is_none() ? result : take(nb::cast(Exported(result, code)))).release().ptr();
  } catch (nb::python_error &error) {
    error.restore();
    return refuseResult(kind, reinterpret_cast<PyObject *>(PyArray_DESCR(asArray(array))));
  }
}

nb::object Exported::capsule(bool versioned) const {
  return versioned ? capsuleOf(Shared<dlpack::Versioned>::make(array, code), versionedName)
                   : capsuleOf(Shared<dlpack::Unversioned>::make(array, code), unversionedName);
}
