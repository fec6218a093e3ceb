// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An accumulator as a block of AMX tiles, and how its elements come from vectors and memory and go there.

#ifndef TILEWRIGHT_TRANSFORMOPS_AMXTILES_H
#define TILEWRIGHT_TRANSFORMOPS_AMXTILES_H

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"

#include "llvm/ADT/MapVector.h"

namespace tilewright {
/// What the hardware has: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, "Intel AMX",
/// palette 1.
constexpr int64_t amxTiles = 8, amxRows = 16, amxRowBytes = 64;

/// How an extent is cut into tiles: `count` of `size` each.
struct TileSplit {
  int64_t count, size;

  /// Splits `extent` in tiles of `limit`, or takes it as one when it is smaller; nothing when it is neither.
  static std::optional<TileSplit> of(int64_t extent, int64_t limit);

  /// Splits `extent` in as few tiles of up to `limit` as it takes; nothing when they are not all as long.
  static std::optional<TileSplit> even(int64_t extent, int64_t limit);
};

/// The tiles of an accumulator, row by row.
class TileBlock {
public:
  TileBlock(mlir::VectorType type, TileSplit rows, TileSplit columns) : vector(type), rows(rows), columns(columns) {}

  /// The block for accumulators of `type`; nothing when it has no such tiles.
  static std::optional<TileBlock> of(mlir::VectorType type);

  int64_t size() const { return rows.count * columns.count; }
  mlir::amx::TileType tileType() const {
    return mlir::amx::TileType::get({rows.size, columns.size}, vector.getElementType());
  }

  mlir::VectorType vector;
  TileSplit rows, columns;
};

/// Loads tiles from, and stores them to, a place in memory whose rows are contiguous.
struct TilePlace {
  mlir::Value base;
  mlir::SmallVector<mlir::Value> indices;

  /// The place that lies `row` rows and `column` elements further.
  TilePlace at(mlir::OpBuilder &builder, mlir::Location loc, int64_t row, int64_t column) const;
};

/// Whether tiles can be loaded from, or stored to, where `transfer` reads or writes: in bounds, unmasked, row by row.
bool isWhole(mlir::VectorTransferOpInterface transfer);

/// Moves accumulators between tiles, vectors and memory. Partial ones go through one buffer on the stack.
class TileMover {
public:
  explicit TileMover(mlir::RewriterBase &rewriter) : rewriter(rewriter) {}

  /// The tiles of `vector`, made where it is read, or before the insertion point.
  mlir::SmallVector<mlir::Value> load(const TileBlock &block, mlir::Value vector, mlir::Location loc);

  /// Lets every use of `vector`, which `tiles` hold, take them instead; `vector` is unused then.
  void store(const TileBlock &block, mlir::ValueRange tiles, mlir::Value vector);

private:
  mlir::SmallVector<mlir::Value> loadTiles(const TileBlock &block, TilePlace place, mlir::Location loc);
  void storeTiles(const TileBlock &block, mlir::ValueRange tiles, TilePlace place, mlir::Location loc);
  TilePlace scratch(const TileBlock &block, mlir::Location loc);
  void copyRows(const TileBlock &block, mlir::Location loc,
                llvm::function_ref<void(mlir::VectorType type, mlir::Value row)> copy);

  mlir::RewriterBase &rewriter;
  llvm::DenseMap<std::pair<mlir::Block *, mlir::Type>, mlir::Value> buffers;
};
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_AMXTILES_H
