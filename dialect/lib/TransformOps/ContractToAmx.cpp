// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AmxCarriers.h"
#include "DotForm.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// A contraction that AMX does, and how its operands are read.
struct Product {
  vector::ContractionOp contract;

  /// One of all rows, or one for the rows of each tile.
  SmallVector<vector::TransferReadOp> lhs;
  vector::TransferReadOp rhs;
  bool lhsUnsigned, rhsUnsigned;
  TileBlock sums;
  int64_t depth;

  /// Over k, each of `amxRows` groups of `depth` elements.
  int64_t steps;

  int64_t stepElements() const { return amxRows * depth; }
};
} // namespace

/// Whether AMX multiplies elements of type `element` into sums of type `sum`.
static bool multiplies(Type element, Type sum) {
  if (sum.isF32())
    return element.isBF16() || element.isF16();
  return sum.isInteger(32) && element.isInteger(8);
}

/// Whether `contract` is in dot form, of operands that are extended from a type that AMX multiplies, and of whole steps
/// over k: groups for one dot product only are left to instructions on vectors.
static bool isDotForm(vector::ContractionOp contract) {
  auto sum = dyn_cast<VectorType>(contract.getAccType());
  Operation *lhs = extensionOf(contract.getLhs()), *rhs = extensionOf(contract.getRhs());
  if (!sum || !lhs || !rhs || contract.getKind() != vector::CombiningKind::ADD ||
      contract.getIndexingMapsArray() != dotFormMaps(contract.getContext()) ||
      contract.getLhsType().getDimSize(1) % amxRows != 0)
    return false;
  Type element = getElementTypeOrSelf(lhs->getOperand(0).getType());
  return multiplies(element, sum.getElementType()) && element == getElementTypeOrSelf(rhs->getOperand(0).getType());
}

/// The read in bounds of contiguous rows that `operand` is grouped and extended from; null when there is none.
static vector::TransferReadOp readOf(Value operand) {
  auto grouped = extensionOf(operand)->getOperand(0).getDefiningOp<vector::ShapeCastOp>();
  auto read = grouped ? grouped.getSource().getDefiningOp<vector::TransferReadOp>() : nullptr;
  return read && isWhole(read) ? read : nullptr;
}

/// The reads that `operand`, whose tiles have `rows`, is made of: one, or one for the rows of each tile, from the first
/// on, which are inserted in a vector one after the other. Empty when something else is in it.
static SmallVector<vector::TransferReadOp> readsOf(Value operand, TileSplit rows) {
  if (vector::TransferReadOp read = readOf(operand))
    return {read};
  auto grouped = extensionOf(operand)->getOperand(0).getDefiningOp<vector::ShapeCastOp>();
  SmallVector<vector::TransferReadOp> reads(rows.count);
  auto insert = grouped ? grouped.getSource().getDefiningOp<vector::InsertStridedSliceOp>() : nullptr;
  for (; insert; insert = insert.getDest().getDefiningOp<vector::InsertStridedSliceOp>()) {
    auto read = insert.getValueToStore().getDefiningOp<vector::TransferReadOp>();
    int64_t row = cast<IntegerAttr>(insert.getOffsets()[0]).getInt();
    if (!read || !isWhole(read) || row % rows.size != 0 ||
        read.getVectorType().getShape() !=
            ArrayRef<int64_t>{rows.size, cast<VectorType>(grouped.getSource().getType()).getDimSize(1)})
      return {};
    if (!reads[row / rows.size])
      reads[row / rows.size] = read;
  }
  return llvm::all_of(reads, [](vector::TransferReadOp read) { return bool(read); })
             ? reads
             : SmallVector<vector::TransferReadOp>();
}

/// Whether `op`, or one in it, may write to memory. A prefetch does not.
static bool mayWrite(Operation *op) {
  if (isa<memref::PrefetchOp>(op))
    return false;
  std::optional<SmallVector<MemoryEffects::EffectInstance>> effects = getEffectsRecursively(op);
  return !effects || llvm::any_of(*effects, [](const MemoryEffects::EffectInstance &effect) {
    return !isa<MemoryEffects::Read>(effect.getEffect());
  });
}

/// Whether memory stays as it is from `read` to `later`, in one block.
static bool keepsUntil(vector::TransferReadOp read, Operation *later) {
  if (read->getBlock() != later->getBlock())
    return false;
  for (Operation *op = read; op != later; op = op->getNextNode())
    if (mayWrite(op))
      return false;
  return true;
}

/// What `contract`, which is in dot form, is to AMX; otherwise says in `problem` what it lacks.
static std::optional<Product> findProduct(vector::ContractionOp contract, std::string &problem) {
  VectorType lhsType = contract.getLhsType(), rhsType = contract.getRhsType();
  Operation *lhs = extensionOf(contract.getLhs()), *rhs = extensionOf(contract.getRhs());
  int64_t depth = 32 / getElementTypeOrSelf(lhs->getOperand(0).getType()).getIntOrFloatBitWidth();
  if (lhsType.getDimSize(2) != depth) {
    problem = llvm::formatv("expected groups of {0} elements, got {1}", depth, lhsType.getDimSize(2));
    return std::nullopt;
  }
  std::optional<TileBlock> sums = TileBlock::of(cast<VectorType>(contract.getAccType()));
  if (!sums) {
    problem = llvm::formatv("expected rows in tiles as long, of up to {0}, and columns in multiples of {0}, or fewer",
                            amxRows);
    return std::nullopt;
  }
  // The tiles of the operand that has fewer stay while those of the other pass through one register.
  int64_t registers = sums->size() + std::min(sums->rows.count, sums->columns.count) + 1;
  if (registers > amxTiles) {
    problem = llvm::formatv("it needs {0} tile registers, and there are {1}", registers, amxTiles);
    return std::nullopt;
  }
  SmallVector<vector::TransferReadOp> lhsReads = readsOf(contract.getLhs(), sums->rows);
  vector::TransferReadOp rhsRead = readOf(contract.getRhs());
  ArrayRef<int64_t> lhsShape = lhsType.getShape(), rhsShape = rhsType.getShape();
  int64_t rows = lhsReads.size() > 1 ? sums->rows.size : lhsShape[0];
  if (lhsReads.empty() || !rhsRead ||
      lhsReads[0].getVectorType().getShape() != ArrayRef<int64_t>{rows, lhsShape[1] * lhsShape[2]} ||
      rhsRead.getVectorType().getShape() != ArrayRef<int64_t>{rhsShape[0], rhsShape[1] * rhsShape[2]}) {
    problem =
        "expected operands that are read in bounds from contiguous rows, A as [m][k], B as [k / depth][n * depth]";
    return std::nullopt;
  }
  auto keeps = [&](vector::TransferReadOp read) { return keepsUntil(read, contract); };
  if (!llvm::all_of(lhsReads, keeps) || !keeps(rhsRead)) {
    problem = "expected operands that are read in the contraction's block, with no write to memory in between";
    return std::nullopt;
  }
  return Product{contract,
                 lhsReads,
                 rhsRead,
                 isa<arith::ExtUIOp>(lhs),
                 isa<arith::ExtUIOp>(rhs),
                 *sums,
                 depth,
                 lhsShape[1] / amxRows};
}

namespace {
/// Builds the tile operations of one product.
class Multiply {
public:
  Multiply(RewriterBase &rewriter, Product product) : rewriter(rewriter), p(product), loc(p.contract.getLoc()) {}

  /// Adds one step over k of as many groups as a tile has to `sums`.
  void step(int64_t number, MutableArrayRef<Value> sums) {
    int64_t rows = p.sums.rows.count, columns = p.sums.columns.count;
    bool keepsLhs = rows <= columns;
    int64_t stay = std::min(rows, columns), pass = std::max(rows, columns);
    // Each tile is loaded right before its first product: products wait less for L2 than after all loads of a step.
    SmallVector<Value> kept(stay);
    for (int64_t j = 0; j < pass; ++j) {
      Value passing = keepsLhs ? loadRhs(number, j) : loadLhs(j, number);
      for (int64_t i = 0; i < stay; ++i) {
        if (!kept[i])
          kept[i] = keepsLhs ? loadLhs(i, number) : loadRhs(number, i);
        Value &sum = keepsLhs ? sums[i * columns + j] : sums[j * columns + i];
        sum = keepsLhs ? multiply(kept[i], passing, sum) : multiply(passing, kept[i], sum);
      }
    }
  }

private:
  Value loadLhs(int64_t row, int64_t step) {
    int64_t size = p.sums.rows.size;
    vector::TransferReadOp read = p.lhs.size() > 1 ? p.lhs[row] : p.lhs.front();
    return load(read, p.lhs.size() > 1 ? 0 : row * size, size, step * p.stepElements(), p.stepElements());
  }

  Value loadRhs(int64_t step, int64_t column) {
    int64_t width = p.sums.columns.size * p.depth;
    return load(p.rhs, step * amxRows, amxRows, column * width, width);
  }

  Value load(vector::TransferReadOp read, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    TilePlace place = TilePlace{read.getBase(), SmallVector<Value>(read.getIndices())}.at(rewriter, loc, row, column);
    auto type = amx::TileType::get({rows, columns}, read.getVectorType().getElementType());
    return amx::TileLoadOp::create(rewriter, loc, type, place.base, place.indices);
  }

  Value multiply(Value lhs, Value rhs, Value sum) {
    if (p.sums.vector.getElementType().isF32())
      return amx::TileMulFOp::create(rewriter, loc, sum.getType(), lhs, rhs, sum);
    return amx::TileMulIOp::create(rewriter, loc, sum.getType(), lhs, rhs, sum, p.lhsUnsigned, p.rhsUnsigned);
  }

  RewriterBase &rewriter;
  Product p;
  Location loc;
};
} // namespace

/// Erases `value`'s operation, and then those of its operands, as far as nothing uses them.
static void eraseUnused(RewriterBase &rewriter, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isOpTriviallyDead(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  rewriter.eraseOp(op);
  for (Value operand : operands)
    eraseUnused(rewriter, operand);
}

static void rewriteProduct(RewriterBase &rewriter, TileValues &values, const Product &product) {
  vector::ContractionOp contract = product.contract;
  rewriter.setInsertionPoint(contract);
  SmallVector<Value> sums = values.split(contract.getAcc(), product.sums);
  Multiply multiply(rewriter, product);
  for (int64_t number = 0; number < product.steps; ++number)
    multiply.step(number, sums);
  SmallVector<Value> operands{contract.getLhs(), contract.getRhs()};
  rewriter.replaceOp(contract, values.join(sums, product.sums, contract.getLoc()));
  for (Value operand : operands)
    eraseUnused(rewriter, operand);
}

DiagnosedSilenceableFailure ContractToAmxOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                        transform::ApplyToEachResultList &results,
                                                        transform::TransformState &state) {
  SmallVector<vector::ContractionOp> contracts;
  target->walk([&](vector::ContractionOp contract) {
    if (isDotForm(contract))
      contracts.push_back(contract);
  });
  SmallVector<Product> products;
  for (vector::ContractionOp contract : contracts) {
    std::string problem;
    std::optional<Product> product = findProduct(contract, problem);
    if (!product) {
      DiagnosedSilenceableFailure failure = emitSilenceableError() << "the contraction is none for AMX: " << problem;
      failure.attachNote(contract.getLoc()) << "payload operation";
      return failure;
    }
    products.push_back(*product);
  }
  Carriers carriers = findCarriers(contracts);
  TileValues values(rewriter);
  for (const Product &product : products)
    rewriteProduct(rewriter, values, product);
  for (auto &[carrier, carried] : carriers)
    values.carry(carrier, carried.getArrayRef());
  values.resolve();
  return DiagnosedSilenceableFailure::success();
}

void ContractToAmxOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
