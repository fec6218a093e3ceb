// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared library of kernels in this process. Nothing here knows of Python.

#ifndef TILEWRIGHT_RUNTIME_SHAREDLIBRARY_H
#define TILEWRIGHT_RUNTIME_SHAREDLIBRARY_H

#include <string>

namespace tilewright::runtime {

/// A library that stays loaded while this object lives.
class SharedLibrary {
public:
  /// Loads the file. Throws std::runtime_error with what the dynamic linker says.
  explicit SharedLibrary(const std::string &file);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary &) = delete;
  SharedLibrary &operator=(const SharedLibrary &) = delete;

  /// Where a function or data of this name starts; null where there is none.
  void *address(const std::string &name) const;
  /// What the library calls itself (DT_SONAME); empty where it does not.
  std::string ownName() const;

private:
  void *handle;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_SHAREDLIBRARY_H
