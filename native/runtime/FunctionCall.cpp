// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FunctionCall.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

static std::string usageOf(const std::vector<FunctionTensor> &tensors, size_t arguments) {
  std::string text = "(";
  for (size_t i = 0; i < arguments; ++i)
    text += (i ? ", " : "") + tensors[i].operand.name;
  return text + (tensors.size() > arguments ? (arguments ? ", *, out=None)" : "*, out=None)") : ")");
}

FunctionCall::FunctionCall(Code linked, const std::string &name, std::vector<FunctionTensor> given, size_t arguments,
                           double operations, std::vector<Limits> limitsOfAll)
    : code(std::move(linked)), entry(reinterpret_cast<TensorEntry *>(code.address(name))), tensors(std::move(given)),
      arguments(arguments), operations(operations), limits(std::move(limitsOfAll)), usage(usageOf(tensors, arguments)) {
  if (!entry)
    throw nb::value_error(("the code was linked without the function \"" + name + "\"").c_str());
  if (arguments > tensors.size())
    throw nb::value_error("more arguments than tensors");
  for (const FunctionTensor &tensor : tensors)
    for (int64_t size : tensor.operand.shape)
      if (size < 0 && openAxis - size >= static_cast<int64_t>(limits.size()))
        throw nb::value_error(("an extent of \"" + tensor.operand.name + "\" is open and has no limits").c_str());
}

/// Any legal way to pass the arguments; `values` has room for them, and for the results behind them.
bool FunctionCall::parse(PyObject *positional, PyObject *keywords, std::vector<PyObject *> &values,
                         PyObject *&out) const {
  size_t count = static_cast<size_t>(PyTuple_GET_SIZE(positional));
  if (count > arguments) {
    PyErr_Format(PyExc_TypeError, "this function takes %zu positional arguments %s", arguments, usage.c_str());
    return false;
  }
  for (size_t i = 0; i < count; ++i)
    values[i] = PyTuple_GET_ITEM(positional, static_cast<Py_ssize_t>(i));
  Py_ssize_t next = 0;
  PyObject *name, *value;
  while (keywords && PyDict_Next(keywords, &next, &name, &value)) {
    PyObject **slot = nullptr;
    for (size_t i = 0; i < arguments && !slot; ++i)
      if (PyUnicode_CompareWithASCIIString(name, tensors[i].operand.name.c_str()) == 0)
        slot = &values[i];
    if (!slot && tensors.size() > arguments && PyUnicode_CompareWithASCIIString(name, "out") == 0)
      slot = &out;
    if (!slot || *slot) {
      PyErr_Format(PyExc_TypeError,
                   slot ? "this function %s got several values for %R" : "this function takes %s, and no keyword %R",
                   usage.c_str(), name);
      return false;
    }
    *slot = value;
  }
  for (size_t i = 0; i < arguments; ++i)
    if (!values[i]) {
      PyErr_Format(PyExc_TypeError, "this function takes %zu arguments %s, and %s is missing", arguments, usage.c_str(),
                   tensors[i].operand.name.c_str());
      return false;
    }
  return true;
}

/// Puts what was passed as `out`, one array or a tuple of several, behind the arguments.
bool FunctionCall::takeResults(PyObject *out, std::vector<PyObject *> &values) const {
  size_t results = tensors.size() - arguments;
  if (!out || out == Py_None)
    return true;
  if (results == 1) {
    values[arguments] = out;
    return true;
  }
  if (!PyTuple_Check(out) || static_cast<size_t>(PyTuple_GET_SIZE(out)) != results) {
    PyErr_Format(PyExc_TypeError, "out is no tuple of %zu arrays, one for each result", results);
    return false;
  }
  for (size_t i = 0; i < results; ++i)
    values[arguments + i] = PyTuple_GET_ITEM(out, static_cast<Py_ssize_t>(i));
  return true;
}

bool FunctionCall::read(PyObject *value, const FunctionTensor &tensor, Tensor &read) const {
  if (tensor.packed.isPacked()) {
    // It overlaps nothing that is written: nobody else has its memory to write to.
    read.begin = read.end = 0;
    read.header.data = tensor.packed.read(value);
    read.header.byteOffset = 0;
    return read.header.data != nullptr;
  }
  if (!readTensor(value, tensor.operand, read))
    return false;
  if (!tensor.compact)
    return true;
  int64_t step = 1;
  for (size_t axis = read.shape.size(); axis-- > 0;) {
    if (read.begin != read.end && read.shape[axis] > 1 && read.strides[axis] != step) {
      nb::dict details;
      details["operand"] = tensor.operand.name;
      details["expected"] = "elements that follow one another, as numpy.ascontiguousarray makes them";
      details["remedy"] = tensor.operand.written ? "Write into a C-contiguous array, and copy from it afterwards"
                                                 : "Copy with numpy.ascontiguousarray(" + tensor.operand.name + ")";
      raiseError("OperandError", "there are gaps between its elements", details);
      return false;
    }
    // An axis of one element may have any stride: the entry takes the one that it would have.
    read.strides[axis] = step;
    step *= read.shape[axis];
  }
  return true;
}

bool FunctionCall::checkOverlaps(const std::vector<PyObject *> &values, const std::vector<Tensor> &read) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t j = 0; tensors[i].operand.written && j < tensors.size(); ++j)
      if (i != j && values[i] && values[j] && (j < i || !tensors[j].operand.written) &&
          !checkDisjoint(values[i], read[i], values[j], read[j], tensors[j].operand.name.c_str()))
        return false;
  return true;
}

PyObject *FunctionCall::call(PyObject *positional, PyObject *keywords) const {
  std::vector<PyObject *> values(tensors.size());
  PyObject *out = nullptr;
  if (!parse(positional, keywords, values, out) || !takeResults(out, values))
    return nullptr;
  std::vector<PyObject *> given = values;
  Arrays arrays;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && !tensors[i].packed.isPacked() && !(values[i] = readArray(arrays, values[i], tensors[i].operand)))
      return nullptr;
  if (limits.empty())
    return run(arrays, given, values, tensors);
  std::vector<FunctionTensor> closed = tensors;
  std::vector<int64_t> extents(limits.size(), openExtent);
  for (size_t i = 0; i < closed.size(); ++i)
    if (!closeShape(values[i], closed[i].operand, extents, limits))
      return nullptr;
  return run(arrays, given, values, closed);
}

/// `values` are arrays of NumPy over the memory of those `given` by the caller.
PyObject *FunctionCall::run(const Arrays &arrays, const std::vector<PyObject *> &given,
                            const std::vector<PyObject *> &values, const std::vector<FunctionTensor> &tensors) const {
  std::vector<Tensor> read(tensors.size());
  std::vector<const dlpack::Tensor *> headers;
  std::vector<nb::object> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (values[i] && !this->read(values[i], tensors[i], read[i]))
      return nullptr;
    if (!values[i])
      results.push_back(nb::steal(newTensor(arrays, tensors[i].operand, read[i])));
    else if (i >= arguments)
      results.push_back(nb::borrow(given[i]));
    if (i >= arguments && !results.back())
      return nullptr;
    headers.push_back(&read[i].header);
  }
  if (!checkOverlaps(values, read))
    return nullptr;
  Status status = enterReleased(operations, [&] { return entry(headers.data()); });
  if (status != Status::ok) {
    for (size_t i = 0; status == Status::wrongPacking && i < arguments; ++i)
      if (tensors[i].packed.isPacked() && !tensors[i].packed.refuse(values[i]))
        return nullptr;
    if (status == Status::wrongIndex)
      raiseTables(code.entryName());
    else
      raiseStatus(status, code.entryName());
    return nullptr;
  }
  if (results.empty())
    Py_RETURN_NONE;
  for (size_t i = 0; i < results.size(); ++i)
    if (!values[arguments + i] &&
        !(results[i] = nb::steal(arrays.give(results[i].release().ptr(), tensors[arguments + i].operand.code)))
             .is_valid())
      return nullptr;
  if (results.size() == 1)
    return results[0].release().ptr();
  nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; all && i < results.size(); ++i)
    PyTuple_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i), results[i].release().ptr());
  return all.release().ptr();
}
