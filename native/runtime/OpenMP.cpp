// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "OpenMP.h"
#include "GnuOpenMP.h"

#include <cstring>
#include <dlfcn.h>
#include <link.h>

using namespace tilewright::runtime;

namespace {

/// What only a runtime with LLVM's interface defines.
constexpr char forkCall[] = "__kmpc_fork_call";
/// Beside this library: it needs libomp and has nothing of its own, so the dynamic linker finds libomp for us, in the
/// LLVM installation or in the wheel.
constexpr char bridge[] = "libtilewright_openmp.so";

bool has(void *library) { return library && dlsym(library, forkCall); }

/// Calls back for each library of the process, until one is found.
int tryLoaded(dl_phdr_info *info, size_t, void *found) {
  const char *slash = std::strrchr(info->dlpi_name, '/');
  const char *name = slash ? slash + 1 : info->dlpi_name;
  if (std::strncmp(name, "libomp", 6) != 0 && std::strncmp(name, "libiomp", 7) != 0)
    return 0;
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!has(library))
    return 0;
  *static_cast<void **>(found) = library;
  return 1;
}

/// LLVM's runtime or Intel's, if the process has it: RTLD_DEFAULT, which is null, or a library.
struct Loaded {
  bool is = false;
  void *library = nullptr;

  Loaded() { is = dlsym(RTLD_DEFAULT, forkCall) || dl_iterate_phdr(tryLoaded, &library); }
};

void *findLLVM(const char *symbol);

/// What is decided once, before this loads a runtime itself: which one the process has.
struct Chosen {
  Loaded loaded;
  bool isGnu = !loaded.is && takeGnuOpenMP(&findLLVM);

  static const Chosen &get() {
    static const Chosen chosen;
    return chosen;
  }
};

void *openBridge() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void *>(&openBridge), &self))
    return nullptr;
  std::string file(self.dli_fname);
  return dlopen((file.substr(0, file.rfind('/') + 1) + bridge).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

void *findLLVM(const char *symbol) {
  const Loaded &loaded = Chosen::get().loaded;
  if (loaded.is)
    return dlsym(loaded.library, symbol);
  static void *const own = openBridge();
  return own ? dlsym(own, symbol) : nullptr;
}

} // namespace

bool tilewright::runtime::isOpenMP(const std::string &symbol) {
  return symbol.compare(0, 7, "__kmpc_") == 0 || symbol.compare(0, 4, "omp_") == 0;
}

void *tilewright::runtime::findOpenMP(const std::string &symbol) {
  return Chosen::get().isGnu ? findGnuOpenMP(symbol) : findLLVM(symbol.c_str());
}

std::string tilewright::runtime::openMPFile() {
  Dl_info info;
  void *function = findLLVM(forkCall);
  return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}
