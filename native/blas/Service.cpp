// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all letters share: counters with their report, the handlers of errors, and the BLAS that everything else goes on
// to.
//
// The code is compiled for one processor and made for others from its LLVM IR: nothing in it may depend on an ABI's
// structures.
#include "Service.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" {
// Written beside the kernels: names of everything that goes on, the addresses it goes on to once called, and, both
// ending with null, where else a BLAS may be.
extern HIDDEN const char *const tilewright_blas_names[];
extern HIDDEN void *tilewright_blas_slots[];
extern HIDDEN const char *const tilewright_blas_fallbacks[];
const char *tilewright_blas_selected(void);

HIDDEN int tilewright_blas_counts;
// Netlib's CBLAS tells its handler by these in which order it was called; its testers set them.
int RowMajorStrg, CBLAS_CallFromC;
}

namespace {
struct Product {
  const char *element, *layout;
  int64_t m, n, k, calls, own;
};
constexpr uint64_t PRODUCTS = 4096;
Product products[PRODUCTS];
int64_t uncounted;
Tally *tallies;
pid_t lock; // The process of the thread that holds it, or 0.
pid_t counted_in;

void enter() {
  // Where the process was forked while a thread held it, that thread is in another process, and never leaves.
  const pid_t own = getpid();
  for (pid_t holder = 0; !__atomic_compare_exchange_n(&lock, &holder, own, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);)
    holder = holder == own ? 0 : holder;
  // A child that was forked has counted nothing yet.
  if (counted_in != own) {
    counted_in = own;
    memset(products, 0, sizeof products);
    uncounted = 0;
    for (Tally *each = tallies; each; each = each->next)
      each->calls = 0;
  }
}
void leave() { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

const char *file_of(const char *variable) {
  const char *name = getenv(variable);
  return name && *name ? name : nullptr;
}

void start() { tilewright_blas_counts = file_of("TILEWRIGHT_TRACE") || file_of("TILEWRIGHT_BLAS_REPORT"); }

// What stands before scratch memory: its size, and where what was allocated starts.
struct alignas(64) Scratch {
  size_t size, before;
};
constexpr size_t LARGE = 1 << 16;
constexpr int KEPT = 16; // For as many threads that call at once; others allocate and free.
char *kept[KEPT];

// A line for each shape, as Python's programs write them.
void write_trace(FILE *file) {
  for (const Product &each : products)
    if (each.calls)
      fprintf(file,
              "{\"spec\": {\"m\": %lld, \"n\": %lld, \"k\": %lld, \"dtype\": \"%s\", \"layout\": \"%s\", \"alpha\": "
              "\"arg\", "
              "\"beta\": \"arg\"}, \"calls\": %lld, \"computes\": \"%lldx%lldx%lld %s %s\"}\n",
              (long long)each.m, (long long)each.n, (long long)each.k, each.element, each.layout, (long long)each.calls,
              (long long)each.m, (long long)each.n, (long long)each.k, each.element, each.layout);
}

// The library that a symbol of it is in; equal ones are one.
void *library_of(void *symbol, const char **file) {
  Dl_info about;
  if (!symbol || !dladdr(symbol, &about))
    return nullptr;
  *file = about.dli_fname;
  return about.dli_fbase;
}

// The files of the libraries that anything went on to, each once.
void write_fallbacks(FILE *file) {
  const char *before = "", *name = nullptr, *other = nullptr;
  for (int64_t at = 0; tilewright_blas_names[at]; ++at) {
    void *library = library_of(tilewright_blas_slots[at], &name);
    int64_t first = 0;
    while (library && library_of(tilewright_blas_slots[first], &other) != library)
      ++first;
    if (library && first == at) {
      fprintf(file, "%s\"%s\"", before, name);
      before = ", ";
    }
  }
}

// One line of a process: which code served, how often, what went on to which library.
void write_report(FILE *file) {
  const char *level = tilewright_blas_selected(), *before = "";
  int64_t own = 0;
  for (const Product &each : products)
    own += each.own;
  fprintf(file, "{\"process\": %lld, \"level\": \"%s\", \"uncounted\": %lld, \"own\": %lld, \"calls\": {",
          (long long)getpid(), level ? level : "", (long long)uncounted, (long long)own);
  // A routine has a counter for each of its interfaces.
  for (const Tally *each = tallies; each; each = each->next) {
    const Tally *first = tallies;
    while (strcmp(first->name, each->name) != 0)
      first = first->next;
    long long calls = 0;
    for (const Tally *same = each; same; same = same->next)
      calls += strcmp(same->name, each->name) == 0 ? same->calls : 0;
    if (first != each || !calls)
      continue;
    fprintf(file, "%s\"%s\": %lld", before, each->name, calls);
    before = ", ";
  }
  fprintf(file, "}, \"forwarded\": [");
  before = "";
  for (int64_t at = 0; tilewright_blas_names[at]; ++at)
    if (tilewright_blas_slots[at]) {
      fprintf(file, "%s\"%s\"", before, tilewright_blas_names[at]);
      before = ", ";
    }
  fprintf(file, "], \"fallbacks\": [");
  write_fallbacks(file);
  fprintf(file, "]}\n");
}

void finish() {
  if (!tilewright_blas_counts)
    return;
  enter();
  const char *names[] = {"TILEWRIGHT_TRACE", "TILEWRIGHT_BLAS_REPORT"};
  for (int which = 0; which < 2; ++which) {
    const char *name = file_of(names[which]);
    FILE *file = name ? fopen(name, "a") : nullptr;
    if (file) {
      (which ? write_report : write_trace)(file);
      fclose(file);
    }
  }
  leave();
}

// In the sections themselves: LLVM's own lists of them are for older systems unless who emits code says otherwise.
__attribute__((used, section(".init_array"))) void (*const starts)() = start;
__attribute__((used, section(".fini_array"))) void (*const finishes)() = finish;

// A symbol of a library, unless the library is this one under the name of another.
void *theirs(void *library, const char *name) {
  const char *file = nullptr;
  void *found = dlsym(library, name);
  bool own = library_of(found, &file) == library_of((void *)&tilewright_blas_wrong, &file);
  return own ? nullptr : found;
}

void *opened(const char *file, const char *name) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  return library ? theirs(library, name) : nullptr;
}

// What a name is in the BLAS that is named, or that the program has besides, or that is installed.
void *found(const char *name) {
  if (const char *given = file_of("TILEWRIGHT_BLAS_FALLBACK"))
    return opened(given, name);
  if (void *next = theirs(RTLD_NEXT, name))
    return next;
  for (const char *const *file = tilewright_blas_fallbacks; *file; ++file)
    if (void *there = opened(*file, name))
      return there;
  return nullptr;
}
} // namespace

extern "C" {
void tilewright_blas_count(Tally *tally) {
  enter();
  if (!tally->listed) {
    tally->listed = true;
    tally->next = tallies;
    tallies = tally;
  }
  ++tally->calls;
  leave();
}

void tilewright_blas_product(const char *element, const char *layout, int64_t m, int64_t n, int64_t k, int own) {
  enter();
  uint64_t at = (((uint64_t)m * 31 + n) * 31 + k) * 31 + layout[0] * 2 + layout[1] + element[1];
  for (uint64_t tried = 0;; ++tried, ++at) {
    Product &each = products[at % PRODUCTS];
    if (tried == PRODUCTS) {
      ++uncounted;
      break;
    }
    if (each.calls && (each.element != element || each.layout != layout || each.m != m || each.n != n || each.k != k))
      continue;
    each = {element, layout, m, n, k, each.calls + 1, each.own + own};
    break;
  }
  leave();
}

// The scratch memory of kernels comes through here, by the linker's --wrap: what is large is kept for the next call,
// since the C library gives it back to the system, and clearing its pages takes longer than small products do. Any
// thread may take what another left.
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);

HIDDEN void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  size_t before = alignment < sizeof(Scratch) ? sizeof(Scratch) : alignment;
  for (char **place = kept; size >= LARGE && place < kept + KEPT; ++place)
    if (char *memory = __atomic_exchange_n(place, nullptr, __ATOMIC_ACQ_REL)) {
      Scratch *about = (Scratch *)memory - 1;
      if (about->size >= size && about->before == before)
        return memory;
      __real_free(memory - about->before);
    }
  if (size > SIZE_MAX / 2)
    return nullptr;
  size_t rounded = (size + LARGE - 1) / LARGE * LARGE;
  size = size < LARGE ? (size + before - 1) / before * before : rounded;
  char *memory = (char *)__real_aligned_alloc(before, before + (size + before - 1) / before * before);
  if (!memory)
    return nullptr;
  memory += before;
  ((Scratch *)memory)[-1] = {size, before};
  return memory;
}

HIDDEN void *__wrap_malloc(size_t size) { return __wrap_aligned_alloc(sizeof(Scratch), size); }

HIDDEN void __wrap_free(void *memory) {
  if (!memory)
    return;
  Scratch *about = (Scratch *)memory - 1;
  for (char **place = kept; about->size >= LARGE && place < kept + KEPT; ++place) {
    char *none = nullptr;
    if (__atomic_compare_exchange_n(place, &none, (char *)memory, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return;
  }
  __real_free((char *)memory - about->before);
}

// Where the functions below go on to, found at their first call.
HIDDEN void *tilewright_blas_resolve(int64_t at) {
  const char *name = tilewright_blas_names[at];
  void *there = found(name);
  if (!there) {
    fprintf(stderr, "tilewright: no BLAS for %s; set TILEWRIGHT_BLAS_FALLBACK to the file of one\n", name);
    abort();
  }
  __atomic_store_n(&tilewright_blas_slots[at], there, __ATOMIC_RELEASE);
  return there;
}

// The handlers of programs that have none; weak, so that no call of them is inlined here. Names end where their letters
// do, whatever length callers pass or leave out.
__attribute__((weak)) void xerbla_(const char *name, const int32_t *number, size_t length) {
  using Handler = void(const char *, const int32_t *, size_t);
  if (Handler *next = (Handler *)dlsym(RTLD_NEXT, "xerbla_"))
    return next(name, number, length);
  int letters = 0;
  while (letters < 32 && name[letters] > ' ')
    ++letters;
  fprintf(stderr, " ** On entry to %.*s parameter number %d had an illegal value\n", letters, name, (int)*number);
}

__attribute__((weak)) void cblas_xerbla(int32_t number, const char *name, const char *, ...) {
  fprintf(stderr, "Parameter %d to routine %s was incorrect\n", (int)number, name);
}

void tilewright_blas_wrong(int c, const char *name, int64_t number) {
  if (c) {
    RowMajorStrg = 0; // Netlib's handler takes m and n of row-major calls for each other's otherwise.
    return cblas_xerbla((int32_t)number, name, "");
  }
  char padded[16] = "      "; // Handlers of old read six letters.
  size_t length = strlen(name);
  memcpy(padded, name, length);
  // 64 bits, so that handlers of either size of integers read it.
  xerbla_(padded, (const int32_t *)&number, length < 6 ? 6 : length);
}

// libblastrampoline tells by it that integers of 64 bits are taken.
int64_t isamax_64_(const int64_t *n, const float *x, const int64_t *step) {
  if (*n < 1 || *step < 1)
    return 0;
  int64_t best = 0;
  for (int64_t i = 1; i < *n; ++i)
    if (__builtin_fabsf(x[i * *step]) > __builtin_fabsf(x[best * *step]))
      best = i;
  return best + 1;
}
}
