// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounding to bf16, for hosts that have no instruction for it: what LLVM then calls, and no C library of Debian 12 has.

#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" {

/// To the nearest, to even between two; NaN stays NaN.
__bf16 __truncsfbf2(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  uint32_t rounded = std::isnan(value) ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  auto half = static_cast<uint16_t>(rounded);
  __bf16 result;
  std::memcpy(&result, &half, sizeof(result));
  return result;
}

/// Through f32, rounded to odd, so that the second rounding is the only one that counts.
__bf16 __truncdfbf2(double value) {
  auto narrow = static_cast<float>(value);
  if (!std::isnan(value) && static_cast<double>(narrow) != value) {
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    if (!(bits & 1)) {
      bool above = std::abs(static_cast<double>(narrow)) > std::abs(value);
      bits = above ? bits - 1 : bits | 1;
      std::memcpy(&narrow, &bits, sizeof(narrow));
    }
  }
  return __truncsfbf2(narrow);
}
}
