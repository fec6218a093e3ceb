// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "RowChain.h"
#include "VectorBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;

/// The op that combines the output's element with another one in `generic`, and nothing else does; or null.
static Operation *combinerOf(linalg::GenericOp generic) {
  Block *block = generic.getBlock();
  Operation *combiner = block->getTerminator()->getOperand(0).getDefiningOp();
  BlockArgument output = block->getArguments().back();
  if (!combiner || !isa<arith::AddFOp, arith::AddIOp, arith::MaximumFOp, arith::MaxSIOp>(combiner))
    return nullptr;
  bool once =
      output.hasOneUse() && combiner->getNumOperands() == 2 && llvm::is_contained(combiner->getOperands(), output);
  return once ? combiner : nullptr;
}

static FailureOr<RowOp> classify(linalg::GenericOp generic, std::string &why) {
  auto refuse = [&](const char *what) -> FailureOr<RowOp> {
    why = what;
    return failure();
  };
  unsigned loops = generic.getNumLoops(), reductions = generic.getNumReductionLoops();
  if (!generic.hasPureTensorSemantics() || generic.getNumDpsInits() != 1 || loops == 0 || loops > 2)
    return refuse("an op is none over (m, n) or (m) on tensors, with one output");
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  if (!llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); }))
    return refuse("an op reads an input neither at the same place nor broadcast");
  if (!isElementwiseBody(generic.getBlock()))
    return refuse("an op computes more than one number from numbers");
  AffineMap output = maps.back();
  if (reductions == 0) {
    if (!output.isIdentity())
      return refuse("an op writes elsewhere than it reads");
    return RowOp{generic, loops == 2 ? RowOp::Elements : RowOp::Scalars};
  }
  auto fill = generic.getDpsInitOperand(0)->get().getDefiningOp<linalg::FillOp>();
  RowOp found{generic, RowOp::Reduction, combinerOf(generic)};
  if (loops != 2 || generic.getIteratorTypesArray()[1] != utils::IteratorType::reduction || reductions != 1 ||
      output.getNumResults() != 1 || !found.combiner)
    return refuse("a reduction is none along n by a sum or a maximum");
  if (!fill || !matchPattern(fill.value(), m_Constant(&found.start)))
    return refuse("a reduction's output is not filled with a constant");
  return found;
}

FailureOr<SmallVector<RowOp>> tilewright::rowChain(linalg::GenericOp last, std::string &why) {
  llvm::SmallSetVector<Operation *, 4> needed;
  needed.insert(last);
  for (size_t i = 0; i < needed.size(); ++i)
    for (Value operand : needed[i]->getOperands())
      if (auto generic = operand.getDefiningOp<linalg::GenericOp>(); generic && generic->getBlock() == last->getBlock())
        needed.insert(generic);
  SmallVector<RowOp> chain;
  for (Operation &op : *last->getBlock()) {
    if (!needed.contains(&op))
      continue;
    FailureOr<RowOp> found = classify(cast<linalg::GenericOp>(op), why);
    if (failed(found))
      return failure();
    bool isOurs = llvm::all_of(op.getUsers(), [&](Operation *user) {
      return &op == last.getOperation() || needed.contains(user) || isa<tensor::DimOp>(user);
    });
    if (!isOurs) {
      why = "an op is used by others";
      return failure();
    }
    chain.push_back(*found);
  }
  return chain;
}
