// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TransposeBlock.h"

#include "DotForm.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace tilewright;

/// Instructions that move elements do so within parts of this many bits, or move whole parts.
constexpr int64_t partBits = 128;
/// Parts of the longest register.
constexpr int64_t mostParts = 4;

namespace {
/// Transposes units, each `group` elements of a column side by side, by shuffles of two registers, of which each is one
/// instruction: within parts units are interleaved in ever larger runs, and then whole parts change places.
class Network {
public:
  Network(OpBuilder &builder, Location loc, Type unit, int64_t width)
      : builder(builder), loc(loc), width(width), inPart(partBits / unit.getIntOrFloatBitWidth()) {}

  /// Whether blocks of so many columns of such units fill registers.
  static bool fits(int64_t bits, int64_t width) {
    int64_t inPart = bits >= 8 && bits < partBits && llvm::has_single_bit<uint64_t>(bits) ? partBits / bits : 0;
    return inPart && llvm::has_single_bit<uint64_t>(width) && width >= inPart && width <= inPart * mostParts;
  }

  /// The rows of columns of `height` units.
  SmallVector<Value> apply(ArrayRef<Value> columns, int64_t height) {
    SmallVector<Value> rows;
    for (int64_t from = 0; from < height;) {
      int64_t left = height - from;
      int64_t taken = left < inPart ? left : std::min<int64_t>(llvm::bit_floor<uint64_t>(left), width);
      llvm::append_range(rows, ArrayRef(block(columns, from, taken)).take_front(taken));
      from += taken;
    }
    return rows;
  }

private:
  /// Rows from `from` on, `taken` of them and perhaps more.
  SmallVector<Value> block(ArrayRef<Value> columns, int64_t from, int64_t taken) {
    int64_t height = std::max(taken, inPart), together = width / height, parts = height / inPart;
    // Each register has units of several columns where one has fewer than a register.
    SmallVector<Value> registers;
    for (int64_t group = 0; group < parts; ++group)
      for (int64_t k = 0; k < inPart; ++k) {
        SmallVector<Value> pieces;
        for (int64_t i = 0; i < together; ++i)
          pieces.push_back(piece(columns[(group * together + i) * inPart + k], from, taken, height));
        registers.push_back(joined(pieces));
      }
    for (int64_t run = 1; run < inPart; run *= 2)
      exchange(registers, run, [&](Value a, Value b, bool high) { return runs(a, b, run, high); });
    for (int64_t apart = 1; apart < parts; apart *= 2)
      exchange(registers, apart * inPart, [&](Value a, Value b, bool high) { return everyOther(a, b, high); });
    SmallVector<Value> rows;
    for (int64_t row = 0; row < height; ++row)
      rows.push_back(registers[row / inPart * inPart + reversed(row % inPart)]);
    return rows;
  }

  /// Replaces registers i and i + apart by two results of both.
  static void exchange(MutableArrayRef<Value> registers, int64_t apart,
                       llvm::function_ref<Value(Value, Value, bool)> both) {
    for (size_t i = 0; i < registers.size(); ++i)
      if (!(i & apart)) {
        Value a = registers[i], b = registers[i + apart];
        registers[i] = both(a, b, /*high=*/false);
        registers[i + apart] = both(a, b, /*high=*/true);
      }
  }

  /// Runs of `run` units of the low or high halves of the parts of `a` and `b`, in turn.
  Value runs(Value a, Value b, int64_t run, bool high) {
    SmallVector<int64_t> mask;
    for (int64_t part = 0; part < width; part += inPart)
      for (int64_t at = 0; at < inPart / 2; at += run)
        for (int64_t of : {int64_t(0), width})
          for (int64_t i = 0; i < run; ++i)
            mask.push_back(of + part + high * inPart / 2 + at + i);
    return vector::ShuffleOp::create(builder, loc, a, b, mask);
  }

  /// The parts of even or odd number of `a`, and then of `b`.
  Value everyOther(Value a, Value b, bool odd) {
    SmallVector<int64_t> mask;
    for (int64_t part = odd; part < 2 * width / inPart; part += 2)
      for (int64_t i = 0; i < inPart; ++i)
        mask.push_back(part * inPart + i);
    return vector::ShuffleOp::create(builder, loc, a, b, mask);
  }

  /// `taken` units of a column from `from` on, made as long as `length`.
  Value piece(Value column, int64_t from, int64_t taken, int64_t length) {
    if (from == 0 && cast<VectorType>(column.getType()).getDimSize(0) == length)
      return column;
    SmallVector<int64_t> mask;
    for (int64_t i = 0; i < length; ++i)
      mask.push_back(from + std::min(i, taken - 1));
    return vector::ShuffleOp::create(builder, loc, column, column, mask);
  }

  /// Vectors alike, one after the other.
  Value joined(ArrayRef<Value> pieces) {
    if (pieces.size() == 1)
      return pieces.front();
    size_t half = pieces.size() / 2;
    Value a = joined(pieces.take_front(half)), b = joined(pieces.drop_front(half));
    auto mask = llvm::to_vector(llvm::seq<int64_t>(2 * cast<VectorType>(a.getType()).getDimSize(0)));
    return vector::ShuffleOp::create(builder, loc, a, b, mask);
  }

  /// The number whose bits, as many as those of a part's units, are in the other order.
  int64_t reversed(int64_t number) {
    int64_t result = 0;
    for (int64_t bit = 1; bit < inPart; bit *= 2)
      result = 2 * result + ((number & bit) != 0);
    return result;
  }

  OpBuilder &builder;
  Location loc;
  int64_t width, inPart;
};
} // namespace

/// Vectors of the elements of `group` rows in turn, as one of two dimensions.
static Value asRows(OpBuilder &builder, Location loc, Value units, int64_t group) {
  VectorType type = cast<VectorType>(units.getType());
  int64_t width = type.getDimSize(0) / group;
  auto rows = VectorType::get({group, width}, type.getElementType());
  Value result = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(rows));
  for (int64_t row = 0; row < group; ++row) {
    SmallVector<int64_t> mask;
    for (int64_t i = 0; i < width; ++i)
      mask.push_back(i * group + row);
    result = vector::InsertStridedSliceOp::create( // a `vector.insert` would be taken apart into its elements
        builder, loc, vector::ShuffleOp::create(builder, loc, units, units, mask), result, ArrayRef<int64_t>{row, 0},
        ArrayRef<int64_t>{1});
  }
  return result;
}

SmallVector<Value> tilewright::transposedBlock(OpBuilder &builder, Location loc, ArrayRef<Value> columns,
                                               int64_t group) {
  auto type = cast<VectorType>(columns.front().getType());
  Type element = type.getElementType();
  if (SmallVector<Value> narrow = extendedAlike(columns); !narrow.empty()) {
    SmallVector<Value> rows = transposedBlock(builder, loc, narrow, group);
    for (Value &row : rows)
      row = arith::ExtFOp::create(builder, loc, cast<VectorType>(row.getType()).clone(element), row);
    return rows;
  }
  int64_t height = type.getDimSize(0), width = columns.size();
  SmallVector<Value> result;
  int64_t bits = group * element.getIntOrFloatBitWidth();
  if (!Network::fits(bits, width)) {
    Value block = interleaved(builder, loc, columns);
    for (int64_t row = 0; row < height; row += group) {
      Value piece = vector::ExtractStridedSliceOp::create(builder, loc, block, ArrayRef<int64_t>{row * width},
                                                          ArrayRef<int64_t>{group * width}, ArrayRef<int64_t>{1});
      if (group > 1)
        piece = vector::ShapeCastOp::create(builder, loc, VectorType::get({group, width}, element), piece);
      result.push_back(piece);
    }
    return result;
  }
  Type unit = group == 1 ? element : builder.getIntegerType(bits);
  SmallVector<Value> given(columns);
  if (group > 1)
    for (Value &column : given)
      column = vector::BitCastOp::create(builder, loc, VectorType::get({height / group}, unit), column);
  for (Value row : Network(builder, loc, unit, width).apply(given, height / group)) {
    if (group > 1)
      row = asRows(builder, loc,
                   vector::BitCastOp::create(builder, loc, VectorType::get({width * group}, element), row), group);
    result.push_back(row);
  }
  return result;
}
