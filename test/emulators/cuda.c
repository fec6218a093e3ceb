// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A libcuda.so.1 for tests, which stands for a driver with one card of compute capability 9.0. Its memory is this
// machine's; streams are numbers; a launch is handed to a function of the test's (fake_on_launch). Functions that are
// not here are "not found", as in an older driver. Signatures: cuda.h of CUDA 13.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Status;
enum {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  no_binary = 209,
  not_found = 500
};

/// What a launch was asked for, as the test reads it.
typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  uintptr_t stream;
  uint32_t cluster[3];
  uint32_t attributes;
  uint32_t follows; // Whether it may begin before the kernels before it have ended.
} Launch;

static int (*on_launch)(const Launch *, void **);
static int fail_with;
static int refuses_cubins;
static int cards = 1;
static uint64_t capture; // The id of what captures every stream, or 0.
static uintptr_t current_context;
static uint32_t dynamic_shared;
static uint64_t launches; // So far.
static char log_text[65536];

static void note(const char *text) {
  size_t used = strlen(log_text);
  snprintf(log_text + used, sizeof log_text - used, "%s\n", text);
}

void fake_on_launch(int (*function)(const Launch *, void **)) { on_launch = function; }
void fake_fail_with(int status) { fail_with = status; }
void fake_refuse_cubins(int refuse) { refuses_cubins = refuse; }
void fake_cards(int count) { cards = count; }
void fake_capture(unsigned id) { capture = id; }
const char *fake_log(void) { return log_text; }

static Status cuInit(unsigned flags) { return flags ? invalid_value : success; }
static Status cuDriverGetVersion(int *version) { return *version = 13000, success; }
static Status cuDeviceGetCount(int *count) { return *count = cards, success; }
static Status cuDeviceGet(int *device, int number) {
  return number < 0 || number >= cards ? 101 : (*device = number, success);
}
static Status cuDeviceGetName(char *name, int length, int device) {
  return snprintf(name, (size_t)length, "card of the tests %d", device), success;
}
static Status cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  switch (attribute) {
  case 16:
    return *value = 4, success; // multiprocessors
  case 75:
    return *value = 9, success; // compute capability, major
  case 76:
    return *value = 0, success; // and minor
  default:
    return *value = 0, success;
  }
}
static Status cuDevicePrimaryCtxRetain(void **context, int device) {
  return *context = (void *)(uintptr_t)(0x1000 + device), success;
}
static Status cuDevicePrimaryCtxRelease(int device) { return (void)device, success; }
static Status cuCtxGetCurrent(void **context) { return note("context"), *context = (void *)current_context, success; }
static Status cuCtxSetCurrent(void *context) { return note("context"), current_context = (uintptr_t)context, success; }
static Status cuCtxPushCurrent(void *context) { return cuCtxSetCurrent(context); }
static Status cuCtxGetDevice(int *device) {
  note("context");
  return current_context ? (*device = (int)(current_context - 0x1000), success) : 201;
}
static Status cuMemAlloc(uintptr_t *place, size_t bytes) {
  note("alloc");
  *place = (uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *place ? success : out_of_memory;
}
static Status cuMemFree(uintptr_t place) { return note("free"), free((void *)place), success; }
static Status cuMemAllocAsync(uintptr_t *place, size_t bytes, void *stream) {
  (void)stream, note("alloc async");
  *place = (uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return success;
}
static Status cuMemFreeAsync(uintptr_t place, void *stream) {
  return (void)stream, note("free async"), free((void *)place), success;
}
static Status cuMemcpyHtoDAsync(uintptr_t to, const void *from, size_t bytes, void *stream) {
  (void)stream, note("copy");
  return memcpy((void *)to, from, bytes), success;
}
static Status cuMemcpyDtoHAsync(void *to, uintptr_t from, size_t bytes, void *stream) {
  (void)stream, note("copy");
  return memcpy(to, (const void *)from, bytes), success;
}
static Status cuMemsetD8Async(uintptr_t to, unsigned char what, size_t bytes, void *stream) {
  (void)stream, note("set");
  return memset((void *)to, what, bytes), success;
}
static Status cuStreamCreate(void **stream, unsigned flags) {
  (void)flags, note("stream");
  return *stream = (void *)0x5000, success;
}
static Status cuStreamDestroy(void *stream) { return (void)stream, success; }
static Status cuThreadExchangeStreamCaptureMode(int *mode) {
  static int now = 0;
  int before = now;
  now = *mode;
  return *mode = before, success;
}
static Status cuStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph, const void ***nodes,
                                     const void ***edges, size_t *count) {
  (void)stream, *status = capture != 0, *id = capture, *graph = NULL, *nodes = *edges = NULL;
  return *count = 0, success;
}
static Status cuCtxSynchronize(void) { return note("synchronize"), success; }
static Status cuStreamSynchronize(void *stream) {
  char line[64];
  snprintf(line, sizeof line, "synchronize %zu", (size_t)stream);
  return note(line), success;
}
static Status cuEventCreate(void **event, unsigned flags) {
  (void)flags, note("event");
  return *event = calloc(1, sizeof(uint64_t)), success;
}
static Status cuEventDestroy(void *event) { return note("no event"), free(event), success; }
static Status cuEventRecord(void *event, void *stream) {
  // Each launch takes a millisecond.
  (void)stream;
  return *(uint64_t *)event = launches, success;
}
static Status cuEventSynchronize(void *event) { return (void)event, success; }
static Status cuEventElapsedTime(float *milliseconds, const void *begin, const void *end) {
  return *milliseconds = (float)(*(const uint64_t *)end - *(const uint64_t *)begin), success;
}
static Status cuGetErrorName(Status status, const char **name) {
  (void)status;
  return *name = "CUDA_ERROR_OF_THE_TESTS", success;
}
static Status cuGetErrorString(Status status, const char **text) {
  (void)status;
  return *text = "an error of the tests", success;
}
static Status cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e,
                                unsigned f) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  int is_cubin = !memcmp(code, "\177ELF", 4);
  note(is_cubin ? "load cubin" : "load PTX");
  return is_cubin && refuses_cubins ? no_binary : (*library = (void *)0x2000, success);
}
static Status cuLibraryUnload(void *library) { return (void)library, success; }
static Status cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library;
  return strcmp(name, "matmul") ? not_found : (*kernel = (void *)0x3000, success);
}
static Status cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  (void)device;
  if (attribute != 8 || kernel != (void *)0x3000)
    return invalid_value;
  // All kernels have this handle: what one of them may take, all may.
  return dynamic_shared = (uint32_t)value > dynamic_shared ? (uint32_t)value : dynamic_shared, success;
}
// The emulator's handle of a tensor map: a pointer to its own description.
typedef struct {
  void *base;
  uint64_t extents[5], strides[5];
  uint32_t box[5], rank, element_bytes, swizzle, atom;
  uint32_t pixels;
  int32_t lower[2], upper[2];
  uint32_t steps[2];
} Described;

// What the driver checks of every map, and makes of it; null where it refuses.
static Described *described_as(void *map, int type, uint32_t rank, void *place, const uint64_t *extents,
                               const uint64_t *strides, int interleave, int swizzle, int promotion, int fill) {
  static const uint32_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  note("encode");
  if ((uintptr_t)place % 16 || rank < 1 || rank > 5 || interleave || fill || promotion > 3 || swizzle > 4 ||
      (uintptr_t)map % 64 || type > 9)
    return NULL;
  Described *described = calloc(1, sizeof *described);
  described->base = place, described->rank = rank, described->element_bytes = bytes[type];
  // The last one moves 32 bytes of 128 at once.
  described->swizzle = swizzle == 4 ? 128 : swizzle ? 16u << swizzle : 0;
  described->atom = swizzle == 4 ? 32 : 16;
  for (uint32_t axis = 0; axis < 5; ++axis) {
    described->extents[axis] = described->box[axis] = 1;
    if (axis >= rank)
      continue;
    if (!extents[axis] || (axis && strides[axis - 1] % 16))
      return NULL;
    described->extents[axis] = extents[axis];
    described->strides[axis] = axis ? strides[axis - 1] : bytes[type];
  }
  return described;
}
static Status encoded(void *map, Described *described) {
  if (described->swizzle && described->box[0] * described->element_bytes > described->swizzle)
    return invalid_value;
  memset(map, 0, 128);
  memcpy(map, &described, sizeof described);
  return success;
}
static Status cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *place, const uint64_t *extents,
                                     const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                     int interleave, int swizzle, int promotion, int fill) {
  Described *described = described_as(map, type, rank, place, extents, strides, interleave, swizzle, promotion, fill);
  if (!described)
    return invalid_value;
  for (uint32_t axis = 0; axis < rank; ++axis) {
    if (!box[axis] || box[axis] > 256 || steps[axis] != 1)
      return invalid_value;
    described->box[axis] = box[axis];
  }
  return encoded(map, described);
}
static Status cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *place, const uint64_t *extents,
                                      const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                                      uint32_t pixels, const uint32_t *steps, int interleave, int swizzle,
                                      int promotion, int fill) {
  Described *described = described_as(map, type, rank, place, extents, strides, interleave, swizzle, promotion, fill);
  // Images of rows and columns are all that the emulator knows.
  if (!described || rank != 4 || !channels || channels > 256 || !pixels || pixels > 1024)
    return invalid_value;
  described->box[0] = channels, described->pixels = pixels;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    int64_t last = (int64_t)extents[axis + 1] - 1 + upper[axis];
    if (lower[axis] < -128 || lower[axis] > 127 || upper[axis] < -128 || upper[axis] > 127 || last < lower[axis] ||
        !steps[axis + 1] || steps[axis + 1] > 8)
      return invalid_value;
    described->lower[axis] = lower[axis], described->upper[axis] = upper[axis];
    described->steps[axis] = steps[axis + 1];
  }
  return encoded(map, described);
}

typedef struct {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int follows;
  } value;
} Attribute;
typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  void *stream;
  Attribute *attributes;
  uint32_t count;
} Config;

/// One of the multiprocessors has no neighbor.
static Status cuOccupancyMaxActiveClusters(int *clusters, void *function, const Config *config) {
  note("occupancy");
  uint32_t blocks = 1;
  for (uint32_t i = 0; i < config->count; ++i)
    if (config->attributes[i].id == 4)
      blocks = config->attributes[i].value.cluster.x;
  if (function != (void *)0x3000 || config->shared_bytes > dynamic_shared)
    return invalid_value;
  return *clusters = (int)(3 / blocks), success;
}

static Status cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
  note("launch");
  ++launches;
  Launch launch = {.cluster = {1, 1, 1}, .shared_bytes = config->shared_bytes, .attributes = config->count};
  memcpy(launch.grid, config->grid, sizeof launch.grid);
  memcpy(launch.block, config->block, sizeof launch.block);
  launch.stream = (uintptr_t)config->stream;
  for (uint32_t i = 0; i < config->count; ++i)
    if (config->attributes[i].id == 4)
      memcpy(launch.cluster, &config->attributes[i].value.cluster, sizeof launch.cluster);
    else if (config->attributes[i].id == 6)
      launch.follows = config->attributes[i].value.follows;
  if (function != (void *)0x3000 || extra || (config->shared_bytes > 48 << 10 && config->shared_bytes > dynamic_shared))
    return invalid_value;
  if (fail_with)
    return fail_with;
  return on_launch ? on_launch(&launch, parameters) : success;
}

typedef struct {
  const char *name;
  void *function;
} Entry;
#define ENTRY(name) {#name, (void *)name}
static const Entry entries[] = {
    ENTRY(cuInit),
    ENTRY(cuDriverGetVersion),
    ENTRY(cuDeviceGetCount),
    ENTRY(cuDeviceGet),
    ENTRY(cuDeviceGetName),
    ENTRY(cuDeviceGetAttribute),
    ENTRY(cuDevicePrimaryCtxRetain),
    ENTRY(cuDevicePrimaryCtxRelease),
    ENTRY(cuCtxGetCurrent),
    ENTRY(cuCtxSetCurrent),
    ENTRY(cuCtxPushCurrent),
    ENTRY(cuCtxGetDevice),
    ENTRY(cuMemAlloc),
    ENTRY(cuMemFree),
    ENTRY(cuMemAllocAsync),
    ENTRY(cuMemFreeAsync),
    ENTRY(cuMemcpyHtoDAsync),
    ENTRY(cuMemcpyDtoHAsync),
    ENTRY(cuMemsetD8Async),
    ENTRY(cuStreamCreate),
    ENTRY(cuStreamDestroy),
    ENTRY(cuThreadExchangeStreamCaptureMode),
    ENTRY(cuStreamGetCaptureInfo),
    ENTRY(cuCtxSynchronize),
    ENTRY(cuStreamSynchronize),
    ENTRY(cuEventCreate),
    ENTRY(cuEventDestroy),
    ENTRY(cuEventRecord),
    ENTRY(cuEventSynchronize),
    ENTRY(cuEventElapsedTime),
    ENTRY(cuGetErrorName),
    ENTRY(cuGetErrorString),
    ENTRY(cuLibraryLoadData),
    ENTRY(cuLibraryUnload),
    ENTRY(cuLibraryGetKernel),
    ENTRY(cuKernelSetAttribute),
    ENTRY(cuTensorMapEncodeTiled),
    ENTRY(cuTensorMapEncodeIm2col),
    ENTRY(cuOccupancyMaxActiveClusters),
    ENTRY(cuLaunchKernelEx),
};

Status cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found) {
  (void)version, (void)flags;
  *function = NULL;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; ++i)
    if (!strcmp(name, entries[i].name))
      *function = entries[i].function;
  if (!strcmp(name, "cuGetProcAddress") || !strcmp(name, "cuGetProcAddress_v2"))
    *function = (void *)cuGetProcAddress_v2;
  if (getenv("FAKE_CUDA_TRACE") && !*function)
    fprintf(stderr, "not here: %s\n", name);
  if (found)
    *found = *function ? 0 : 1;
  return *function ? success : not_found;
}
