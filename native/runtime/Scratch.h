// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scratch memory for kernels, behind the functions that MLIR's generic allocation calls. Each thread keeps one region
// from call to call, so that packed panels do not fault their pages in anew every time.

#ifndef TILEWRIGHT_RUNTIME_SCRATCH_H
#define TILEWRIGHT_RUNTIME_SCRATCH_H

#include <cstddef>

namespace tilewright::runtime {

/// A thread keeps at most this much. What does not fit comes from the C library and goes back to it.
constexpr size_t scratchLimit = size_t{64} << 20;

/// `bytes` of uninitialized memory at a multiple of `alignment` (a power of two) and of 64, or null when there is none.
/// Cheap when blocks are freed in the reverse order of their allocation, right in every order.
void *allocateScratch(size_t alignment, size_t bytes) noexcept;

/// Gives back what allocateScratch returned, in any thread. Null is allowed.
void freeScratch(void *block) noexcept;

/// What the calling thread holds, in bytes: its region, and the part of it in use (with what lies between blocks).
struct ScratchState {
  size_t capacity;
  size_t used;
};
ScratchState scratchState() noexcept;

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_SCRATCH_H
