// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BlockTile.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// What is wrong with a payload, and where.
struct Flaw {
  Operation *where = nullptr;
  std::string what;

  explicit operator bool() const { return where != nullptr; }
};

Flaw flaw(Operation *where, const Twine &what) { return {where, what.str()}; }

std::string quoted(Operation *op) { return ("'" + op->getName().getStringRef() + "'").str(); }
} // namespace

/// Whether a value is zero, or a vector of zeros.
static bool isZero(Value value) { return matchPattern(value, m_Zero()) || matchPattern(value, m_PosZeroFloat()); }

/// Whether `offset` is `index` times `factor`.
static bool isMultipleOf(OpFoldResult offset, Value index, int64_t factor) {
  auto value = dyn_cast<Value>(offset);
  if (value == index)
    return factor == 1;
  auto apply = value ? value.getDefiningOp<affine::AffineApplyOp>() : nullptr;
  if (!apply || apply.getMapOperands().size() != 1 || apply.getMapOperands()[0] != index)
    return false;
  AffineMap map = apply.getAffineMap();
  AffineExpr of =
      map.getNumDims() == 1 ? getAffineDimExpr(0, map.getContext()) : getAffineSymbolExpr(0, map.getContext());
  return map.getResult(0) == of * factor;
}

/// The loop's two axes are the grid's second and first one.
static Flaw checkMapping(scf::ForallOp blocks) {
  auto isBlock = [](Attribute each, gpu::MappingId id) {
    auto block = dyn_cast<gpu::GPUBlockMappingAttr>(each);
    return block && block.getBlock() == id;
  };
  std::optional<ArrayAttr> mapping = blocks.getMapping();
  if (mapping && mapping->size() == 2 && isBlock((*mapping)[0], gpu::MappingId::DimY) &&
      isBlock((*mapping)[1], gpu::MappingId::DimX) && blocks.isNormalized())
    return {};
  return flaw(blocks, "expected a loop over blocks of M and N: tile with tile_using_forall and "
                      "mapping = [#gpu.block<y>, #gpu.block<x>]");
}

/// A transfer reads or writes a slice as it lies, from its first element on, perhaps one number for a row or a column
/// of the tile.
static Flaw checkTransfer(VectorTransferOpInterface transfer) {
  for (Value index : transfer.getIndices())
    if (!isZeroInteger(index))
      return flaw(transfer, quoted(transfer) + " starts within a tensor: fold no slices into transfers");
  AffineMap map = transfer.getPermutationMap();
  int64_t last = -1;
  for (AffineExpr each : map.getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(each)) {
      if (static_cast<int64_t>(dim.getPosition()) <= last)
        return flaw(transfer, quoted(transfer) + " is in another order than its tensor lies: expected no permutation");
      last = dim.getPosition();
    }
  Operation *mask = transfer.getMask() ? transfer.getMask().getDefiningOp() : nullptr;
  if (transfer.getMask() && !isa_and_nonnull<vector::CreateMaskOp, vector::ConstantMaskOp>(mask))
    return flaw(transfer,
                quoted(transfer) + " is under a mask that does not say how far it goes: expected a vector.create_mask");
  return {};
}

/// Whether an op computes each element of a vector from elements, and numbers, at the same place, or is a transfer or a
/// product.
static bool isByElement(Operation *op) {
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return !isa<VectorType>(broadcast.getSourceType()) || !cast<VectorType>(broadcast.getSourceType()).getRank();
  if (isa<vector::ContractionOp>(op))
    return isa<scf::ForOp>(op->getParentOp());
  return isa<VectorTransferOpInterface>(op) || op->hasTrait<OpTrait::ConstantLike>() ||
         OpTrait::hasElementwiseMappableTraits(op);
}

/// An op is one that the threads of a block can share: no loop, and of tensors only slices and vectors that are put
/// into them.
static Flaw checkOp(Operation *op) {
  if (isa<linalg::LinalgOp, tensor::PadOp>(op))
    return flaw(op, quoted(op) + " is not in vectors: vectorize it first");
  if (op->getNumRegions())
    return flaw(op, quoted(op) + " in a block: expected one loop, over K, and vectors as large as the tile");
  bool onTensors = llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
  if (onTensors && !isa<arith::ConstantOp, bufferization::AllocTensorOp, tensor::CastOp, tensor::EmptyOp,
                        tensor::ExtractSliceOp, vector::TransferWriteOp>(op))
    return flaw(op, quoted(op) + " of a tensor in a block: expected slices, and vectors that are read and written");
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op); slice && !slice.hasUnitStride())
    return flaw(op, quoted(op) + " leaves elements out: expected slices of neighbors");
  if (auto alloc = dyn_cast<bufferization::AllocTensorOp>(op); alloc && alloc.getCopy())
    return flaw(op, quoted(op) + " copies a tensor: expected none");
  if (auto transfer = dyn_cast<VectorTransferOpInterface>(op))
    return checkTransfer(transfer);
  return {};
}

/// Every vector of an op is of one of some shapes; masks may be of fewer axes.
static Flaw checkVectors(Operation *op, ArrayRef<SmallVector<int64_t>> shapes) {
  if (isa<vector::CreateMaskOp, vector::ConstantMaskOp>(op))
    return {};
  for (Type type : op->getResultTypes()) {
    auto vector = dyn_cast<VectorType>(type);
    if (vector && !vector.getRank()) // One number for all elements.
      continue;
    if (vector && !isByElement(op))
      return flaw(op, quoted(op) + " moves elements of a vector: expected what is done to each by itself");
    if (vector && !llvm::is_contained(shapes, SmallVector<int64_t>(vector.getShape())))
      return flaw(op, quoted(op) +
                          " is of vectors that are no tile of the block's: vectorize everything by the tile's sizes");
  }
  return {};
}

/// A vector that is multiplied, behind whatever only converts its elements, is read as it lies, with zeros beyond the
/// edges.
static Flaw checkOperand(Value operand) {
  Operation *op = operand.getDefiningOp();
  while (op && op->getNumOperands() == 1 && !isa<VectorTransferOpInterface>(op))
    op = op->getOperand(0).getDefiningOp();
  auto read = dyn_cast_or_null<vector::TransferReadOp>(op);
  if (!read)
    return {};
  if (!read.getPermutationMap().isIdentity())
    return flaw(read,
                "what is multiplied is no tile of a matrix as it lies: expected no permutation, and no broadcast");
  if (matchPattern(read.getPadding(), m_Constant()) && !isZero(read.getPadding()))
    return flaw(read, "what is multiplied is padded with another number than zero");
  return {};
}

/// A product of the loop over K multiplies tiles of A and B, the sizes of which it says.
static Flaw checkProduct(vector::ContractionOp contract, BlockTile &found) {
  AffineExpr m, n, k;
  bindDims(contract.getContext(), m, n, k);
  auto maps =
      AffineMap::inferFromExprList(ArrayRef<SmallVector<AffineExpr, 4>>{{m, k}, {k, n}, {m, n}}, contract.getContext());
  auto sums = dyn_cast<VectorType>(contract.getResultType());
  if (!sums || contract.getIndexingMapsArray() != maps || contract.getKind() != vector::CombiningKind::ADD)
    return flaw(contract, "expected a contraction of (m, k) and (k, n) to (m, n)");
  found.rows = sums.getDimSize(0);
  found.columns = sums.getDimSize(1);
  found.depth = contract.getLhsType().getDimSize(1);
  for (Value operand : {contract.getLhs(), contract.getRhs()})
    if (Flaw wrong = checkOperand(operand))
      return wrong;
  return {};
}

/// The loop over K of a block, whose products of one tile of A each add to what the loop carries, from zero on.
static Flaw findProducts(BlockTile &found) {
  SmallVector<scf::ForOp> loops(found.blocks.getBody()->getOps<scf::ForOp>());
  if (loops.size() != 1)
    return flaw(found.blocks,
                "expected one loop over K in a block, got " + Twine(loops.size()) + ": tile K with tile_using_for");
  scf::ForOp overK = found.overK = loops.front();
  SmallVector<vector::ContractionOp> products(overK.getBody()->getOps<vector::ContractionOp>());
  if (products.empty())
    return flaw(overK, "expected a vector.contract in the loop over K: vectorize the product by the tile's sizes");
  for (vector::ContractionOp each : products) {
    if (each.getLhs() != products.front().getLhs() || each.getResultType() != products.front().getResultType())
      return flaw(each, "expected products of one tile of A, and of tiles of one size");
    if (Flaw wrong = checkProduct(each, found))
      return wrong;
  }
  auto yield = cast<scf::YieldOp>(overK.getBody()->getTerminator());
  bool summed = overK.getNumRegionIterArgs() == products.size();
  for (auto [start, sums, next] : llvm::zip(overK.getInitArgs(), overK.getRegionIterArgs(), yield.getOperands())) {
    auto product = next.getDefiningOp<vector::ContractionOp>();
    summed = summed && isZero(start) && product && product.getAcc() == sums;
  }
  if (!summed)
    return flaw(
        overK, "expected a loop over K that carries the sums in vectors, from zero on: fuse what fills them, and hoist "
               "what reads and writes them");
  if (!isZeroInteger(overK.getLowerBound()) || getConstantIntValue(overK.getStep()) != found.depth)
    return flaw(overK, "expected a loop over K from zero by as much as its vectors have, " + Twine(found.depth));
  return {};
}

/// What a block writes is its tile of the result: that of its number, by the tile's sizes.
static Flaw checkPlaces(BlockTile &found) {
  scf::ForallOp blocks = found.blocks;
  for (Operation &each : blocks.getTerminator().getYieldingOps()) {
    auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(each);
    if (!insert || insert.getMixedOffsets().size() != 2 ||
        !isMultipleOf(insert.getMixedOffsets()[0], blocks.getInductionVar(0), found.rows) ||
        !isMultipleOf(insert.getMixedOffsets()[1], blocks.getInductionVar(1), found.columns))
      return flaw(blocks, "a block's tile is not of the " + Twine(found.rows) + "x" + Twine(found.columns) +
                              " elements that its vectors have: tile and vectorize by the same sizes");
  }
  return {};
}

/// Everything in a block, and around the loop over blocks.
static Flaw checkOps(BlockTile &found) {
  SmallVector<int64_t> tile{found.rows, found.columns}, a{found.rows, found.depth}, b{found.depth, found.columns};
  for (Operation &op : found.blocks.getBody()->without_terminator()) {
    if (&op == found.overK)
      continue;
    if (Flaw wrong = checkOp(&op))
      return wrong;
    if (Flaw wrong = checkVectors(&op, {tile}))
      return wrong;
  }
  for (Operation &op : found.overK.getBody()->without_terminator()) {
    if (Flaw wrong = checkOp(&op))
      return wrong;
    if (Flaw wrong = checkVectors(&op, {tile, a, b}))
      return wrong;
  }
  auto function = found.blocks->getParentOfType<FunctionOpInterface>();
  Flaw outside;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == found.blocks)
      return WalkResult::skip();
    if (op == function || isa<scf::ForallOp, tensor::InsertSliceOp>(op) || isa<tensor::ParallelInsertSliceOp>(op) ||
        op->hasTrait<OpTrait::IsTerminator>())
      return WalkResult::advance();
    outside = checkOp(op);
    return outside ? WalkResult::interrupt() : WalkResult::advance();
  });
  return outside;
}

DiagnosedSilenceableFailure tilewright::findBlockTile(transform::TransformOpInterface op, Operation *target,
                                                      BlockTile &found) {
  found.blocks = dyn_cast_or_null<scf::ForallOp>(target);
  Flaw wrong = found.blocks ? checkMapping(found.blocks)
                            : flaw(target, "expected an scf.forall over blocks of threads, got " + quoted(target));
  for (auto check : {findProducts, checkPlaces, checkOps})
    if (!wrong)
      wrong = check(found);
  if (!wrong)
    return DiagnosedSilenceableFailure::success();
  DiagnosedSilenceableFailure failure = op.emitSilenceableError() << wrong.what;
  failure.attachNote(wrong.where->getLoc()) << "payload operation";
  return failure;
}
