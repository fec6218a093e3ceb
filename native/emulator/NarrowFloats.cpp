// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions of pairs of floats of 8 bits, and approximations. Source: the PTX ISA manual, "cvt" and "ex2".

#include "Elements.h"
#include "Machine.h"

using namespace tilewright::emulator;

namespace {

/// Bits of the mantissa, by the type that a name has.
int mantissa(std::string_view name) { return name.find("e4m3") != std::string_view::npos ? 3 : 2; }

/// The nearest one, the even one of two, and the largest for what lies beyond; NaN stays NaN.
uint8_t narrowed(float value, int mantissa) {
  const uint8_t largest = mantissa == 3 ? 0x7e : 0x7b;
  if (std::isnan(value))
    return 0x7f;
  double size = std::fabs(value);
  uint8_t nearest = 0;
  for (unsigned code = 1; code <= largest; ++code) {
    double better = std::fabs(eightBitFloat(nearest, mantissa) - size);
    double here = std::fabs(eightBitFloat(code, mantissa) - size);
    if (here < better || (here == better && code % 2 == 0))
      nearest = static_cast<uint8_t>(code);
  }
  return static_cast<uint8_t>(nearest | (std::signbit(value) ? 0x80 : 0));
}

/// Two of f32, the first one for the upper byte.
void narrow(Thread &, const Operation &operation) {
  int bits = mantissa(operation.name);
  operation.give(narrowed(operation.operand<float>(1), bits), 0);
  operation.give(narrowed(operation.operand<float>(0), bits), 1);
}

/// Two bytes to f16.
void widen(Thread &, const Operation &operation) {
  int bits = mantissa(operation.name);
  auto both = operation.operand<uint16_t>(0);
  operation.give(static_cast<_Float16>(eightBitFloat(both & 0xff, bits)), 0);
  operation.give(static_cast<_Float16>(eightBitFloat(both >> 8, bits)), 1);
}

/// To the nearest, where a chip may be 2 units in the last place away; subnormal numbers are zeros.
void powerOfTwo(Thread &, const Operation &operation) {
  auto power = static_cast<float>(std::exp2(static_cast<double>(operation.operand<float>(0))));
  operation.give(std::fpclassify(power) == FP_SUBNORMAL ? 0.0f : power);
}

} // namespace

const std::vector<Row> tilewright::emulator::floatRows = {
    {"cvt.e4m3x2.f32", narrow},  {"cvt.e5m2x2.f32", narrow},         {"cvt.f16x2.e4m3x2", widen},
    {"cvt.f16x2.e5m2x2", widen}, {"ex2.approx.ftz.f32", powerOfTwo},
};
