// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright.standalone._native: calls compiled code on arrays, without MLIR and LLVM.

#include "Arrays.h"
#include "EachCall.h"
#include "FunctionCall.h"
#include "MatmulCall.h"
#include "PackCall.h"
#include "SharedLibrary.h"

#include <algorithm>
#include <limits>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace tilewright::runtime;

static int64_t extentOf(std::optional<int64_t> value) {
  if (value && *value < 0)
    throw nb::value_error("an extent is negative; expected an int from 0, or None");
  return value.value_or(openExtent);
}

/// Name, shape, NumPy type, DLPack's number for the kind of type and its bits, and how many dimensions are of a batch.
using GivenOperand = std::tuple<std::string, std::vector<int64_t>, nb::object, uint8_t, uint8_t, size_t>;

/// Least, most, and what divides it.
using GivenLimits = std::tuple<int64_t, int64_t, int64_t>;

/// What a dynamic extent is taken for where it is asked whether other threads may run meanwhile.
constexpr double manyOperations = 1e6;

static void makeCall(MatmulCall *self, nb::object code, std::optional<int64_t> m, std::optional<int64_t> n,
                     std::optional<int64_t> k, nb::handle a, nb::handle b, nb::handle c, bool aTransposed,
                     bool bTransposed, bool accumulate, nb::object packed, const std::string &tensorEntry,
                     const std::vector<GivenOperand> &operands, const std::vector<GivenLimits> &limits) {
  Extents extents{extentOf(m), extentOf(n), extentOf(k)};
  std::vector<Limits> allLimits(std::max<size_t>(limits.size(), extentCount),
                                {0, std::numeric_limits<int64_t>::max(), 1});
  for (size_t i = 0; i < limits.size(); ++i) {
    auto [least, most, multiple] = limits[i];
    if (least < 0 || most < least || multiple < 1)
      throw nb::value_error("limits of an extent are no (least, most, multiple)");
    allLimits[i] = {least, most, multiple};
  }
  AllLimits ofMatrices{allLimits[extentM], allLimits[extentN], allLimits[extentK]};
  bool open = std::find(extents.begin(), extents.end(), openExtent) != extents.end();
  std::unique_ptr<TensorCall> tensors;
  if (!operands.empty()) {
    std::vector<TensorOperand> all;
    for (const auto &[name, shape, type, kind, bits, batch] : operands) {
      if (batch > shape.size())
        throw nb::value_error("an operand has fewer dimensions than its batch");
      all.push_back(makeTensorOperand(name, shape, all.size() + 1 == operands.size(), type, {kind, bits}, batch));
    }
    double operations = 2.0;
    for (int64_t extent : extents)
      operations *= extent == openExtent ? manyOperations : static_cast<double>(extent);
    for (size_t axis = 0; axis < all.back().batch; ++axis) {
      int64_t extent = all.back().shape[axis];
      open |= extent < 0;
      operations *= extent < 0 ? manyOperations : static_cast<double>(extent);
    }
    tensors = std::make_unique<TensorCall>(Code(code), tensorEntry, std::move(all), accumulate, operations,
                                           open ? std::move(allLimits) : std::vector<Limits>());
  }
  new (self) MatmulCall(Code(code), extents, a, b, c, {aTransposed, bTransposed}, accumulate, std::move(packed),
                        ofMatrices, std::move(tensors));
}

/// Name, shape, NumPy type, DLPack's number for the kind of type and its bits, whether it is written, whether it is
/// compact, how it comes packed, or None, and how many dimensions are of a batch.
using GivenTensor =
    std::tuple<std::string, std::vector<int64_t>, nb::object, uint8_t, uint8_t, bool, bool, nb::object, size_t>;

static void makeFunctionCall(FunctionCall *self, nb::object code, const std::string &entry,
                             const std::vector<GivenTensor> &given, size_t arguments, double operations,
                             const std::vector<GivenLimits> &limits) {
  std::vector<FunctionTensor> tensors;
  for (const auto &[name, shape, type, kind, bits, written, compact, packed, batch] : given)
    tensors.push_back({makeTensorOperand(name, shape, written, type, {kind, bits}, batch), compact, PackedB(packed)});
  std::vector<Limits> all;
  for (auto [least, most, multiple] : limits)
    all.push_back({least, most, multiple});
  new (self) FunctionCall(Code(code), entry, std::move(tensors), arguments, operations, std::move(all));
}

/// The function of a name. Throws nanobind::value_error where there is none.
template <typename Function>
static Function *functionOf(const SharedLibrary &library, const std::string &name) {
  auto *function = reinterpret_cast<Function *>(library.address(name));
  if (!function)
    throw nb::value_error(("the library has no function \"" + name + "\"").c_str());
  return function;
}

/// tp_call: the dispatch of a nanobind method would take as long as a small product.
template <typename Callable>
static PyObject *callNative(PyObject *self, PyObject *arguments, PyObject *keywords) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "this kernel is not initialized: a subclass has to call super().__init__(...)");
    return nullptr;
  }
  try {
    return nb::inst_ptr<Callable>(self)->call(arguments, keywords);
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <typename Callable>
static PyType_Slot callSlots[] = {{Py_tp_call, reinterpret_cast<void *>(callNative<Callable>)}, {0, nullptr}};

NB_MODULE(_native, m) {
  m.doc() = "Calls compiled code on arrays. Code is an object with `entry`, the name of its function, and\n"
            "`address_of(name)`, which says where the functions of that name start, or 0.";
  // A kernel that a daemon thread or another package still holds at exit is not a leak of these bindings.
  nb::set_leak_warnings(false);
  importNumpy();
  importArrays();
  useErrorsBeside(m);

  nb::class_<SharedLibrary>(m, "SharedLibrary", "A shared library of kernels in this process, until this object goes.")
      .def(nb::init<const std::string &>(), nb::arg("file"),
           "Loads the file.\n\n"
           "Raises:\n"
           "    RuntimeError: The dynamic linker cannot; the message is its own.")
      .def_prop_ro("own_name", &SharedLibrary::ownName, "What it calls itself; empty where it does not.")
      .def(
          "address_of",
          [](const SharedLibrary &self, const std::string &name) {
            return reinterpret_cast<uintptr_t>(self.address(name));
          },
          nb::arg("name"), "Where a function or data of this name starts; 0 where there is none.")
      .def(
          "text",
          [](const SharedLibrary &self, const std::string &name) {
            return static_cast<const char *>(self.address(name));
          },
          nb::arg("name"), "The text at this name, which ends with a zero; None where there is none.")
      .def(
          "call_text",
          [](const SharedLibrary &self, const std::string &name) { return functionOf<const char *()>(self, name)(); },
          nb::arg("name"), "What a function of this name, which takes nothing, returns: a text, or None.")
      .def(
          "call_with_text",
          [](const SharedLibrary &self, const std::string &name, std::optional<std::string> text) {
            return functionOf<int32_t(const char *)>(self, name)(text ? text->c_str() : nullptr);
          },
          nb::arg("name"), nb::arg("text").none(),
          "The status that a function of this name, which takes a text, or None, returns.")
      .def(
          "call_with_extents",
          [](const SharedLibrary &self, const std::string &name, int64_t first, int64_t second) {
            return functionOf<int64_t(int64_t, int64_t)>(self, name)(first, second);
          },
          nb::arg("name"), nb::arg("first"), nb::arg("second"),
          "The number that a function of this name, which takes two extents, returns.");

  nb::class_<MatmulCall>(m, "MatmulCall", nb::type_slots(callSlots<MatmulCall>),
                         "A matmul that can be called: self(a, b, *, out=None), from any number of threads at once.")
      .def("__init__", &makeCall, nb::arg("code"), nb::arg("m").none(), nb::arg("n").none(), nb::arg("k").none(),
           nb::kw_only(), nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("a_transposed") = false,
           nb::arg("b_transposed") = false, nb::arg("accumulate") = false, nb::arg("packed") = nb::none(),
           nb::arg("tensor_entry") = "", nb::arg("operands") = std::vector<GivenOperand>(),
           nb::arg("limits") = std::vector<GivenLimits>(),
           "Args:\n"
           "    code: The linked C entry.\n"
           "    m: Rows of A and of the result; None takes whatever the operands have, here and below.\n"
           "    n: Columns of B and of the result.\n"
           "    k: Columns of A, rows of B.\n"
           "    a: NumPy type (or its name) of A's elements.\n"
           "    b: That of B's.\n"
           "    c: That of the result's.\n"
           "    a_transposed: Whether A is stored transposed, as an array of k rows.\n"
           "    b_transposed: Whether B is, as an array of n rows.\n"
           "    accumulate: Whether the code adds to the result's former elements, so that calls have to pass `out`.\n"
           "    packed: How B comes packed, or None: its `type` is the type of the objects that are taken, which have "
           "an\n"
           "        `address`, and its `refuse` raises the error for one that is not.\n"
           "    tensor_entry: The linked function that takes the operands below, as an array of DLTensors.\n"
           "    operands: All operands of a kernel that has others than A and B, in the order of the call, the result\n"
           "        last: name, shape, NumPy type, DLPack's code and bits of the type, and how many dimensions are of "
           "a batch.\n"
           "        An extent that is None above is -2, -3 or -4 in a shape, for m, n and k.\n"
           "    limits: Least, most and what divides it, of m, n, k and each axis of the batch, for those that are "
           "open: in shapes\n"
           "        of `operands` -2 stands for m, -3 for n, -4 for k, -5 for the first axis of the batch, and so on.");

  nb::class_<FunctionCall>(m, "FunctionCall", nb::type_slots(callSlots<FunctionCall>),
                           "A function of a module that can be called: self(*arguments, out=None), from any number of "
                           "threads at once.")
      .def("__init__", &makeFunctionCall, nb::arg("code"), nb::arg("entry"), nb::arg("tensors"), nb::arg("arguments"),
           nb::arg("operations"), nb::arg("limits"),
           "Args:\n"
           "    code: The linked code.\n"
           "    entry: The function in it that takes an array of DLTensors.\n"
           "    tensors: The arguments, and after them the results: name, shape, NumPy type, DLPack's code and bits of "
           "the\n"
           "        type, whether it is written, whether its elements have to follow one another without gaps, and "
           "None;\n"
           "        or, for a B that comes packed, how, as for MatmulCall; and how many dimensions are of a batch.\n"
           "    arguments: How many of them are arguments.\n"
           "    operations: How many a call does.\n"
           "    limits: Of m, n and k, whose extents -2, -3 and -4 stand for in shapes: least, most, and what divides "
           "them;\n"
           "        empty where all are known.");

  nb::class_<PackCall>(m, "PackCall", "Packs B ahead of time, from any number of threads at once.")
      .def(
          "__init__",
          [](PackCall *self, nb::object code, const std::string &entry, int64_t n, int64_t k, nb::handle b,
             bool transposed) { new (self) PackCall(Code(code), entry, n, k, b, transposed); },
          nb::arg("code"), nb::arg("entry"), nb::arg("n"), nb::arg("k"), nb::kw_only(), nb::arg("b"),
          nb::arg("b_transposed") = false,
          "Args:\n"
          "    code: The linked code.\n"
          "    entry: The function in it that packs.\n"
          "    n: Columns of B.\n"
          "    k: Rows of B.\n"
          "    b: NumPy type (or its name) of B's elements.\n"
          "    b_transposed: Whether B is stored transposed, as an array of n rows.")
      .def(
          "pack",
          [](const PackCall &self, nb::handle b, nb::handle packed) {
            if (!self.call(b.ptr(), packed.ptr()))
              throw nb::python_error();
          },
          nb::arg("b"), nb::arg("packed"),
          "Packs the array `b` into the buffer `packed`, which is as large as it takes.");

  nb::class_<Exported>(m, "Exported", "An array of ours, as `from_dlpack` of other libraries takes it.")
      .def(
          "__dlpack__",
          [](const Exported &self, const nb::object &, const nb::object &version, const nb::object &,
             const nb::object &) { return self.capsule(!version.is_none()); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Exported &) { return nb::make_tuple(dlpack::cpu, 0); });
  m.def("each", &callEach, nb::arg("a"), nb::arg("b"), nb::arg("out").none(), nb::arg("choose"), nb::arg("other"),
        nb::sig("def each(a: object, b: object, out: object, choose: object, other: object) -> list[typing.Any]"),
        "The products of `a[i]` and `b[i]`, into `out[i]` where `out` is not None. `choose(a, b)` gives the kernel of\n"
        "matrices of these shapes and types, once for each, or None; `other(a, b, out=...)` computes everything else.");
  m.def(
      "array_view",
      [](nb::handle value, const std::string &name, bool written) {
        Arrays arrays;
        PyObject *view = arrays.read(value.ptr(), name.c_str(), written, {});
        if (!view)
          throw nb::python_error();
        return nb::borrow(view);
      },
      nb::arg("value").none(), nb::arg("name"), nb::kw_only(), nb::arg("written") = false,
      nb::sig("def array_view(value: object, name: str, *, written: bool = False) -> typing.Any"),
      "A NumPy array over the memory of an array of another library, which is kept meanwhile; `value` itself where it "
      "is "
      "NumPy's or\nno array. Raises OperandError for operand `name` where its memory cannot be used.");
  m.def(
      "array_like",
      [](nb::handle array, nb::handle kind) {
        Arrays arrays;
        if (!arrays.read(kind.ptr(), "out", false, {}))
          throw nb::python_error();
        PyObject *given = arrays.give(nb::borrow(array).release().ptr(), codeOf(array.attr("dtype")));
        if (!given)
          throw nb::python_error();
        return nb::steal(given);
      },
      nb::arg("array"), nb::arg("kind"), nb::sig("def array_like(array: object, kind: object) -> typing.Any"),
      "A NumPy array as one of the library of the array `kind`, over the same memory. Raises OperandError where that "
      "refuses it.");
}
