// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine code in this process, linked from an ELF object. Nothing here knows of Python.

#ifndef TILEWRIGHT_RUNTIME_OBJECTCODE_H
#define TILEWRIGHT_RUNTIME_OBJECTCODE_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::runtime {

/// The bytes are no object for this machine, or it does not define the entry.
class InvalidObject : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The object is sound, but cannot be linked here: an undefined symbol, no memory.
class LinkFailure : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A linked object. Its pages are written first and made executable afterwards, and never both at once; they are
/// unmapped with the last reference.
class ObjectCode {
public:
  /// Links `object`, in which `entry` is the function to be called, and `further` are others that can be. Symbols that
  /// it does not define are, in this order, those `given`, MLIR's allocation functions (Scratch.h), OpenMP's
  /// (OpenMP.h), and what the process exports (the C library: memcpy, fma). Throws InvalidObject or LinkFailure.
  static std::shared_ptr<const ObjectCode> link(std::string_view object, const std::string &entry,
                                                const std::vector<std::string> &further = {},
                                                const std::map<std::string, uintptr_t> &given = {});

  ~ObjectCode();
  ObjectCode(const ObjectCode &) = delete;
  ObjectCode &operator=(const ObjectCode &) = delete;

  const void *entry() const { return entryAddress; }
  /// Where one of the functions is; null for a name that was not given.
  const void *address(const std::string &name) const;
  const std::string &entryName() const { return name; }

private:
  struct Memory;
  ObjectCode(std::string entry, std::unique_ptr<Memory> linked);

  std::string name;
  std::unique_ptr<Memory> memory;
  const void *entryAddress;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OBJECTCODE_H
