// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "CallParts.h"
#include "Operands.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

Code::Code(nb::object given) : owner(std::move(given)), name(nb::cast<std::string>(owner.attr("entry"))) {}

void *Code::address(const std::string &function) const {
  return reinterpret_cast<void *>(nb::cast<uintptr_t>(owner.attr("address_of")(function)));
}

void tilewright::runtime::raiseTables(const std::string &entry) {
  nb::dict details;
  details["where"] = "kernel entry " + entry;
  details["expected"] =
      "starts of sequences that never fall, from 0 to the number of rows; lengths from 0 to the number of "
      "keys; numbers of pages from 0 to how many there are - 1";
  raiseError("OperandError", "tables name rows, keys or pages that there are not", details);
}

void tilewright::runtime::raiseStatus(Status status, const std::string &entry) {
  if (status == Status::outOfMemory) {
    PyErr_SetString(PyExc_MemoryError, "no memory for the kernel's packed panels");
    return;
  }
  nb::dict details;
  if (status == Status::wrongIndex) {
    details["operand"] = "index";
    details["expected"] = "indices of rows of the table a, from 0 to its number of rows - 1";
    raiseError("OperandError", "an index is out of range", details);
    return;
  }
  if (status == Status::unsupported) {
    details["where"] = "kernel entry " + entry;
    details["expected"] = "a processor with the features of one of its targets, and a cap that allows them";
    details["remedy"] = "Build the library for a target of fewer features too, such as x86-64 or armv8-a";
    raiseError("NotRunnableError", "no code of the kernel fits this processor", details);
    return;
  }
  std::string what = status == Status::wrongExtents
                         ? "the code was compiled for other extents than the kernel was made with"
                         : "the kernel returned status " + std::to_string(static_cast<int32_t>(status));
  details["where"] = "kernel entry " + entry;
  details["expected"] = "status 0";
  raiseError("TilewrightError", what, details);
}

PackedB::PackedB(nb::object given)
    : how(std::move(given)), addressName(nb::steal(PyUnicode_InternFromString("address"))) {
  if (!how.is_none())
    type = how.attr("type");
}

void *PackedB::read(PyObject *value) const {
  if (Py_TYPE(value) != reinterpret_cast<PyTypeObject *>(type.ptr())) {
    if (refuse(value))
      PyErr_SetString(PyExc_TypeError, "B is not packed");
    return nullptr;
  }
  nb::object address = nb::steal(PyObject_GetAttr(value, addressName.ptr()));
  return address ? PyLong_AsVoidPtr(address.ptr()) : nullptr;
}

bool PackedB::refuse(PyObject *value) const {
  try {
    how.attr("refuse")(nb::handle(value));
  } catch (nb::python_error &error) {
    error.restore();
    return false;
  }
  return true;
}
