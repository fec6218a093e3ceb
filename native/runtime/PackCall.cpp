// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "PackCall.h"

namespace nb = nanobind;
using namespace tilewright::runtime;

PackCall::PackCall(Code linked, const std::string &name, int64_t n, int64_t k, nb::handle type, bool transposed)
    : code(std::move(linked)), entry(reinterpret_cast<PackEntry *>(code.address(name))), extents{0, n, k},
      b(makeStored("b", extentK, extentN, transposed, type)) {
  if (!entry)
    throw nb::value_error(("the code was linked without the function \"" + name + "\"").c_str());
}

bool PackCall::call(PyObject *value, PyObject *packed) const {
  Extents actual = extents;
  Matrix matrix;
  Arrays arrays;
  value = readArray(arrays, value, b);
  if (!value || !readMatrix(value, b, actual, matrix))
    return false;
  Py_buffer room;
  if (PyObject_GetBuffer(packed, &room, PyBUF_CONTIG) < 0)
    return false;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = entry(actual[extentK], actual[extentN], matrix.data, matrix.leading, room.buf);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&room);
  if (status == 0)
    return true;
  nb::dict details;
  details["where"] = "kernel entry " + code.entryName();
  details["expected"] = "status 0";
  raiseError("TilewrightError", "packing returned status " + std::to_string(status), details);
  return false;
}
