// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tilewright;

constexpr StringLiteral layoutName = "bufferization.buffer_layout";

/// The map (n, m) -> (m, n).
static AffineMap swapped(MLIRContext *context) {
  return AffineMap::getPermutationMap(ArrayRef<unsigned>{1, 0}, context);
}

/// The product of matrices in `function`, when there is one.
static linalg::LinalgOp findProduct(func::FuncOp function) {
  linalg::LinalgOp found;
  int64_t count = 0;
  function.walk([&](linalg::LinalgOp op) {
    if (op.getNumReductionLoops() != 0) {
      found = op;
      ++count;
    }
  });
  AffineExpr m, n, k;
  bindDims(function.getContext(), m, n, k);
  auto maps =
      AffineMap::inferFromExprList(ArrayRef<SmallVector<AffineExpr, 4>>{{m, k}, {k, n}, {m, n}}, function.getContext());
  bool isPlain = count == 1 && found.hasPureTensorSemantics() && found->getNumResults() == 1 &&
                 found->getNumOperands() == 3 && found.getIndexingMapsArray() == maps;
  return isPlain ? found : linalg::LinalgOp();
}

/// The argument of `function` that `value` is, when nothing else uses it.
static BlockArgument ownArgument(func::FuncOp function, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  bool isOwn = argument && argument.getOwner() == &function.getBody().front() && argument.hasOneUse();
  return isOwn ? argument : BlockArgument();
}

/// Gives an argument the type of its transpose, whose elements lie where they did.
static void transpose(func::FuncOp function, BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  argument.setType(type.clone({type.getDimSize(1), type.getDimSize(0)}));
  unsigned number = argument.getArgNumber();
  if (auto layout = function.getArgAttrOfType<StridedLayoutAttr>(number, layoutName)) {
    ArrayRef<int64_t> strides = layout.getStrides();
    function.setArgAttr(
        number, layoutName,
        StridedLayoutAttr::get(function.getContext(), layout.getOffset(), ArrayRef<int64_t>{strides[1], strides[0]}));
  }
}

/// `product` with `b` as its first input and `a` as its second one.
static Value exchanged(RewriterBase &rewriter, linalg::LinalgOp product, Value a, Value b, Value zeros) {
  Location loc = product.getLoc();
  if (auto matmul = dyn_cast<linalg::MatmulOp>(product.getOperation())) {
    SmallVector<NamedAttribute> attributes;
    if (linalg::TypeFnAttr cast = matmul.getCastAttr())
      attributes.push_back(rewriter.getNamedAttr(matmul.getCastAttrName(), cast));
    return linalg::MatmulOp::create(rewriter, loc, ValueRange{b, a}, ValueRange{zeros}, attributes).getResult(0);
  }
  auto generic = linalg::GenericOp::create(rewriter, loc, zeros.getType(), ValueRange{b, a}, ValueRange{zeros},
                                           product.getIndexingMapsArray(), product.getIteratorTypesArray());
  IRMapping mapping;
  product->getRegion(0).cloneInto(&generic.getRegion(), mapping);
  Block *body = generic.getBody();
  Value first = body->getArgument(0), second = body->getArgument(1);
  BlockArgument newFirst = body->insertArgument(0u, second.getType(), second.getLoc()),
                newSecond = body->insertArgument(1u, first.getType(), first.getLoc());
  rewriter.replaceAllUsesWith(second, newFirst);
  rewriter.replaceAllUsesWith(first, newSecond);
  body->eraseArguments(2, 2);
  // The first factor stays that of the first input: a contraction has its operands in this order.
  for (auto multiply : body->getOps<arith::MulIOp>()) {
    Value lhs = multiply.getLhs(), rhs = multiply.getRhs();
    rewriter.modifyOpInPlace(multiply, [&] { multiply->setOperands({rhs, lhs}); });
  }
  return generic.getResult(0);
}

/// Copies `sums`, n x m elements, to `c`, of m x n elements.
static Value writeTransposed(RewriterBase &rewriter, Location loc, Value sums, Value c) {
  MLIRContext *context = rewriter.getContext();
  SmallVector<utils::IteratorType> iterators(2, utils::IteratorType::parallel);
  SmallVector<AffineMap> maps{AffineMap::getMultiDimIdentityMap(2, context), swapped(context)};
  return linalg::GenericOp::create(rewriter, loc, c.getType(), ValueRange{sums}, ValueRange{c}, maps, iterators,
                                   [](OpBuilder &builder, Location loc, ValueRange elements) {
                                     linalg::YieldOp::create(builder, loc, elements.front());
                                   })
      .getResult(0);
}

/// The op that makes the result of the sums of a product, when it is one that reads them in their order.
static linalg::GenericOp findFinish(linalg::LinalgOp product) {
  Value sums = product->getResult(0);
  auto finish = sums.hasOneUse() ? dyn_cast<linalg::GenericOp>(*sums.user_begin()) : linalg::GenericOp();
  bool isElementwise = finish && finish.getNumLoops() == 2 && finish.getNumParallelLoops() == 2 &&
                       finish.isDpsInput(&*sums.use_begin()) &&
                       finish.getMatchingIndexingMap(&*sums.use_begin()).isIdentity();
  return isElementwise ? finish : linalg::GenericOp();
}

DiagnosedSilenceableFailure ExchangeOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                   transform::ApplyToEachResultList &results,
                                                   transform::TransformState &state) {
  auto fail = [&](StringRef why) {
    DiagnosedSilenceableFailure failure = emitSilenceableError() << why;
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  };
  auto function = dyn_cast<func::FuncOp>(target);
  linalg::LinalgOp product = function && !function.isExternal() ? findProduct(function) : linalg::LinalgOp();
  if (!product)
    return fail("expected a function with one product of two matrices on tensors");
  BlockArgument a = ownArgument(function, product->getOperand(0)), b = ownArgument(function, product->getOperand(1));
  auto fill = product->getOperand(2).getDefiningOp<linalg::FillOp>();
  if (!a || !b || !fill)
    return fail("expected arguments that nothing but the product uses, and sums that start from zeros");
  linalg::GenericOp finish = findFinish(product);
  Value former = fill.getDpsInitOperand(0)->get();
  if (!finish && former.getDefiningOp<tensor::EmptyOp>())
    return fail("expected sums that are the result, or that one elementwise op makes it of");

  transpose(function, a);
  transpose(function, b);
  function.setFunctionType(
      rewriter.getFunctionType(function.getBody().front().getArgumentTypes(), function.getResultTypes()));
  Location loc = product.getLoc();
  rewriter.setInsertionPoint(product);
  auto kind = cast<RankedTensorType>(fill.getType(0));
  Value empty = tensor::EmptyOp::create(
      rewriter, loc, {tensor::getMixedSize(rewriter, loc, b, 0), tensor::getMixedSize(rewriter, loc, a, 1)},
      kind.getElementType());
  Value zeros = linalg::FillOp::create(rewriter, fill.getLoc(), fill.getInputs(), ValueRange{empty}).getResult(0);
  Value sums = exchanged(rewriter, product, a, b, zeros);
  if (!finish) {
    rewriter.replaceOp(product, writeTransposed(rewriter, loc, sums, former));
  } else {
    OpOperand &use = *product->getResult(0).use_begin();
    SmallVector<AffineMap> maps = finish.getIndexingMapsArray();
    maps[use.getOperandNumber()] = swapped(rewriter.getContext());
    rewriter.modifyOpInPlace(finish, [&] {
      use.set(sums);
      finish.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
    });
    rewriter.eraseOp(product);
    if (failed(linalg::interchangeGenericOp(rewriter, finish, {1, 0})))
      return emitDefiniteFailure() << "the loops of what is done to the sums cannot be interchanged";
  }
  if (fill->use_empty())
    rewriter.eraseOp(fill);
  return DiagnosedSilenceableFailure::success();
}

void ExchangeOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}
