// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of this process by name, for ops: those that Python compiled, and those of libraries that were loaded.

#ifndef TILEWRIGHT_TORCH_REGISTRY_H
#define TILEWRIGHT_TORCH_REGISTRY_H

#include "Kernel.h"

#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tilewright::torch_ops {

/// Any number of threads may use it at once. Kernels are never taken out: an op may be using them.
class Registry {
public:
  /// Compiles a kernel for a problem and adds it under the problem's name, or under that of a more general one. Returns
  /// 0, or writes what went wrong into `error`.
  using Resolver = int32_t (*)(const char *problem, char *error, size_t room);

  /// The one of this process.
  static Registry &instance();

  /// Adds a kernel; another one of the name is replaced for later calls. Throws std::runtime_error.
  void add(std::unique_ptr<Kernel> kernel);
  /// Adds the kernels of a library that tilewright made. Throws std::runtime_error where it is none, or one that has no
  /// code for this processor.
  void load(const std::string &path);
  /// The kernel of a name, or that which a library has for it; null where there is none.
  const Kernel *find(const std::string &name) const;
  /// The kernel of a name. Throws std::runtime_error where there is none.
  const Kernel &require(const std::string &name);
  /// Adds the kernels of the libraries that TILEWRIGHT_TORCH_LIBRARIES names, separated by colons, when it is first
  /// called; true then. Throws std::runtime_error where one cannot be loaded.
  bool loadNamed();

  /// Null: problems without a kernel are refused.
  void setResolver(Resolver resolver);
  /// Has Python compile a kernel. Throws std::runtime_error where it cannot, or nobody can.
  void resolve(const std::string &problem);

private:
  mutable std::shared_mutex mutex;
  std::unordered_map<std::string, const Kernel *> named;
  std::vector<std::unique_ptr<Kernel>> kernels; // Those that were replaced too.
  Resolver resolver = nullptr;
  std::once_flag fromVariable;
};

/// The name in a library of the kernel that is called `name` in a process, or that serves a problem of this text, for
/// any number of threads: a C identifier.
std::string libraryName(std::string_view name);

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_REGISTRY_H
