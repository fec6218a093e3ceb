// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sources: LLVM, openmp/runtime/src/kmp.h and kmp_sched.cpp; GCC, libgomp/parallel.c.

#include "GnuOpenMP.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <link.h>
#include <pthread.h>

using namespace tilewright::runtime;

namespace {

/// What a kernel does in a region: with the number of the thread, one that is not used, and what it shares.
using Body = void (*)(int32_t *number, int32_t *bound, void *shared);

/// libgomp's functions.
struct Gnu {
  void (*parallel)(void (*region)(void *), void *data, unsigned threads, unsigned flags);
  int (*number)();
  int (*threads)();
  int (*most)();
  int (*isInside)();
} gnu;

/// Finds LLVM's functions.
void *(*findLLVM)(const char *symbol);

/// Whether this process is a child of the one that took libgomp.
std::atomic<bool> isForked{false};

/// Threads that the next region of this thread is to have; 0: as many as there can be.
thread_local uint32_t wanted = 0;

template <typename Function>
Function *llvmOf(const char *symbol) {
  return reinterpret_cast<Function *>(findLLVM(symbol));
}

struct Region {
  Body body;
  void *shared;

  static void run(void *region) {
    auto *self = static_cast<Region *>(region);
    int32_t number = gnu.number(), bound = 0;
    self->body(&number, &bound, self->shared);
  }
};

void fork(void *place, int32_t count, Body body, void *shared) {
  if (isForked.load(std::memory_order_relaxed))
    return llvmOf<void(void *, int32_t, Body, ...)>("__kmpc_fork_call")(place, count, body, shared);
  Region region{body, shared};
  uint32_t threads = wanted;
  wanted = 0;
  gnu.parallel(&Region::run, &region, threads, 0);
}

void push(void *place, int32_t number, int32_t threads) {
  if (isForked.load(std::memory_order_relaxed))
    return llvmOf<void(void *, int32_t, int32_t)>("__kmpc_push_num_threads")(place, number, threads);
  wanted = static_cast<uint32_t>(std::max(threads, 0));
}

int32_t number(void *place) {
  if (isForked.load(std::memory_order_relaxed))
    return llvmOf<int32_t(void *)>("__kmpc_global_thread_num")(place);
  return gnu.number();
}

/// Takes from the bounds of a loop all but those of this thread's part: parts are even, the first ones are larger by
/// one.
void bounds(void *place, int32_t number, int32_t kind, int32_t *isLast, uint64_t *lower, uint64_t *upper,
            int64_t *stride, int64_t step, int64_t chunk) {
  if (isForked.load(std::memory_order_relaxed))
    return llvmOf<void(void *, int32_t, int32_t, int32_t *, uint64_t *, uint64_t *, int64_t *, int64_t, int64_t)>(
        "__kmpc_for_static_init_8u")(place, number, kind, isLast, lower, upper, stride, step, chunk);
  auto part = static_cast<uint64_t>(gnu.number()), parts = static_cast<uint64_t>(gnu.threads());
  auto by = static_cast<uint64_t>(step);
  uint64_t trips = *upper + by == *lower ? 0 : (*upper - *lower) / by + 1;
  uint64_t each = trips / parts, larger = trips % parts;
  uint64_t first = part * each + std::min(part, larger), count = each + (part < larger ? 1 : 0);
  *stride = static_cast<int64_t>(trips * by);
  *lower += first * by;
  *upper = *lower + count * by - by;
  *isLast = part + 1 == parts;
}

void done(void *place, int32_t number) {
  if (isForked.load(std::memory_order_relaxed))
    llvmOf<void(void *, int32_t)>("__kmpc_for_static_fini")(place, number);
}

int32_t most() {
  return isForked.load(std::memory_order_relaxed) ? llvmOf<int32_t()>("omp_get_max_threads")() : gnu.most();
}

int32_t isInside() {
  return isForked.load(std::memory_order_relaxed) ? llvmOf<int32_t()>("omp_in_parallel")() : gnu.isInside();
}

template <typename Function>
void *address(Function *function) {
  return reinterpret_cast<void *>(function);
}

/// The functions that kernels call, which are those of `tilewright.libraries.pool` too.
const struct {
  const char *symbol;
  void *function;
} functions[] = {
    {"__kmpc_fork_call", address(&fork)},           {"__kmpc_push_num_threads", address(&push)},
    {"__kmpc_global_thread_num", address(&number)}, {"__kmpc_for_static_init_8u", address(&bounds)},
    {"__kmpc_for_static_fini", address(&done)},     {"omp_get_max_threads", address(&most)},
    {"omp_in_parallel", address(&isInside)},
};

template <typename Function>
bool find(void *library, const char *symbol, Function *&to) {
  to = reinterpret_cast<Function *>(dlsym(library, symbol));
  return to != nullptr;
}

/// Calls back for each library of the process, until one is libgomp.
int tryLoaded(dl_phdr_info *info, size_t, void *) {
  const char *slash = std::strrchr(info->dlpi_name, '/');
  if (std::strncmp(slash ? slash + 1 : info->dlpi_name, "libgomp", 7) != 0)
    return 0;
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  return library && find(library, "GOMP_parallel", gnu.parallel) && find(library, "omp_get_thread_num", gnu.number) &&
         find(library, "omp_get_num_threads", gnu.threads) && find(library, "omp_get_max_threads", gnu.most) &&
         find(library, "omp_in_parallel", gnu.isInside);
}

} // namespace

bool tilewright::runtime::takeGnuOpenMP(void *(*llvm)(const char *symbol)) {
  findLLVM = llvm;
  return dl_iterate_phdr(tryLoaded, nullptr) &&
         pthread_atfork(nullptr, nullptr, [] { isForked.store(true, std::memory_order_relaxed); }) == 0;
}

void *tilewright::runtime::findGnuOpenMP(const std::string &symbol) {
  auto found =
      std::find_if(std::begin(functions), std::end(functions), [&](auto &each) { return each.symbol == symbol; });
  return found == std::end(functions) ? nullptr : found->function;
}
