// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Messages.h"

#include "mlir/Dialect/DLTI/DLTI.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;

FailureOr<Mpi> tilewright::implementationOf(Operation *op) {
  FailureOr<Attribute> found = dlti::query(op, {"MPI:Implementation"});
  if (failed(found))
    return Mpi::MPICH;
  auto name = dyn_cast<StringAttr>(*found);
  if (name && name.getValue() == "OpenMPI")
    return Mpi::OpenMPI;
  if (name && name.getValue() == "MPICH")
    return Mpi::MPICH;
  op->emitError() << "the module's \"MPI:Implementation\" is " << *found << "; expected \"OpenMPI\" or \"MPICH\"";
  return failure();
}

static Value integer(ImplicitLocOpBuilder &builder, int64_t number) {
  return arith::ConstantIntOp::create(builder, builder.getI32Type(), number);
}

/// The elements of a contiguous block one after the other: a message has as many as its first dimension.
static Value flat(ImplicitLocOpBuilder &builder, Value block) {
  auto type = cast<MemRefType>(block.getType());
  if (type.getRank() == 1)
    return block;
  if (type.getRank() == 0)
    return memref::ExpandShapeOp::create(builder, ArrayRef<int64_t>{1}, block, ArrayRef<ReassociationIndices>{});
  ReassociationIndices all(type.getRank());
  std::iota(all.begin(), all.end(), 0);
  return memref::CollapseShapeOp::create(builder, block, ArrayRef<ReassociationIndices>{all});
}

Communicator Messages::along(ArrayRef<int16_t> axes, int64_t size) {
  OpBuilder plain(function.getContext());
  DenseI16ArrayAttr key = plain.getDenseI16ArrayAttr(axes);
  auto found = communicators.find(key);
  if (found != communicators.end())
    return found->second;
  auto attribute = DictionaryAttr::get(function.getContext(), plain.getNamedAttr("tilewright.axes", key));
  unsigned position = function.getNumArguments();
  (void)function.insertArgument(position, mpi::CommType::get(function.getContext()), attribute, function.getLoc());
  ImplicitLocOpBuilder builder(function.getLoc(), OpBuilder::atBlockBegin(&function.front()));
  Value handle = function.getArgument(position);
  auto rank =
      mpi::CommRankOp::create(builder, mpi::RetvalType::get(function.getContext()), builder.getI32Type(), handle);
  codes.push_back(rank.getRetval());
  // Where the call fails, nothing has said a rank, by which blocks are found.
  Value code = UnrealizedConversionCastOp::create(builder, builder.getI32Type(), rank.getRetval()).getResult(0);
  Value none = integer(builder, 0);
  Value fine = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, code, none);
  Communicator made{handle, arith::SelectOp::create(builder, fine, rank.getRank(), none), size};
  communicators.insert({key, made});
  return made;
}

template <typename Op>
Sent Messages::start(ImplicitLocOpBuilder &builder, Value block, Value partner, const Communicator &among,
                     int32_t tag) {
  auto started =
      Op::create(builder, mpi::RetvalType::get(builder.getContext()), mpi::RequestType::get(builder.getContext()),
                 flat(builder, block), integer(builder, tag), partner, among.handle);
  codes.push_back(started.getRetval());
  return {started.getReq()};
}

Sent Messages::send(ImplicitLocOpBuilder &builder, Value block, Value to, const Communicator &among, int32_t tag) {
  return start<mpi::ISendOp>(builder, block, to, among, tag);
}

Sent Messages::receive(ImplicitLocOpBuilder &builder, Value block, Value from, const Communicator &among, int32_t tag) {
  return start<mpi::IRecvOp>(builder, block, from, among, tag);
}

void Messages::wait(ImplicitLocOpBuilder &builder, Sent message) {
  codes.push_back(mpi::Wait::create(builder, mpi::RetvalType::get(builder.getContext()), message.request).getRetval());
}

void Messages::allReduce(ImplicitLocOpBuilder &builder, Value block, Value sums, const Communicator &among) {
  codes.push_back(mpi::AllReduceOp::create(builder, mpi::RetvalType::get(builder.getContext()), flat(builder, block),
                                           flat(builder, sums), mpi::MPI_ReductionOpEnum::MPI_SUM, among.handle)
                      .getRetval());
}

Value Messages::nobody(ImplicitLocOpBuilder &builder) const {
  return integer(builder, mpi == Mpi::OpenMPI ? -2 : -1); // MPI_PROC_NULL in mpi.h of Open MPI 4 and of MPICH 4.
}

Value Messages::after(ImplicitLocOpBuilder &builder, Value rank, int64_t distance, int64_t size) const {
  int64_t forward = (distance % size + size) % size;
  Value sum = arith::AddIOp::create(builder, rank, integer(builder, forward));
  return arith::RemSIOp::create(builder, sum, integer(builder, size));
}

void Messages::returnStatus() {
  Operation *end = function.front().getTerminator();
  ImplicitLocOpBuilder builder(function.getLoc(), end);
  Value none = integer(builder, 0), status = none;
  for (Value code : codes) {
    Value number = UnrealizedConversionCastOp::create(builder, builder.getI32Type(), code).getResult(0);
    Value fine = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, status, none);
    status = arith::SelectOp::create(builder, fine, number, status);
  }
  end->insertOperands(end->getNumOperands(), status);
  (void)function.insertResult(function.getNumResults(), builder.getI32Type(), nullptr);
}
