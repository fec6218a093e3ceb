// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The element types that matrix instructions multiply.

#ifndef TILEWRIGHT_EMULATOR_ELEMENTS_H
#define TILEWRIGHT_EMULATOR_ELEMENTS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace tilewright::emulator {

/// A type by PTX's name, its bits, and the value of an element that is given in the low bits of a word.
struct Element {
  std::string_view name;
  unsigned bits;
  double (*value)(uint64_t);
};

template <typename T>
T bitsAs(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
uint64_t asBits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// A float of 8 bits: of `mantissa` bits after the point, with the usual bias of its exponent.
inline double eightBitFloat(uint64_t bits, int mantissa) {
  int bias = mantissa == 3 ? 7 : 15;
  int exponent = static_cast<int>((bits & 0x7f) >> mantissa);
  int fraction = static_cast<int>(bits & ((1U << mantissa) - 1));
  double sign = bits & 0x80 ? -1 : 1;
  // e4m3 has no infinity, and one NaN of either sign; e5m2 is as in IEEE 754.
  if (mantissa == 3 ? (bits & 0x7f) == 0x7f : exponent == 31 && fraction)
    return std::numeric_limits<double>::quiet_NaN();
  if (mantissa == 2 && exponent == 31)
    return sign * std::numeric_limits<double>::infinity();
  double size = exponent ? std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa)
                         : std::ldexp(fraction, 1 - bias - mantissa);
  return sign * size;
}

inline constexpr Element elements[] = {
    {"f64", 64, [](uint64_t bits) { return bitsAs<double>(bits); }},
    {"f32", 32, [](uint64_t bits) { return double{bitsAs<float>(bits)}; }},
    // Of 32 bits, the last 13 are not looked at.
    {"tf32", 32, [](uint64_t bits) { return double{bitsAs<float>(bits & 0xffffe000U)}; }},
    {"f16", 16, [](uint64_t bits) { return static_cast<double>(bitsAs<_Float16>(bits)); }},
    {"bf16", 16, [](uint64_t bits) { return double{bitsAs<float>((bits & 0xffff) << 16)}; }},
    {"e4m3", 8, [](uint64_t bits) { return eightBitFloat(bits, 3); }},
    {"e5m2", 8, [](uint64_t bits) { return eightBitFloat(bits, 2); }},
    {"s8", 8, [](uint64_t bits) { return static_cast<double>(static_cast<int8_t>(bits)); }},
    {"u8", 8, [](uint64_t bits) { return static_cast<double>(static_cast<uint8_t>(bits)); }},
    {"s32", 32, [](uint64_t bits) { return static_cast<double>(static_cast<int32_t>(bits)); }},
};

inline const Element *findElement(std::string_view name) {
  for (const Element &element : elements)
    if (element.name == name)
      return &element;
  return nullptr;
}

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_ELEMENTS_H
