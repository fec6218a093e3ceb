// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulator's interface in C: what Python calls, and what kernels call that codegen/HostKernel.cpp has rewritten.

#ifndef TILEWRIGHT_EMULATOR_EMULATOR_H
#define TILEWRIGHT_EMULATOR_EMULATOR_H

#include <cstddef>
#include <cstdint>

extern "C" {

/// An operand in global memory.
struct Buffer {
  std::byte *start;
  uint64_t bytes;
  uint32_t writable;
};

/// A tensor that box copies read or write, as `cuTensorMapEncodeTiled` describes one; the innermost extent first.
struct TensorMap {
  std::byte *base;
  uint64_t extents[5];
  uint64_t strides[5]; // In bytes.
  uint32_t box[5];
  uint32_t rank, elementBytes;
  uint32_t swizzle; // 0, 32, 64 or 128 bytes.
  uint32_t atom;    // How many it moves at once: 16, or 32.
  // Of images, as `cuTensorMapEncodeIm2col` describes them; of the corners and steps, that of columns first.
  uint32_t pixels; // Of a box, of as many channels as its first extent; 0 for boxes of a tensor.
  int32_t lower[2], upper[2];
  uint32_t steps[2];
};

/// What a kernel holds for a tensor map, in place of the 128 bytes of the driver.
struct TensorMapHandle {
  const TensorMap *map;
  std::byte rest[120];
};

/// What all warps' executions of an instruction take in shared memory: how many passes through the banks, and how many
/// there would be without conflicts.
struct SharedCount {
  const char *name; // As long as the kernel's code is there.
  const void *site; // What events of a trace call the instruction.
  uint32_t line;
  uint32_t isGlobal; // Whether it is of global memory, of which passes are sectors of 32 bytes.
  uint64_t executions, passes, least;
};

/// Something that takes time in a block, as the first thread of a warp has done it, in its order.
struct TraceEvent {
  uint32_t warp; // In the cluster.
  uint32_t kind; // As `EventKind` of Trace.h numbers them.
  uint64_t key, amount;
};

/// What is to be observed of a launch: its counts, or its trace. A trace is of the first cluster only, whose products
/// are not computed and whose accesses are not judged.
struct Observed {
  SharedCount *counts; // Room for so many, and how many there are; null: nothing is counted.
  uint64_t countRoom, countsMade;
  TraceEvent *events; // Likewise.
  uint64_t eventRoom, eventsMade;
};

/// The version of this interface, which Python compares with its own before it calls anything else. Whoever changes a
/// structure or a function here, or what `HostKernel.cpp` makes, raises it here and in runtime/emulated_gpu.py.
uint32_t tilewrightEmulatorVersion();

/// Runs a kernel. Returns 0, 1 when it did something wrong, or 2 when it came to no end, which is told in `text`, of
/// `textBytes` bytes. `sizes` has the extents of the grid, of a block and of a cluster, three each. `observed` may be
/// null.
int tilewrightEmulate(void (*kernel)(void **), void **arguments, const uint32_t sizes[9], uint64_t sharedBytes,
                      const Buffer *buffers, uint32_t bufferCount, uint32_t seed, char *text, uint64_t textBytes,
                      Observed *observed);

/// An instruction of the kernel that the emulator is told of.
struct Site {
  const char *name;
  void *handler;      // What performs it, once that has been found.
  uint32_t line;      // Of the source; 0 where that is not known.
  uint32_t kind;      // Of an access: a load, a store or an atomic operation, as `AccessKind` numbers them.
  uint32_t alignment; // Of an access, by which the kernel says that its address can be divided.
  uint32_t strength;  // Of an access, bits of `Strength`: what it means to other threads.
  uint32_t scope;     // How far that goes, as `Scope` numbers it.
};

void tilewrightPerform(Site *site, uint32_t count, const std::byte *operands, std::byte *result);
/// An access to memory that is about to be made.
void tilewrightAccess(const Site *site, const std::byte *address, uint32_t bytes);
std::byte *tilewrightSharedMemory(uint32_t offset);
/// A variable of the kernel's module in global memory.
void tilewrightVariable(std::byte *start, uint32_t bytes, uint32_t writable);
/// A place in the shared memory of a cluster by the 32 bits with which PTX addresses it, and these of such a place: all
/// ones where it is in no shared memory.
std::byte *tilewrightFromShared(uint32_t address);
uint32_t tilewrightToShared(const std::byte *place);
}

#endif // TILEWRIGHT_EMULATOR_EMULATOR_H
