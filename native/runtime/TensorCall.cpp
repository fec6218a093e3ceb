// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TensorCall.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

static std::string usageOf(const std::vector<TensorOperand> &operands) {
  std::string text = "(";
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    text += operands[i].name + ", ";
  return text + "*, out=None)";
}

TensorCall::TensorCall(Code linked, const std::string &name, std::vector<TensorOperand> given, bool accumulate,
                       double operations, std::vector<Limits> limitsOfAll)
    : code(std::move(linked)), entry(reinterpret_cast<TensorEntry *>(code.address(name))), operands(std::move(given)),
      accumulate(accumulate), operations(operations), limits(std::move(limitsOfAll)), usage(usageOf(operands)) {
  if (!entry)
    throw nb::value_error(("the code was linked without the function \"" + name + "\"").c_str());
  if (operands.empty())
    throw nb::value_error("no operands; expected at least the result");
  for (const TensorOperand &operand : operands)
    for (int64_t size : operand.shape)
      if (size < 0 && openAxis - size >= static_cast<int64_t>(limits.size()))
        throw nb::value_error(("an extent of \"" + operand.name + "\" is open and has no limits").c_str());
}

/// Any legal way to pass the operands; `values` has them in order, the result last, null where it is not given.
bool TensorCall::parse(PyObject *positional, PyObject *keywords, std::vector<PyObject *> &values) const {
  Py_ssize_t count = PyTuple_GET_SIZE(positional), inputs = static_cast<Py_ssize_t>(operands.size()) - 1;
  if (count > inputs) {
    PyErr_Format(PyExc_TypeError, "this kernel takes %zd positional operands %s; pass the result as out=...", inputs,
                 usage.c_str());
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    values[i] = PyTuple_GET_ITEM(positional, i);
  Py_ssize_t next = 0;
  PyObject *name, *value;
  while (keywords && PyDict_Next(keywords, &next, &name, &value)) {
    size_t found = 0;
    while (found < operands.size() && PyUnicode_CompareWithASCIIString(name, operands[found].name.c_str()) != 0)
      ++found;
    if (found == operands.size() || values[found]) {
      PyErr_Format(PyExc_TypeError,
                   found == operands.size() ? "this kernel takes %s, and no keyword %R"
                                            : "this kernel %s got several values for operand %R",
                   usage.c_str(), name);
      return false;
    }
    values[found] = value;
  }
  for (Py_ssize_t i = 0; i < inputs; ++i)
    if (!values[i]) {
      PyErr_Format(PyExc_TypeError, "this kernel takes %zd operands %s, and %s is missing", inputs, usage.c_str(),
                   operands[i].name.c_str());
      return false;
    }
  return true;
}

PyObject *TensorCall::call(PyObject *positional, PyObject *keywords, const PackedB &packed) const {
  std::vector<PyObject *> values(operands.size());
  if (!parse(positional, keywords, values))
    return nullptr;
  std::vector<nb::object> numbers;
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    if (operands[i].shape.empty()) {
      numbers.push_back(nb::steal(numberArray(values[i], operands[i])));
      if (!(values[i] = numbers.back().ptr()))
        return nullptr;
    }
  Arrays arrays;
  PyObject *out = values.back() == Py_None ? nullptr : values.back();
  values.back() = out;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && (i != 1 || !packed.isPacked()) && !(values[i] = readArray(arrays, values[i], operands[i])))
      return nullptr;
  if (limits.empty())
    return run(arrays, values, out, operands, packed);
  std::vector<TensorOperand> closed = operands;
  std::vector<int64_t> extents(limits.size(), openExtent);
  for (size_t i = 0; i < closed.size(); ++i)
    if ((i != 1 || !packed.isPacked()) && !closeShape(values[i], closed[i], extents, limits))
      return nullptr;
  return run(arrays, values, out, closed, packed);
}

/// `values` are arrays of NumPy; `out` is the caller's, over the memory of the last one, or null.
PyObject *TensorCall::run(const Arrays &arrays, const std::vector<PyObject *> &values, PyObject *out,
                          const std::vector<TensorOperand> &operands, const PackedB &packed) const {
  std::vector<Tensor> tensors(operands.size());
  std::vector<const dlpack::Tensor *> headers;
  for (Tensor &tensor : tensors)
    headers.push_back(&tensor.header);
  size_t last = operands.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    if (i != 1 || !packed.isPacked()) {
      if (!readTensor(values[i], operands[i], tensors[i]))
        return nullptr;
      continue;
    }
    // It overlaps nothing that is written: nobody else has its memory to write to.
    tensors[i].header.data = packed.read(values[i]);
    if (!tensors[i].header.data)
      return nullptr;
  }
  nb::object result;
  if (!out) {
    if (accumulate) {
      raiseMissing(operands[last]);
      return nullptr;
    }
    result = nb::steal(newTensor(arrays, operands[last], tensors[last]));
    if (!result)
      return nullptr;
  } else {
    if (!readTensor(values[last], operands[last], tensors[last]))
      return nullptr;
    for (size_t i = 0; i < last; ++i)
      if (!checkDisjoint(values[last], tensors[last], values[i], tensors[i], operands[i].name.c_str()))
        return nullptr;
    result = nb::borrow(out);
  }
  Status status = enterReleased(operations, [&] { return entry(headers.data()); });
  if (status == Status::ok)
    return out ? result.release().ptr() : arrays.give(result.release().ptr(), operands[last].code);
  if (status != Status::wrongPacking || packed.refuse(values[1]))
    raiseStatus(status, code.entryName());
  return nullptr;
}
