// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DotOperands.h"
#include "DotForm.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tilewright;

bool DotOperands::findOperands() {
  std::optional<Narrow> left = narrowed(contract.getLhs()), right = narrowed(contract.getRhs());
  if (!left || !right)
    return false;
  lhs = *left;
  rhs = *right;
  return true;
}

bool DotOperands::signsFit(bool unsignedFirst, bool bothUnsigned) const {
  if (unsignedFirst)
    return lhs.isUnsigned != rhs.isUnsigned;
  return lhs.isUnsigned == bothUnsigned && rhs.isUnsigned == bothUnsigned;
}

std::optional<Narrow> DotOperands::narrowed(Value operand) {
  if (Operation *extension = extensionOf(operand)) {
    Value source = extension->getOperand(0);
    if (getElementTypeOrSelf(source) != element)
      return std::nullopt;
    return Narrow{source, isa<arith::ExtUIOp>(extension)};
  }
  return narrowedConstant(operand);
}

/// A constant that was folded with its extension: it has the sign with which it fits.
std::optional<Narrow> DotOperands::narrowedConstant(Value operand) {
  SplatElementsAttr splat;
  auto narrow = dyn_cast<IntegerType>(element);
  if (!narrow || !matchPattern(operand, m_Constant(&splat)))
    return std::nullopt;
  APInt value = splat.getSplatValue<APInt>();
  bool isSigned = value.isSignedIntN(narrow.getWidth());
  if (!isSigned && !value.isIntN(narrow.getWidth()))
    return std::nullopt;
  auto type = cast<VectorType>(operand.getType()).clone(element);
  auto attr = DenseElementsAttr::get(cast<ShapedType>(Type(type)), value.trunc(narrow.getWidth()));
  return Narrow{arith::ConstantOp::create(rewriter, loc, attr), !isSigned};
}

vector::TransferReadOp DotOperands::rereadable(Value value, bool columnsInBounds) {
  auto read = value.getDefiningOp<vector::TransferReadOp>();
  if (!read || read->getBlock() != contract->getBlock() || read.getMask() || read.getVectorType().getRank() != 2 ||
      !read.isDimInBounds(0) || (columnsInBounds && !read.isDimInBounds(1)) ||
      !read.getPermutationMap().isMinorIdentity())
    return nullptr;
  for (Operation *op = read->getNextNode(); op != contract; op = op->getNextNode())
    if (!isMemoryEffectFree(op) && !isa<vector::TransferReadOp, LLVM::CallIntrinsicOp>(op))
      return nullptr;
  return read;
}

Value DotOperands::reread(vector::TransferReadOp read, int64_t row, int64_t column, int64_t width) {
  SmallVector<Value> indices(read.getIndices());
  AffineExpr index = rewriter.getAffineDimExpr(0);
  auto shift = [&](Value &value, int64_t by) {
    value = getValueOrCreateConstantIndexOp(
        rewriter, loc, affine::makeComposedFoldedAffineApply(rewriter, loc, index + by, getAsOpFoldResult(value)));
  };
  shift(indices[indices.size() - 2], row);
  shift(indices.back(), column);
  return vector::TransferReadOp::create(rewriter, loc, VectorType::get({width}, element), read.getBase(), indices,
                                        read.getPadding(), ArrayRef<bool>{read.isDimInBounds(1)});
}
