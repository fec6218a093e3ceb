// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Panel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;

static bool isPlain(VectorTransferOpInterface transfer) {
  return !transfer.getMask() && !transfer.hasOutOfBoundsDim() && transfer.getPermutationMap().isMinorIdentity();
}

std::optional<Panel> Panel::of(memref::AllocOp alloc) {
  Panel panel{alloc, {}, {}};
  if (!alloc.getType().hasStaticShape() || !alloc.getType().getLayout().isIdentity() || alloc.getType().getRank() < 2)
    return std::nullopt;
  for (Operation *user : alloc->getUsers()) {
    if (auto read = dyn_cast<vector::TransferReadOp>(user); read && isPlain(read))
      panel.reads.push_back(read);
    else if (auto write = dyn_cast<vector::TransferWriteOp>(user);
             write && isPlain(write) && write.getBase() == alloc.getMemref())
      panel.writes.push_back(write);
    else
      return std::nullopt;
  }
  if (panel.reads.empty() || panel.writes.empty())
    return std::nullopt;
  return panel;
}

memref::AllocOp tilewright::reallocate(RewriterBase &rewriter, memref::AllocOp alloc, MemRefType type) {
  rewriter.setInsertionPoint(alloc);
  return memref::AllocOp::create(rewriter, alloc.getLoc(), type, alloc.getAlignmentAttr());
}

vector::TransferReadOp tilewright::reread(RewriterBase &rewriter, vector::TransferReadOp read, VectorType type,
                                          Value base, ValueRange indices) {
  Value padding = arith::ConstantOp::create(rewriter, read.getLoc(), rewriter.getZeroAttr(type.getElementType()));
  return vector::TransferReadOp::create(rewriter, read.getLoc(), type, base, indices, padding,
                                        SmallVector<bool>(type.getRank(), true));
}
