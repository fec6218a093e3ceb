// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SharedLibrary.h"

#include <dlfcn.h>
#include <link.h>
#include <stdexcept>

// In glibc 2.34 these functions moved to the C library, under a new version of the same functions. Asking for the old
// version, the extension also runs where glibc is older.
#if defined(__GLIBC__) && defined(__x86_64__)
#define OLD_GLIBC "GLIBC_2.2.5"
#define OLD_DLINFO "GLIBC_2.3.3"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define OLD_GLIBC "GLIBC_2.17"
#define OLD_DLINFO "GLIBC_2.17"
#endif
#ifdef OLD_GLIBC
__asm__(".symver dlopen, dlopen@" OLD_GLIBC);
__asm__(".symver dlsym, dlsym@" OLD_GLIBC);
__asm__(".symver dlclose, dlclose@" OLD_GLIBC);
__asm__(".symver dlerror, dlerror@" OLD_GLIBC);
__asm__(".symver dlinfo, dlinfo@" OLD_DLINFO);
#endif

using namespace tilewright::runtime;

SharedLibrary::SharedLibrary(const std::string &file) : handle(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle) {
    const char *problem = dlerror();
    throw std::runtime_error(problem ? problem : "it cannot be loaded");
  }
}

SharedLibrary::~SharedLibrary() { dlclose(handle); }

void *SharedLibrary::address(const std::string &name) const { return dlsym(handle, name.c_str()); }

std::string SharedLibrary::ownName() const {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_ld)
    return {};
  const char *texts = nullptr;
  const ElfW(Dyn) *name = nullptr;
  for (const ElfW(Dyn) *each = map->l_ld; each->d_tag != DT_NULL; ++each) {
    if (each->d_tag == DT_STRTAB)
      texts = reinterpret_cast<const char *>(each->d_un.d_ptr); // The dynamic linker has made it an address.
    if (each->d_tag == DT_SONAME)
      name = each;
  }
  return texts && name ? texts + name->d_un.d_val : std::string();
}
