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
};

/// What a kernel holds for a tensor map, in place of the 128 bytes of the driver.
struct TensorMapHandle {
  const TensorMap *map;
  std::byte rest[120];
};

/// Runs a kernel. Returns 0, or 1 when it did something wrong, which is then told in `text`, of `textBytes` bytes.
/// `sizes` has the extents of the grid, of a block and of a cluster, three each.
int tilewrightEmulate(void (*kernel)(void **), void **arguments, const uint32_t sizes[9], uint64_t sharedBytes,
                      const Buffer *buffers, uint32_t bufferCount, uint32_t seed, char *text, uint64_t textBytes);

/// An operation by name, and what performs it once that has been found.
struct OperationSite {
  const char *name;
  void *handler;
};

void tilewrightPerform(OperationSite *site, uint32_t count, const std::byte *operands, std::byte *result);
/// An access to memory at an address that the kernel says is a multiple of `alignment`; `writes` is 0 for a load, 1 for
/// a store, 2 for an atomic operation.
void tilewrightAccess(const std::byte *address, uint32_t bytes, uint32_t writes, uint32_t alignment);
std::byte *tilewrightSharedMemory(uint32_t offset);
/// A variable of the kernel's module in global memory.
void tilewrightVariable(std::byte *start, uint32_t bytes, uint32_t writable);
/// A place in the shared memory of a cluster by the 32 bits with which PTX addresses it, and these of such a place: all
/// ones where it is in no shared memory.
std::byte *tilewrightFromShared(uint32_t address);
uint32_t tilewrightToShared(const std::byte *place);
}

#endif // TILEWRIGHT_EMULATOR_EMULATOR_H
