// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that carry accumulators, and branches that yield them: from vectors to tiles.

#ifndef TILEWRIGHT_TRANSFORMOPS_AMXCARRIERS_H
#define TILEWRIGHT_TRANSFORMOPS_AMXCARRIERS_H

#include "AmxTiles.h"

#include "llvm/ADT/SetVector.h"

namespace tilewright {
/// The loops and branches that pass accumulators on, and the numbers of their results that are accumulators.
using Carriers = llvm::MapVector<mlir::Operation *, llvm::SmallSetVector<unsigned, 4>>;

/// Those that the accumulators of `contracts` come through and go to.
Carriers findCarriers(llvm::ArrayRef<mlir::vector::ContractionOp> contracts);

/// Values that are vectors to some operations and tiles to others, with casts between them until `resolve`.
class TileValues {
public:
  explicit TileValues(mlir::RewriterBase &rewriter) : rewriter(rewriter) {}

  mlir::SmallVector<mlir::Value> split(mlir::Value vector, const TileBlock &block);
  mlir::Value join(mlir::ValueRange tiles, const TileBlock &block, mlir::Location loc);

  /// Rewrites a loop or a branch so that its results `carried` are tiles.
  void carry(mlir::Operation *carrier, llvm::ArrayRef<unsigned> carried);

  /// Lets tiles that are joined and split again pass as they are, and moves the others through memory.
  void resolve();

private:
  using Cast = std::pair<mlir::UnrealizedConversionCastOp, TileBlock>;

  mlir::SmallVector<mlir::Value> splitAll(mlir::ValueRange values, llvm::ArrayRef<unsigned> carried);
  mlir::SmallVector<mlir::Value> joinAll(mlir::ValueRange values, mlir::TypeRange types,
                                         llvm::ArrayRef<unsigned> carried, mlir::Location loc);

  mlir::RewriterBase &rewriter;
  mlir::SmallVector<Cast> splits, joins;
};
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_AMXCARRIERS_H
