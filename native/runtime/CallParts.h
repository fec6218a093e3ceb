// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the calls of compiled kernels have in common: the code, what an entry returns, and a B that comes packed.

#ifndef TILEWRIGHT_RUNTIME_CALLPARTS_H
#define TILEWRIGHT_RUNTIME_CALLPARTS_H

#include <cstdint>
#include <nanobind/nanobind.h>
#include <string>

namespace tilewright::runtime {

/// What an entry returns.
enum class Status : int32_t {
  ok = 0,
  wrongExtents = 1,
  outOfMemory = 2,
  wrongPacking = 3,
  wrongOperand = 4,
  wrongIndex = 5,
  unsupported = 6
};

/// Compiled code that Python holds: an object with `entry`, the name of its function, and `address_of(name)`.
class Code {
public:
  /// Throws nanobind::python_error.
  explicit Code(nanobind::object owner);

  /// Where a function starts, which lives as long as this; null where there is none of the name. Throws
  /// nanobind::python_error.
  void *address(const std::string &name) const;
  const std::string &entryName() const { return name; }

private:
  nanobind::object owner;
  std::string name;
};

/// Raises the Python error for tables of a function that do not fit.
void raiseTables(const std::string &entry);

/// Raises the Python error for a status other than ok.
void raiseStatus(Status status, const std::string &entry);

/// Lets other Python threads run while `enter` does, when it does so many operations that this pays.
template <typename Enter>
Status enterReleased(double operations, Enter enter) {
  // From some 10 µs of one core on. Below, letting them would cost more than the product.
  constexpr double releaseOperations = 1 << 20;
  PyThreadState *released = operations >= releaseOperations ? PyEval_SaveThread() : nullptr;
  int32_t status = enter();
  if (released)
    PyEval_RestoreThread(released);
  return static_cast<Status>(status);
}

/// How B comes packed, or that it does not.
class PackedB {
public:
  /// `how` is None, or has a `type`, which is what is taken for B, objects with an `address`, and a `refuse`, which
  /// raises the error for another.
  explicit PackedB(nanobind::object how);

  bool isPacked() const { return static_cast<bool>(type); }
  /// The address of the bytes in `value`, or null with a Python error.
  void *read(PyObject *value) const;
  /// Lets Python raise the error for `value`; true when it raises none.
  bool refuse(PyObject *value) const;

private:
  nanobind::object how, type;
  nanobind::object addressName; // The interned "address".
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CALLPARTS_H
