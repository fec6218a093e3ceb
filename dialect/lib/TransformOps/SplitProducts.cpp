// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotForm.h"
#include "Panel.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// Entries of a split operand, in their order: the first piece with NaN and Inf in it, and all pieces of finite
/// elements.
enum Entry : int64_t { withSpecial, firstPiece };

/// Splits the operands of products of f32 into pieces of bf16.
class Splitting {
public:
  Splitting(RewriterBase &rewriter, SplitProductsOp options)
      : rewriter(rewriter), pieces(options.getPieces()), order(options.getOrder()), narrow(rewriter.getBF16Type()) {}

  /// Lets a panel hold pieces.
  void splitPanel(Panel panel) {
    MemRefType type = panel.alloc.getType();
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.end() - 2, entries());
    memref::AllocOp alloc = reallocate(rewriter, panel.alloc, MemRefType::get(shape, narrow));
    for (vector::TransferWriteOp write : panel.writes) {
      rewriter.setInsertionPoint(write);
      for (auto [number, entry] : llvm::enumerate(split(write.getVector()))) {
        SmallVector<bool> inBounds(write.getVectorType().getRank(), true);
        vector::TransferWriteOp::create(rewriter, write.getLoc(), entry, alloc,
                                        placeOf(write.getLoc(), write.getIndices(), number), inBounds);
      }
      rewriter.eraseOp(write);
    }
    panels[panel.alloc] = alloc;
  }

  /// One product after the other, those of the smallest pieces first.
  void splitProduct(vector::ContractionOp contract) {
    Value sum = contract.getAcc();
    for (auto [i, j] : terms()) {
      rewriter.setInsertionPoint(contract);
      auto term = cast<vector::ContractionOp>(rewriter.clone(*contract));
      term.getAccMutable().assign(sum);
      takeEntries(term, i, j);
      sum = term.getResult();
    }
    rewriter.replaceOp(contract, sum);
  }

  /// One loop after the other, each with a product of the same pieces: LLVM would keep in registers, and spill, what
  /// several products in one loop read.
  void splitLoop(scf::ForOp loop, ArrayRef<vector::ContractionOp> contracts) {
    for (auto [i, j] : terms()) {
      rewriter.setInsertionPoint(loop);
      IRMapping map;
      auto of = cast<scf::ForOp>(rewriter.clone(*loop, map));
      for (vector::ContractionOp contract : contracts)
        takeEntries(map.lookup(contract.getResult()).getDefiningOp<vector::ContractionOp>(), i, j);
      rewriter.modifyOpInPlace(loop, [&] { loop.getInitArgsMutable().assign(of.getResults()); });
    }
    rewriter.replaceOp(loop, loop.getInitArgs());
  }

  /// Erases what is read no longer.
  void finish() {
    for (auto [alloc, pieces] : panels) {
      for (Operation *read : llvm::make_early_inc_range(alloc.getUsers()))
        rewriter.eraseOp(read);
      rewriter.eraseOp(alloc.getDefiningOp());
    }
  }

private:
  int64_t entries() const { return pieces + 1; }

  SmallVector<Value> placeOf(Location loc, ValueRange indices, int64_t entry) {
    SmallVector<Value> place(indices);
    place.insert(place.end() - 2, arith::ConstantIndexOp::create(rewriter, loc, entry));
    return place;
  }

  /// The entries that are multiplied, of A and of B, those of the smallest products first.
  SmallVector<std::pair<int64_t, int64_t>> terms() const {
    SmallVector<std::pair<int64_t, int64_t>> all;
    for (int64_t both = order; both > 0; --both)
      for (int64_t i = std::min(both, pieces - 1); i >= 0 && both - i < pieces; --i)
        all.push_back({firstPiece + i, firstPiece + both - i});
    all.push_back({withSpecial, withSpecial});
    return all;
  }

  /// Lets a product take an entry of each of its operands.
  void takeEntries(vector::ContractionOp contract, int64_t ofA, int64_t ofB) {
    contract.getLhsMutable().assign(entryOf(contract.getLhs(), ofA));
    contract.getRhsMutable().assign(entryOf(contract.getRhs(), ofB));
  }

  /// An entry of an operand, extended. Each product has reads of its own, so that each is grouped for its instruction.
  Value entryOf(Value operand, int64_t number) {
    Location loc = operand.getLoc();
    rewriter.setInsertionPointAfterValue(operand);
    auto type = cast<VectorType>(operand.getType());
    auto read = operand.getDefiningOp<vector::TransferReadOp>();
    auto panel = read ? panels.find(read.getBase()) : panels.end();
    Value entry = panel == panels.end() ? split(operand)[number]
                                        : reread(rewriter, read, type.clone(narrow), panel->second,
                                                 placeOf(loc, read.getIndices(), number));
    return arith::ExtFOp::create(rewriter, loc, type, entry);
  }

  /// The entries of `vector`, row by row.
  SmallVector<Value> split(Value vector) {
    auto type = cast<VectorType>(vector.getType());
    if (type.getRank() == 1)
      return splitRow(vector);
    Location loc = vector.getLoc();
    Value zeros = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type.clone(narrow)));
    SmallVector<Value> all(entries(), zeros);
    for (int64_t row = 0; row < type.getDimSize(0); ++row)
      for (auto [whole, part] : llvm::zip_equal(all, splitRow(vector::ExtractOp::create(rewriter, loc, vector, row))))
        whole = vector::InsertStridedSliceOp::create(rewriter, loc, part, whole, ArrayRef<int64_t>{row, 0},
                                                     ArrayRef<int64_t>{1});
    return all;
  }

  /// The entries of a row. Each piece is what the ones before it leave, rounded; what they leave is exact.
  SmallVector<Value> splitRow(Value row) {
    Location loc = row.getLoc();
    auto wide = cast<VectorType>(row.getType()), type = wide.clone(narrow);
    auto splat = [&](VectorType of, const APFloat &value) -> Value {
      return arith::ConstantOp::create(rewriter, loc, DenseElementsAttr::get(of, value));
    };
    auto less = [&](Value x, Value y) -> Value {
      return arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OLT, x, y);
    };
    auto choose = [&](Value condition, Value x, Value y) -> Value {
      return arith::SelectOp::create(rewriter, loc, condition, x, y);
    };
    auto rounded = [&](Value value) -> Value { return arith::TruncFOp::create(rewriter, loc, type, value); };
    const llvm::fltSemantics &single = APFloat::IEEEsingle();
    Value magnitude = math::AbsFOp::create(rewriter, loc, row);
    Value finite = less(magnitude, splat(wide, APFloat::getInf(single)));
    // What is nearer to no number than to the largest one of bf16 is rounded to that.
    APFloat largest = APFloat::getLargest(APFloat::BFloat());
    bool lossy;
    largest.convert(single, APFloat::rmNearestTiesToEven, &lossy);
    Value above = splat(wide, largest), below = splat(wide, -largest);
    Value limited = choose(less(above, row), above, row);
    limited = choose(less(limited, below), below, limited);
    Value first = rounded(choose(finite, limited, row));
    Value zeros = splat(type, APFloat::getZero(APFloat::BFloat()));
    Value left = choose(finite, row, splat(wide, APFloat::getZero(single)));
    SmallVector<Value> found{first, choose(finite, first, zeros)};
    while (static_cast<int64_t>(found.size()) < entries()) {
      left = arith::SubFOp::create(rewriter, loc, left, arith::ExtFOp::create(rewriter, loc, wide, found.back()));
      found.push_back(rounded(left));
    }
    return found;
  }

  RewriterBase &rewriter;
  int64_t pieces, order;
  Type narrow;
  /// The panels of pieces that take the place of others.
  llvm::MapVector<Value, Value> panels;
};
} // namespace

static bool isProductOfF32(vector::ContractionOp contract) {
  auto isF32 = [](Type type) { return getElementTypeOrSelf(type).isF32(); };
  return contract.getKind() == vector::CombiningKind::ADD && isF32(contract.getLhsType()) &&
         isF32(contract.getRhsType()) && isa<VectorType>(contract.getAccType()) && isF32(contract.getAccType()) &&
         contract.getIndexingMapsArray() == productMaps(contract.getContext());
}

/// Whether every vector read from `panel` is multiplied, and nothing else is done to it.
static bool isMultiplied(Panel &panel, const llvm::SmallDenseSet<Operation *> &products) {
  return panel.alloc.getType().getElementType().isF32() && llvm::all_of(panel.reads, [&](vector::TransferReadOp read) {
           return llvm::all_of(read->getUses(), [&](OpOperand &use) {
             return products.contains(use.getOwner()) && use.getOperandNumber() < 2;
           });
         });
}

/// The loop over k in which `products` are all that is summed; null when there is none.
static scf::ForOp loopOf(vector::ContractionOp product, const llvm::SmallDenseSet<Operation *> &products) {
  auto loop = dyn_cast<scf::ForOp>(product->getParentOp());
  if (!loop || llvm::any_of(*loop.getBody(), [](Operation &op) {
        return !isa<vector::TransferReadOp, scf::YieldOp>(op) && !isMemoryEffectFree(&op);
      }))
    return nullptr;
  bool isSum = llvm::all_of(llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()), [&](auto carried) {
    auto [sum, next] = carried;
    auto contract = next.template getDefiningOp<vector::ContractionOp>();
    return contract && products.contains(contract) && contract->getParentOp() == loop && contract.getAcc() == sum;
  });
  return isSum ? loop : nullptr;
}

DiagnosedSilenceableFailure SplitProductsOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  SmallVector<vector::ContractionOp> products;
  SmallVector<memref::AllocOp> allocs;
  target->walk([&](Operation *op) {
    if (auto contract = dyn_cast<vector::ContractionOp>(op); contract && isProductOfF32(contract))
      products.push_back(contract);
    else if (auto alloc = dyn_cast<memref::AllocOp>(op))
      allocs.push_back(alloc);
  });
  llvm::SmallDenseSet<Operation *> set(products.begin(), products.end());
  Splitting splitting(rewriter, *this);
  for (memref::AllocOp alloc : allocs)
    if (std::optional<Panel> panel = Panel::of(alloc); panel && isMultiplied(*panel, set))
      splitting.splitPanel(*panel);
  llvm::MapVector<scf::ForOp, SmallVector<vector::ContractionOp>> loops;
  for (vector::ContractionOp contract : products)
    if (scf::ForOp loop = loopOf(contract, set))
      loops[loop].push_back(contract);
    else
      splitting.splitProduct(contract);
  for (auto &[loop, contracts] : loops)
    splitting.splitLoop(loop, contracts);
  splitting.finish();
  return DiagnosedSilenceableFailure::success();
}

void SplitProductsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
