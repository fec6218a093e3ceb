// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FilledTensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace tilewright;

namespace {
/// The elements from `begin` to `end` of one dimension; where values say so, also none before `from` or none from `to`
/// on.
struct Range {
  int64_t begin = std::numeric_limits<int64_t>::min();
  int64_t end = std::numeric_limits<int64_t>::max();
  Value from, to;

  bool disjointFrom(const Range &other) const {
    return end <= other.begin || other.end <= begin || (to && to == other.from) || (from && from == other.to);
  }
};

/// A box of elements of a tensor that is written somewhere; what is not known of it spans everything.
using Box = SmallVector<Range>;

bool disjoint(const Box &a, const Box &b) {
  return llvm::any_of(llvm::zip_equal(a, b),
                      [](auto pair) { return std::get<0>(pair).disjointFrom(std::get<1>(pair)); });
}

/// The values that `offset` takes: one when it is a constant, those of the loop when it is an induction variable.
Range offsetRange(OpFoldResult offset) {
  if (std::optional<int64_t> constant = getConstantIntValue(offset))
    return {*constant, *constant + 1};
  auto argument = dyn_cast<BlockArgument>(cast<Value>(offset));
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : nullptr;
  if (!loop || argument != loop.getInductionVar())
    return {};
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound());
  std::optional<int64_t> upper = getConstantIntValue(loop.getUpperBound());
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  Range unknown;
  if (!lower)
    unknown.from = loop.getLowerBound();
  if (!lower || !upper || !step || *upper <= *lower)
    return unknown;
  return {*lower, *lower + (*upper - *lower - 1) / *step * *step + 1};
}

Box boxOf(OffsetSizeAndStrideOpInterface slice) {
  Box box;
  for (auto [offset, size, stride] :
       llvm::zip_equal(slice.getMixedOffsets(), slice.getMixedSizes(), slice.getMixedStrides())) {
    Range range = offsetRange(offset);
    std::optional<int64_t> extent = getConstantIntValue(size), step = getConstantIntValue(stride);
    Range elements;
    if (range.begin != Range().begin && extent && step && *step >= 0)
      elements = {range.begin, range.end + (*extent - 1) * *step};
    if (step && *step == 1) {
      elements.from = range.from;
      elements.to = isConstantIntValue(offset, 0) ? dyn_cast<Value>(size) : Value();
    }
    box.push_back(elements);
  }
  return box;
}

/// Whether boxes written into `tensor` can be all of it. What is not known counts as covered.
bool mayCover(Value tensor, ArrayRef<Box> written) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.hasStaticShape())
    return !written.empty();
  double elements = 0;
  for (const Box &box : written) {
    double volume = 1;
    for (auto [range, extent] : llvm::zip_equal(box, type.getShape()))
      volume *= std::max<int64_t>(0, std::min(range.end, extent) - std::max<int64_t>(range.begin, 0));
    elements += volume;
  }
  return elements >= static_cast<double>(type.getNumElements());
}

/// Whether one of `values` is computed from the induction variable of `loop`; nothing when that cannot be told.
std::optional<bool> dependOn(ArrayRef<Value> values, scf::ForOp loop) {
  SmallVector<Value> pending(values);
  llvm::SmallPtrSet<Value, 16> seen;
  bool opaque = false;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (value == loop.getInductionVar())
      return true;
    if (!loop.getRegion().isAncestor(value.getParentRegion()) || !seen.insert(value).second)
      continue;
    if (Operation *producer = value.getDefiningOp()) {
      opaque |= producer->getNumRegions() != 0;
      llvm::append_range(pending, producer->getOperands());
    } else if (scf::ForOp inner = scf::getForInductionVarOwner(value)) {
      pending.append({inner.getLowerBound(), inner.getStep()});
    } else {
      opaque = true;
    }
  }
  return opaque ? std::nullopt : std::optional(false);
}

/// Whether slices that `loop` chooses by its induction variable have elements in common.
bool overlapsInSteps(tensor::ExtractSliceOp slice, scf::ForOp loop) {
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  std::optional<APInt> steps = loop.getStaticTripCount();
  if (!step || (steps && steps->ule(1)))
    return false;
  for (auto [offset, size, stride] :
       llvm::zip_equal(slice.getMixedOffsets(), slice.getMixedSizes(), slice.getMixedStrides())) {
    std::optional<int64_t> extent = getConstantIntValue(size), distance = getConstantIntValue(stride);
    if (offset == OpFoldResult(loop.getInductionVar()) && extent && distance && (*extent - 1) * *distance >= *step)
      return true;
  }
  return false;
}

/// Whether `loop` may take no step; with `trusted`, none but those that are known to.
bool mayNotRun(scf::ForOp loop, bool trusted) {
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound());
  std::optional<int64_t> upper = getConstantIntValue(loop.getUpperBound());
  return lower && upper ? *lower >= *upper : !trusted;
}

/// Whether every element of `read` is one of the tensor's, or else the same as `value`.
bool readsNothingBut(vector::TransferReadOp read, Value value) {
  if (!read.hasOutOfBoundsDim() && !read.getMask())
    return true;
  Attribute padding, filled;
  return read.getPadding() == value || (matchPattern(read.getPadding(), m_Constant(&padding)) &&
                                        matchPattern(value, m_Constant(&filled)) && padding == filled);
}

/// The filled tensor on its way to a read: through which loops, by which offsets, and what was written into it before.
struct Path {
  SmallVector<scf::ForOp> loops;
  SmallVector<Value> offsets;
  SmallVector<Box> written;
};

class Follower {
public:
  Follower(FillUses &uses, Value value, bool runs) : uses(uses), value(value), runs(runs) {}

  void follow(Value tensor, const Path &path) {
    for (OpOperand &use : tensor.getUses())
      if (!followUse(use, path))
        refuse(use.getOwner(), "uses the filled tensor too: tile and vectorize every consumer first");
  }

private:
  FillUses &uses;
  Value value;
  bool runs;

  bool refuse(Operation *op, StringRef why) {
    if (!uses.unexpected) {
      uses.unexpected = op;
      uses.reason = why;
    }
    return false;
  }

  bool followUse(OpOperand &use, const Path &path) {
    Operation *user = use.getOwner();
    if (isa<tensor::DimOp>(user))
      return true;
    // Once something was written, an op on tensors may take the result on, to round it for example.
    if (isa<func::ReturnOp>(user) || (isa<linalg::LinalgOp>(user) && !path.written.empty()))
      return leaves(use, path);
    if (isa<scf::YieldOp>(user) && isa<scf::IfOp, scf::IndexSwitchOp>(user->getParentOp()) && !path.written.empty()) {
      // Another branch may have written anything, so that nothing is known to be the fill from here on.
      Path after(path);
      after.written.emplace_back(cast<RankedTensorType>(use.get().getType()).getRank());
      follow(user->getParentOp()->getResult(use.getOperandNumber()), after);
      return true;
    }
    if (isa<scf::YieldOp>(user)) {
      // A loop may give back what it was given. Anywhere else the filled tensor would go where it is not followed.
      auto loop = dyn_cast<scf::ForOp>(user->getParentOp());
      SmallVector<Box> written;
      return loop && addWritten(use.get(), loop.getRegionIterArg(use.getOperandNumber()), written);
    }
    if (auto loop = dyn_cast<scf::ForOp>(user)) {
      Path inside(path);
      inside.loops.push_back(loop);
      follow(loop.getTiedLoopRegionIterArg(&use), inside);
      Path after(path);
      if (!addWritten(loop.getTiedLoopYieldedValue(loop.getTiedLoopRegionIterArg(&use))->get(),
                      loop.getTiedLoopRegionIterArg(&use), after.written))
        return false;
      follow(loop.getTiedLoopResult(&use), after);
      return true;
    }
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user)) {
      Box box = boxOf(slice);
      // What was written before is no longer the fill: a slice beside it is, one that meets it may be either.
      if (llvm::any_of(path.written, [&](const Box &written) { return !disjoint(written, box); }))
        return refuse(slice, "meets what was written to the filled tensor before: take slices that are apart");
      if (llvm::any_of(path.loops, [&](scf::ForOp loop) { return overlapsInSteps(slice, loop); }))
        return refuse(slice, "overlaps itself from one step of a loop to the next: step by its size");
      Path inside{path.loops, path.offsets, {}};
      llvm::append_range(inside.offsets, slice.getOffsets());
      follow(slice.getResult(), inside);
      return true;
    }
    if (auto castOp = dyn_cast<tensor::CastOp>(user)) {
      follow(castOp.getResult(), path);
      return true;
    }
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(user)) {
      // A tile goes back whence it came: its place counts as written from there on.
      if (use.get() == insert.getSource())
        return leaves(use, path);
      Path after(path);
      after.written.push_back(boxOf(insert));
      follow(insert.getResult(), after);
      return true;
    }
    if (auto read = dyn_cast<vector::TransferReadOp>(user)) {
      if (!path.written.empty())
        return refuse(read, "reads what may have been written before: read slices that are apart");
      return addRead(read, path);
    }
    // A tile that is written whole; whoever reads the written tensor next is no concern of the fill.
    if (auto write = dyn_cast<vector::TransferWriteOp>(user))
      return use.get() == write.getBase() && writesWhole(write);
    return false;
  }

  /// The tensor goes where it is not followed, which is right once all of it was written.
  bool leaves(OpOperand &use, const Path &path) {
    return mayCover(use.get(), path.written) ||
           refuse(use.getOwner(),
                  "takes elements of the filled tensor that nothing else was written to: write all of it");
  }

  bool addRead(vector::TransferReadOp read, const Path &path) {
    if (!readsNothingBut(read, value))
      return refuse(read, "pads with another value than the fill's: pad with the same");
    SmallVector<Value> offsets(path.offsets);
    llvm::append_range(offsets, read.getIndices());
    FilledRead filled{read, {}};
    for (scf::ForOp loop : path.loops) {
      std::optional<bool> chooses = dependOn(offsets, loop);
      if (!chooses)
        return refuse(loop, "chooses what is read in a way that cannot be followed: compute offsets without branches");
      if (*chooses)
        continue;
      if (mayNotRun(loop, runs))
        return refuse(loop, "reduces, and is not known to run: give it constant bounds, or keep the fill");
      filled.reducing.push_back(loop);
    }
    uses.reads.push_back(filled);
    return true;
  }

  static bool writesWhole(vector::TransferWriteOp write) {
    ArrayRef<int64_t> vector = write.getVectorType().getShape(), tensor = write.getShapedType().getShape();
    if (write.getMask() || !write.getPermutationMap().isIdentity())
      return false;
    bool atOrigin = llvm::all_of(write.getIndices(), [](Value index) { return isConstantIntValue(index, 0); });
    bool covers = llvm::all_of(llvm::zip_equal(vector, tensor), [](auto sizes) {
      auto [inVector, inTensor] = sizes;
      return ShapedType::isDynamic(inTensor) || inVector >= inTensor;
    });
    return atOrigin && covers;
  }

  /// Adds to `written` what lies between a loop's argument and the value that it yields for it.
  static bool addWritten(Value yielded, Value argument, SmallVector<Box> &written) {
    while (yielded != argument) {
      if (auto insert = yielded.getDefiningOp<tensor::InsertSliceOp>()) {
        written.push_back(boxOf(insert));
        yielded = insert.getDest();
      } else if (auto write = yielded.getDefiningOp<vector::TransferWriteOp>()) {
        written.emplace_back(write.getShapedType().getRank());
        yielded = write.getBase();
      } else if (auto castOp = yielded.getDefiningOp<tensor::CastOp>()) {
        yielded = castOp.getSource();
      } else if (auto loop = yielded.getDefiningOp<scf::ForOp>()) {
        OpOperand *init = loop.getTiedLoopInit(cast<OpResult>(yielded));
        BlockArgument inner = loop.getTiedLoopRegionIterArg(init);
        if (!addWritten(loop.getTiedLoopYieldedValue(inner)->get(), inner, written))
          return false;
        yielded = init->get();
      } else if (auto branch = yielded.getDefiningOp(); branch && isa<scf::IfOp, scf::IndexSwitchOp>(branch)) {
        unsigned number = cast<OpResult>(yielded).getResultNumber();
        return llvm::all_of(branch->getRegions(), [&](Region &region) {
          return !region.empty() && addWritten(region.front().getTerminator()->getOperand(number), argument, written);
        });
      } else {
        return false;
      }
    }
    return true;
  }
};
} // namespace

FillUses tilewright::followFill(Value tensor, Value value, bool runs) {
  FillUses uses;
  Follower(uses, value, runs).follow(tensor, {});
  return uses;
}
