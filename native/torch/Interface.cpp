// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Python and C programs call besides ops: they add kernels.

#include "Registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

using namespace tilewright::torch_ops;

namespace {

/// Functions of linked code, by name and address, as Python passes them.
struct Code {
  const char *const *names;
  void *const *addresses;
  size_t count;
};

void *findAddress(void *code, const char *name) {
  const auto &all = *static_cast<const Code *>(code);
  for (size_t i = 0; i < all.count; ++i)
    if (std::strcmp(all.names[i], name) == 0)
      return all.addresses[i];
  return nullptr;
}

/// 0, or 1 with what went wrong in `error`.
template <typename Act>
int32_t guarded(char *error, size_t room, Act act) {
  try {
    act();
    return 0;
  } catch (const std::exception &problem) {
    size_t size = std::min(std::strlen(problem.what()), room ? room - 1 : 0);
    if (room) {
      std::memcpy(error, problem.what(), size);
      error[size] = '\0';
    }
    return 1;
  }
}

} // namespace

#define TILEWRIGHT_EXPORT extern "C" __attribute__((visibility("default")))

/// Adds a kernel under a name. `form` is what the compiler says of its calls, in JSON; `packed` the names of operands
/// that come packed, by commas; `entry` the name of its C function.
TILEWRIGHT_EXPORT int32_t tilewright_torch_add(const char *name, const char *form, const char *packed,
                                               const char *entry, const char *const *names, void *const *addresses,
                                               size_t count, char *error, size_t room) {
  return guarded(error, room, [&] {
    std::vector<std::string> operands;
    std::istringstream list(packed);
    for (std::string each; std::getline(list, each, ',');)
      operands.push_back(each);
    Code code{names, addresses, count};
    Registry::instance().add(std::make_unique<Kernel>(name, Json::parse(form), operands, entry, findAddress, &code));
  });
}

/// Adds the kernels of a library that tilewright made, by its path.
TILEWRIGHT_EXPORT int32_t tilewright_torch_load(const char *path, char *error, size_t room) {
  return guarded(error, room, [&] { Registry::instance().load(path); });
}

/// Sets who compiles kernels that ops find missing; null for nobody.
TILEWRIGHT_EXPORT void tilewright_torch_set_resolver(Registry::Resolver resolver) {
  Registry::instance().setResolver(resolver);
}
