// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Messages.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_SHARDTOMPI
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
SmallVector<OpFoldResult> constants(OpBuilder &builder, ArrayRef<int64_t> numbers) {
  return llvm::map_to_vector(numbers, [&](int64_t each) -> OpFoldResult { return builder.getIndexAttr(each); });
}

/// A buffer of a static shape whose elements are contiguous.
Value allocated(ImplicitLocOpBuilder &builder, ArrayRef<int64_t> shape, Type element) {
  return memref::AllocOp::create(builder, MemRefType::get(shape, element));
}

/// The buffer of a tensor that is read alone, wherever its rows lie.
Value bufferOf(ImplicitLocOpBuilder &builder, Value tensor, bool contiguous = false) {
  auto type = cast<RankedTensorType>(tensor.getType());
  auto layout = StridedLayoutAttr::get(builder.getContext(), ShapedType::kDynamic,
                                       SmallVector<int64_t>(type.getRank(), ShapedType::kDynamic));
  auto buffer = contiguous ? MemRefType::get(type.getShape(), type.getElementType())
                           : MemRefType::get(type.getShape(), type.getElementType(), layout);
  return bufferization::ToBufferOp::create(builder, buffer, tensor, /*read_only=*/true);
}

Value tensorOf(ImplicitLocOpBuilder &builder, Type type, Value buffer) {
  return bufferization::ToTensorOp::create(builder, type, buffer, /*restrict=*/true, /*writable=*/true);
}

/// The block of that index, of blocks that follow each other along a dimension of `whole`.
Value blockOf(ImplicitLocOpBuilder &builder, Value whole, int64_t dimension, OpFoldResult index, int64_t extent) {
  auto type = cast<MemRefType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dimension] = extent;
  SmallVector<OpFoldResult> offsets = constants(builder, SmallVector<int64_t>(shape.size(), 0));
  AffineExpr number = builder.getAffineSymbolExpr(0);
  offsets[dimension] = affine::makeComposedFoldedAffineApply(builder, builder.getLoc(), number * extent, {index});
  return memref::SubViewOp::create(builder, whole, offsets, constants(builder, shape),
                                   constants(builder, SmallVector<int64_t>(shape.size(), 1)));
}

Value indexOf(ImplicitLocOpBuilder &builder, Value rank) {
  return arith::IndexCastOp::create(builder, builder.getIndexType(), rank);
}

/// The product that takes a tensor, and nothing else does.
linalg::LinalgOp consumerOf(Value tensor) {
  if (!tensor.hasOneUse())
    return nullptr;
  auto product = dyn_cast<linalg::LinalgOp>(*tensor.user_begin());
  return product && linalg::isaContractionOpInterface(product) ? product : nullptr;
}

/// The product that comes next before or after an op in its block.
linalg::LinalgOp neighbor(Operation *op, bool later) {
  while ((op = later ? op->getNextNode() : op->getPrevNode()))
    if (auto found = dyn_cast<linalg::LinalgOp>(op); found && linalg::isaContractionOpInterface(found))
      return found;
  return nullptr;
}

/// Converts the collectives of one function.
class Conversion {
public:
  Conversion(func::FuncOp function, Mpi mpi, int64_t ahead) : messages(function, mpi), ahead(ahead) {}

  LogicalResult convert(Operation *op) {
    ImplicitLocOpBuilder builder(op->getLoc(), op);
    FailureOr<SmallVector<Value>> values =
        TypeSwitch<Operation *, FailureOr<SmallVector<Value>>>(op)
            .Case<shard::BroadcastOp, shard::AllGatherOp, shard::ReduceScatterOp, shard::AllReduceOp, shard::AllSliceOp,
                  shard::ShiftOp>([&](auto each) { return collective(builder, each); })
            .Case([&](shard::ProcessMultiIndexOp each) { return indices(builder, each); })
            .Default([](Operation *other) {
              other->emitError() << "has no messages; expected broadcast, all_gather, reduce_scatter, all_reduce, "
                                    "all_slice or shift";
              return failure();
            });
    if (failed(values))
      return failure();
    op->replaceAllUsesWith(*values);
    op->erase();
    return success();
  }

  void end() { messages.returnStatus(); }

private:
  Messages messages;
  int64_t ahead;
  SymbolTableCollection symbols;
  llvm::DenseMap<Operation *, Operation *> starts; // Of a product, the first op of its broadcasts.

  template <typename Op>
  FailureOr<SmallVector<Value>> collective(ImplicitLocOpBuilder &builder, Op op) {
    auto input = cast<RankedTensorType>(op.getInput().getType());
    auto result = cast<RankedTensorType>(op.getResult().getType());
    shard::GridOp grid = shard::getGrid(op, symbols);
    int64_t size = shard::collectiveProcessGroupSize(op.getGridAxes(), grid);
    if (!input.hasStaticShape() || !result.hasStaticShape() || ShapedType::isDynamic(size)) {
      op.emitError() << "an extent of a tensor or of the grid is dynamic; expected static ones";
      return failure();
    }
    int64_t parts = isa<ComplexType>(input.getElementType()) ? 2 : 1; // Each is an element to MPI.
    int64_t most = std::numeric_limits<int32_t>::max() / parts;
    if (std::max(input.getNumElements(), result.getNumElements()) > most) {
      op.emitError() << "a tensor of more than " << most
                     << " elements; expected as many as MPI's counts can say, at most";
      return failure();
    }
    if (size == 1 && input == result)
      return SmallVector<Value>{op.getInput()};
    Communicator among = messages.along(op.getGridAxes(), size);
    FailureOr<Value> value = lowered(builder, op, among);
    if (failed(value))
      return failure();
    return SmallVector<Value>{*value};
  }

  FailureOr<SmallVector<Value>> indices(ImplicitLocOpBuilder &builder, shard::ProcessMultiIndexOp op) {
    shard::GridOp grid = shard::getGrid(op, symbols);
    SmallVector<int16_t> axes(op.getAxes());
    if (axes.empty())
      for (int16_t axis = 0; axis != int16_t(grid.getShape().size()); ++axis)
        axes.push_back(axis);
    int64_t size = shard::collectiveProcessGroupSize(axes, grid);
    if (ShapedType::isDynamic(size)) {
      op.emitError() << "an extent of the grid is dynamic; expected static ones";
      return failure();
    }
    Value rest = indexOf(builder, messages.along(axes, size).rank);
    SmallVector<Value> found(axes.size());
    for (size_t at = axes.size(); at-- > 0;) {
      Value extent = arith::ConstantIndexOp::create(builder, grid.getShape()[axes[at]]);
      found[at] = arith::RemUIOp::create(builder, rest, extent);
      rest = arith::DivUIOp::create(builder, rest, extent);
    }
    return found;
  }

  /// Each process receives the block from the one before it, and passes it on to the one after. What a product takes is
  /// sent early: when the product that is `ahead` products before starts. Only then is there anything to do meanwhile.
  FailureOr<Value> lowered(ImplicitLocOpBuilder &here, shard::BroadcastOp op, const Communicator &among) {
    if (!op.getRootDynamic().empty()) {
      op.emitError() << "the root is known only at run time; expected numbers";
      return failure();
    }
    shard::GridOp grid = shard::getGrid(op, symbols);
    int64_t root = 0;
    for (auto [axis, index] : llvm::zip_equal(op.getGridAxes(), op.getRoot()))
      root = root * grid.getShape()[axis] + index;
    auto [first, last] = whileOthersMultiply(op);
    ImplicitLocOpBuilder early(op.getLoc(), first);
    auto type = cast<RankedTensorType>(op.getType());
    if (auto slice = op.getInput().getDefiningOp<tensor::ExtractSliceOp>())
      if (first != op && isa<BlockArgument>(slice.getSource()))
        slice->moveBefore(first);
    int32_t tag = messages.nextTag();
    auto number = [&](int64_t value) { return arith::ConstantIntOp::create(early, early.getI32Type(), value); };
    auto isRoot = [&](Value rank) {
      return arith::CmpIOp::create(early, arith::CmpIPredicate::eq, rank, number(root)).getResult();
    };
    auto pick = [&](Value condition, Value yes, Value no) {
      return arith::SelectOp::create(early, condition, yes, no).getResult();
    };
    Value block = allocated(early, type.getShape(), type.getElementType());
    if (first == op)
      if (linalg::LinalgOp product = consumerOf(op.getResult()))
        starts.try_emplace(product, block.getDefiningOp());
    Value mine = isRoot(among.rank), nobody = messages.nobody(early);
    Value next = messages.after(early, among.rank, 1, among.size);
    Value to = pick(isRoot(next), nobody, next);
    scf::IfOp::create(early, mine, [&](OpBuilder &builder, Location location) {
      ImplicitLocOpBuilder inside(location, builder);
      linalg::CopyOp::create(inside, bufferOf(inside, op.getInput()), block);
      scf::YieldOp::create(inside);
    });
    Sent started = messages.send(early, block, pick(mine, to, nobody), among, tag);
    Value before = messages.after(early, among.rank, -1, among.size);
    Sent coming = messages.receive(early, block, pick(mine, nobody, before), among, tag);
    Value onward = pick(mine, nobody, to);
    messages.wait(here, coming);
    Sent passed = messages.send(here, block, onward, among, tag);
    Value value = tensorOf(here, type, block);
    ImplicitLocOpBuilder late(op.getLoc(), here);
    if (last)
      late.setInsertionPointAfter(last);
    messages.wait(late, started);
    messages.wait(late, passed);
    if (last)
      memref::DeallocOp::create(late, block);
    return value;
  }

  /// Before which op a broadcast starts, and after which one it has to be over; none of these where no product takes
  /// it.
  std::pair<Operation *, Operation *> whileOthersMultiply(shard::BroadcastOp op) {
    linalg::LinalgOp product = consumerOf(op.getResult());
    if (!product || product->getBlock() != op->getBlock())
      return {op, nullptr};
    Operation *first = op, *last = product;
    linalg::LinalgOp earlier = product;
    for (int64_t step = 0; step != ahead && earlier; ++step)
      if ((earlier = neighbor(earlier, /*later=*/false)))
        first = earlier;
    // What one product takes starts together.
    if (first == op)
      if (auto found = starts.find(product); found != starts.end())
        first = found->second;
    auto slice = op.getInput().getDefiningOp<tensor::ExtractSliceOp>();
    if (!isa<BlockArgument>(op.getInput()) && !(slice && isa<BlockArgument>(slice.getSource())))
      first = op;
    // One product later others have had time to receive what they are sent.
    if (linalg::LinalgOp later = ahead > 0 ? neighbor(product, /*later=*/true) : nullptr)
      last = later;
    return {first, last};
  }

  FailureOr<Value> lowered(ImplicitLocOpBuilder &builder, shard::AllGatherOp op, const Communicator &among) {
    auto type = cast<RankedTensorType>(op.getType());
    int64_t dimension = op.getGatherAxis().getSExtValue();
    auto input = cast<RankedTensorType>(op.getInput().getType());
    int64_t extent = input.getDimSize(dimension);
    Value whole = allocated(builder, type.getShape(), type.getElementType());
    // Blocks that are contiguous in the whole are received where they belong.
    Value blocks = dimension == 0 ? whole : stacked(builder, input, among.size);
    int64_t rows = input.getDimSize(0);
    linalg::CopyOp::create(builder, bufferOf(builder, op.getInput()),
                           blockOf(builder, blocks, 0, indexOf(builder, among.rank), rows));
    SmallVector<Sent> all = exchange(builder, blocks, blocks, rows, among, /*own=*/true);
    ImplicitLocOpBuilder late(op.getLoc(), op);
    if (Operation *product = meanwhile(op))
      late.setInsertionPointAfter(product);
    for (Sent each : all)
      messages.wait(late, each);
    if (dimension != 0)
      for (int64_t each = 0; each != among.size; ++each)
        linalg::CopyOp::create(late, blockOf(late, blocks, 0, late.getIndexAttr(each), rows),
                               blockOf(late, whole, dimension, late.getIndexAttr(each), extent));
    if (dimension != 0)
      memref::DeallocOp::create(late, blocks);
    return tensorOf(late, type, whole);
  }

  /// A buffer for a block of each process, one below the other.
  Value stacked(ImplicitLocOpBuilder &builder, RankedTensorType block, int64_t count) {
    SmallVector<int64_t> shape(block.getShape());
    shape[0] *= count;
    return allocated(builder, shape, block.getElementType());
  }

  /// Each process sends a block to each other one and receives one of it, into the place of its rank: the block of the
  /// other's rank, or its own one. Returns what is on its way then.
  SmallVector<Sent> exchange(ImplicitLocOpBuilder &builder, Value sent, Value received, int64_t rows,
                             const Communicator &among, bool own) {
    int32_t tag = messages.nextTag();
    SmallVector<Sent> all;
    auto block = [&](Value of, Value rank) { return blockOf(builder, of, 0, indexOf(builder, rank), rows); };
    for (int64_t distance = 1; distance != among.size; ++distance) {
      Value from = messages.after(builder, among.rank, -distance, among.size);
      all.push_back(messages.receive(builder, block(received, from), from, among, tag));
    }
    for (int64_t distance = 1; distance != among.size; ++distance) {
      Value to = messages.after(builder, among.rank, distance, among.size);
      all.push_back(messages.send(builder, block(sent, own ? among.rank : to), to, among, tag));
    }
    return all;
  }

  /// The product that is computed while a collective's messages are on their way: the next one, if nothing takes the
  /// result before it.
  Operation *meanwhile(Operation *op) {
    Operation *product = ahead > 0 ? neighbor(op, /*later=*/true) : nullptr;
    if (product && llvm::all_of(op->getUsers(), [&](Operation *user) {
          return user->getBlock() == op->getBlock() && product->isBeforeInBlock(user);
        }))
      return product;
    return nullptr;
  }

  /// Sums are on their way while the next product is computed, out of a buffer that nothing else writes meanwhile.
  FailureOr<Value> lowered(ImplicitLocOpBuilder &builder, shard::ReduceScatterOp op, const Communicator &among) {
    if (op.getReduction() != shard::ReductionKind::Sum) {
      op.emitError() << "a reduction that is no sum; expected sum";
      return failure();
    }
    auto type = cast<RankedTensorType>(op.getType());
    int64_t dimension = op.getScatterAxis().getSExtValue(), extent = type.getDimSize(dimension);
    int64_t rows = type.getDimSize(0);
    Operation *product = meanwhile(op);
    bool own = dimension != 0 || product;
    Value part = bufferOf(builder, op.getInput(), /*contiguous=*/!own), blocks = part;
    if (own) {
      blocks = stacked(builder, type, among.size);
      for (int64_t each = 0; each != among.size; ++each)
        linalg::CopyOp::create(builder, blockOf(builder, part, dimension, builder.getIndexAttr(each), extent),
                               blockOf(builder, blocks, 0, builder.getIndexAttr(each), rows));
    }
    Value parts = stacked(builder, type, among.size), rank = indexOf(builder, among.rank);
    linalg::CopyOp::create(builder, blockOf(builder, blocks, 0, rank, rows), blockOf(builder, parts, 0, rank, rows));
    SmallVector<Sent> all = exchange(builder, blocks, parts, rows, among, /*own=*/false);
    ImplicitLocOpBuilder late(op.getLoc(), op);
    if (product)
      late.setInsertionPointAfter(product);
    for (Sent each : all)
      messages.wait(late, each);
    // In the order of processes, so that nothing depends on which message came first.
    Value sums = allocated(late, type.getShape(), type.getElementType());
    linalg::CopyOp::create(late, blockOf(late, parts, 0, late.getIndexAttr(0), rows), sums);
    for (int64_t each = 1; each != among.size; ++each)
      linalg::AddOp::create(late, ValueRange{sums, blockOf(late, parts, 0, late.getIndexAttr(each), rows)}, sums);
    if (own)
      memref::DeallocOp::create(late, blocks);
    memref::DeallocOp::create(late, parts);
    return tensorOf(late, type, sums);
  }

  FailureOr<Value> lowered(ImplicitLocOpBuilder &builder, shard::AllReduceOp op, const Communicator &among) {
    auto type = cast<RankedTensorType>(op.getType());
    Type element = type.getElementType();
    if (op.getReduction() != shard::ReductionKind::Sum ||
        !(element.isF32() || element.isF64() || element.isSignlessInteger(32) || element.isSignlessInteger(64))) {
      op.emitError() << "a reduction of " << element << "; expected a sum of f32, f64, i32 or i64";
      return failure();
    }
    Value sums = allocated(builder, type.getShape(), element);
    messages.allReduce(builder, bufferOf(builder, op.getInput(), /*contiguous=*/true), sums, among);
    return tensorOf(builder, type, sums);
  }

  FailureOr<Value> lowered(ImplicitLocOpBuilder &builder, shard::AllSliceOp op, const Communicator &among) {
    auto type = cast<RankedTensorType>(op.getType());
    int64_t dimension = op.getSliceAxis().getSExtValue();
    SmallVector<OpFoldResult> offsets = constants(builder, SmallVector<int64_t>(type.getRank(), 0));
    offsets[dimension] = affine::makeComposedFoldedAffineApply(
        builder, builder.getLoc(), builder.getAffineSymbolExpr(0) * type.getDimSize(dimension),
        {OpFoldResult(indexOf(builder, among.rank))});
    return tensor::ExtractSliceOp::create(builder, op.getInput(), offsets, constants(builder, type.getShape()),
                                          constants(builder, SmallVector<int64_t>(type.getRank(), 1)))
        .getResult();
  }

  FailureOr<Value> lowered(ImplicitLocOpBuilder &builder, shard::ShiftOp op, const Communicator &among) {
    if (op.getGridAxes().size() != 1) {
      op.emitError() << "a shift in groups along several axes; expected one axis";
      return failure();
    }
    auto type = cast<RankedTensorType>(op.getType());
    int64_t offset = op.getOffset();
    Value sent = allocated(builder, type.getShape(), type.getElementType());
    Value received = allocated(builder, type.getShape(), type.getElementType());
    linalg::CopyOp::create(builder, bufferOf(builder, op.getInput()), sent);
    auto partner = [&](int64_t distance) -> Value {
      Value around = messages.after(builder, among.rank, distance, among.size);
      if (op.getRotate())
        return around;
      auto number = [&](int64_t value) { return arith::ConstantIntOp::create(builder, builder.getI32Type(), value); };
      Value plain = arith::AddIOp::create(builder, among.rank, number(distance));
      Value there = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, plain, around);
      return arith::SelectOp::create(builder, there, plain, messages.nobody(builder));
    };
    int32_t tag = messages.nextTag();
    Sent coming = messages.receive(builder, received, partner(-offset), among, tag);
    Sent going = messages.send(builder, sent, partner(offset), among, tag);
    messages.wait(builder, coming);
    messages.wait(builder, going);
    memref::DeallocOp::create(builder, sent);
    return tensorOf(builder, type, received);
  }
};

struct ShardToMpi final : impl::ShardToMpiBase<ShardToMpi> {
  using ShardToMpiBase::ShardToMpiBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    SmallVector<Operation *> found;
    function.walk([&](Operation *op) {
      if (isa<shard::ShardDialect>(op->getDialect()))
        found.push_back(op);
    });
    FailureOr<Mpi> mpi = implementationOf(function);
    if (failed(mpi))
      return signalPassFailure();
    Conversion conversion(function, *mpi, ahead);
    FlatSymbolRefAttr used;
    for (Operation *op : found) {
      // Requests and codes are values, which the end of the function has to see.
      if (op->getBlock() != &function.front()) {
        op->emitError() << "a collective in a region; expected it in the function's own block";
        return signalPassFailure();
      }
      // Communicators are told apart by the axes of one grid.
      auto grid = op->getAttrOfType<FlatSymbolRefAttr>("grid");
      if (grid && used && grid != used) {
        op->emitError() << "a second grid, " << grid << "; expected one in a function, which is " << used;
        return signalPassFailure();
      }
      used = grid ? grid : used;
      if (failed(conversion.convert(op)))
        return signalPassFailure();
    }
    conversion.end();
  }
};
} // namespace
} // namespace tilewright
