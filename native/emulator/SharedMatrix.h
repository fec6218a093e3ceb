// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix in shared memory as matrix instructions take one. Source: the PTX ISA manual, "Strides" and "Canonical
// Layouts" of wgmma and tcgen05.

#ifndef TILEWRIGHT_EMULATOR_SHAREDMATRIX_H
#define TILEWRIGHT_EMULATOR_SHAREDMATRIX_H

#include <cstddef>

namespace tilewright::emulator {

/// Of rows of `pitch` bytes that are swizzled in their pattern, eight of which are a tile; of 16 bytes, they are not
/// swizzled.
struct SharedMatrix {
  size_t start, leading, stride;
  unsigned pitch, bytes;
  bool transposed;
  bool wide = false; // Whether the swizzle moves 32 bytes at once: four rows are then a tile.

  /// Offset in shared memory of element k of row (or column, of B) `index`.
  size_t offset(unsigned index, unsigned k) const {
    size_t at;
    if (transposed) { // Rows of the pitch are along the index; eight of them, along k, are a tile.
      size_t across = pitch / bytes;
      unsigned rows = wide ? 4 : 8;
      at = index / across * leading + k / rows * stride + k % rows * pitch + index % across * bytes;
    } else {
      at = index / 8 * stride + index % 8 * pitch +
           (pitch == 16 ? k * bytes / 16 * leading + k * bytes % 16 : k * bytes);
    }
    at += start;
    if (wide)
      return at ^ (((at >> 7) & 3) << 5);
    return at ^ (((at >> 7) & (pitch / 16 - 1)) << 4);
  }
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_SHAREDMATRIX_H
