// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Messages.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/MPIToLLVM/MPIToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Dialect/MemRef/Utils/MemRefUtils.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_MPITOLLVM
#include "Tilewright/Transforms/Passes.h.inc"

namespace {
/// What MPI's headers define, as one implementation does. Source: mpi.h of Open MPI 4.1 and of MPICH 4.0.
class Header {
public:
  Header(Mpi mpi, ConversionPatternRewriter &rewriter, Operation *op)
      : mpi(mpi), rewriter(rewriter), location(op->getLoc()), module(op->getParentOfType<ModuleOp>()) {}

  Type pointer() const { return LLVM::LLVMPointerType::get(rewriter.getContext()); }
  Type handle() const { return mpi == Mpi::OpenMPI ? pointer() : rewriter.getI32Type(); }

  /// A communicator in C's type.
  Value communicator(Value number) const {
    if (mpi == Mpi::OpenMPI)
      return LLVM::IntToPtrOp::create(rewriter, location, pointer(), number);
    return LLVM::TruncOp::create(rewriter, location, rewriter.getI32Type(), number);
  }

  /// The integer type of so many bits: what is moved is not looked at.
  Value integerType(unsigned bits) const {
    std::string name = "ompi_mpi_int" + std::to_string(bits) + "_t";
    return constant(name, bits == 8 ? 0x4c000137 : bits == 16 ? 0x4c000238 : bits == 32 ? 0x4c000439 : 0x4c00083a);
  }

  /// The type of elements that are added up; none where MPI has no such type.
  std::optional<Value> summedType(Type element) const {
    if (element.isF32())
      return constant("ompi_mpi_float", 0x4c00040a);
    if (element.isF64())
      return constant("ompi_mpi_double", 0x4c00080b);
    if (element.isSignlessInteger(32) || element.isSignlessInteger(64))
      return integerType(element.getIntOrFloatBitWidth());
    return std::nullopt;
  }

  Value sum() const { return constant("ompi_mpi_op_sum", 0x58000003); }

  Value noRequest() const { return constant("ompi_request_null", 0x2c000000); }

  Value statusIgnore() const {
    Value number = LLVM::ConstantOp::create(rewriter, location, rewriter.getI64Type(),
                                            rewriter.getI64IntegerAttr(mpi == Mpi::OpenMPI ? 0 : 1));
    return LLVM::IntToPtrOp::create(rewriter, location, pointer(), number);
  }

  Value call(StringRef name, ValueRange arguments) const {
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!function) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(module.getBody());
      auto type = LLVM::LLVMFunctionType::get(rewriter.getI32Type(), llvm::to_vector(arguments.getTypes()));
      function = LLVM::LLVMFuncOp::create(rewriter, location, name, type);
    }
    return LLVM::CallOp::create(rewriter, location, function, arguments).getResult();
  }

private:
  /// A constant of mpi.h: the address of an object of Open MPI's, a number of MPICH's.
  Value constant(StringRef symbol, int32_t number) const {
    if (mpi == Mpi::MPICH)
      return LLVM::ConstantOp::create(rewriter, location, rewriter.getI32Type(), rewriter.getI32IntegerAttr(number));
    if (!module.lookupSymbol<LLVM::GlobalOp>(symbol)) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(module.getBody());
      auto opaque = LLVM::LLVMStructType::getOpaque(symbol, rewriter.getContext());
      LLVM::GlobalOp::create(rewriter, location, opaque, /*isConstant=*/false, LLVM::Linkage::External, symbol,
                             Attribute());
    }
    return LLVM::AddressOfOp::create(rewriter, location, pointer(), symbol);
  }

  Mpi mpi;
  ConversionPatternRewriter &rewriter;
  Location location;
  mutable ModuleOp module;
};

/// The bits of the integers that an element is moved as, and how many of them it is.
std::optional<std::pair<unsigned, int64_t>> unitsOf(Type element) {
  int64_t parts = 1;
  if (auto complex = dyn_cast<ComplexType>(element)) {
    element = complex.getElementType();
    parts = 2;
  }
  if (!element.isIntOrFloat())
    return std::nullopt;
  unsigned bits = element.getIntOrFloatBitWidth();
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? std::optional(std::pair(bits, parts)) : std::nullopt;
}

/// Whether an int, in which MPI counts, can say so many elements.
bool isCountable(int64_t elements) { return elements <= std::numeric_limits<int32_t>::max(); }

Value countOf(ConversionPatternRewriter &rewriter, Location location, int64_t elements) {
  return LLVM::ConstantOp::create(rewriter, location, rewriter.getI32Type(), rewriter.getI32IntegerAttr(elements));
}

/// Replaces an op that has no result but MPI's code, if that.
LogicalResult finish(Operation *op, Value code, ConversionPatternRewriter &rewriter) {
  if (op->getNumResults() != 0)
    rewriter.replaceOp(op, code);
  else
    rewriter.eraseOp(op);
  return success();
}

Value partnerOf(mpi::ISendOp::Adaptor adaptor) { return adaptor.getDest(); }
Value partnerOf(mpi::IRecvOp::Adaptor adaptor) { return adaptor.getSource(); }

/// mpi.isend and mpi.irecv. A request is a place in the function's stack frame, which MPI writes its handle to.
template <typename Op>
class ConvertStart final : public ConvertOpToLLVMPattern<Op> {
public:
  ConvertStart(const LLVMTypeConverter &converter, Mpi mpi, StringRef function)
      : ConvertOpToLLVMPattern<Op>(converter), mpi(mpi), function(function) {}

  LogicalResult matchAndRewrite(Op op, typename Op::Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto type = cast<MemRefType>(op.getRef().getType());
    auto units = unitsOf(type.getElementType());
    if (!units || type.getRank() != 1 || !memref::isStaticShapeAndContiguousRowMajor(type))
      return op.emitError() << "a message of " << type
                            << "; expected contiguous elements of 8, 16, 32 or 64 bits in one static dimension";
    Location location = op.getLoc();
    Header header(mpi, rewriter, op);
    int64_t elements = type.getNumElements() * units->second;
    if (!isCountable(elements))
      return op.emitError() << "a message of " << type << "; expected no more elements than an int counts";
    Value slot;
    {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&op->template getParentOfType<FunctionOpInterface>().getFunctionBody().front());
      Value one = LLVM::ConstantOp::create(rewriter, location, rewriter.getI32Type(), rewriter.getI32IntegerAttr(1));
      slot = LLVM::AllocaOp::create(rewriter, location, header.pointer(), header.handle(), one);
    }
    // Where the call fails, there is nothing to wait for.
    LLVM::StoreOp::create(rewriter, location, header.noRequest(), slot);
    Value start = MemRefDescriptor(adaptor.getRef()).bufferPtr(rewriter, location, *this->getTypeConverter(), type);
    Value count = countOf(rewriter, location, elements);
    Value code = header.call(function, {start, count, header.integerType(units->first), partnerOf(adaptor),
                                        adaptor.getTag(), header.communicator(adaptor.getComm()), slot});
    SmallVector<Value> results;
    if (op.getRetval())
      results.push_back(code);
    results.push_back(slot);
    rewriter.replaceOp(op, results);
    return success();
  }

private:
  Mpi mpi;
  StringRef function;
};

class ConvertWait final : public ConvertOpToLLVMPattern<mpi::Wait> {
public:
  ConvertWait(const LLVMTypeConverter &converter, Mpi mpi) : ConvertOpToLLVMPattern(converter), mpi(mpi) {}

  LogicalResult matchAndRewrite(mpi::Wait op, OpAdaptor adaptor, ConversionPatternRewriter &rewriter) const override {
    Header header(mpi, rewriter, op);
    return finish(op, header.call("MPI_Wait", {adaptor.getReq(), header.statusIgnore()}), rewriter);
  }

private:
  Mpi mpi;
};

/// Upstream's pattern names an object of Open MPI's that there is not.
class ConvertAllReduce final : public ConvertOpToLLVMPattern<mpi::AllReduceOp> {
public:
  ConvertAllReduce(const LLVMTypeConverter &converter, Mpi mpi)
      : ConvertOpToLLVMPattern(converter, /*benefit=*/2), mpi(mpi) {}

  LogicalResult matchAndRewrite(mpi::AllReduceOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto type = cast<MemRefType>(op.getSendbuf().getType());
    auto sums = cast<MemRefType>(op.getRecvbuf().getType());
    Header header(mpi, rewriter, op);
    std::optional<Value> summed = header.summedType(type.getElementType());
    if (!summed || op.getOp() != mpi::MPI_ReductionOpEnum::MPI_SUM || type.getRank() != 1 || sums != type ||
        !memref::isStaticShapeAndContiguousRowMajor(type))
      return op.emitError() << "a reduction of " << type
                            << "; expected a sum of f32, f64, i32 or i64 in one static dimension";
    auto start = [&](Value buffer) {
      return MemRefDescriptor(buffer).bufferPtr(rewriter, op.getLoc(), *getTypeConverter(), type);
    };
    if (!isCountable(type.getNumElements()))
      return op.emitError() << "a reduction of " << type << "; expected no more elements than an int counts";
    Value count = countOf(rewriter, op.getLoc(), type.getNumElements());
    Value code = header.call("MPI_Allreduce", {start(adaptor.getSendbuf()), start(adaptor.getRecvbuf()), count, *summed,
                                               header.sum(), header.communicator(adaptor.getComm())});
    return finish(op, code, rewriter);
  }

private:
  Mpi mpi;
};

struct MpiToLLVM final : impl::MpiToLLVMBase<MpiToLLVM> {
  using MpiToLLVMBase::MpiToLLVMBase;

  void runOnOperation() override {
    FailureOr<Mpi> mpi = implementationOf(getOperation());
    if (failed(mpi))
      return signalPassFailure();
    MLIRContext *context = &getContext();
    LowerToLLVMOptions options(context);
    options.useBarePtrCallConv = true;
    LLVMTypeConverter converter(context, options);
    converter.addConversion([](mpi::RequestType type) { return LLVM::LLVMPointerType::get(type.getContext()); });
    converter.addConversion([](mpi::RetvalType type) { return IntegerType::get(type.getContext(), 32); });
    RewritePatternSet patterns(context);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    populateFuncToLLVMConversionPatterns(converter, patterns);
    mpi::populateMPIToLLVMConversionPatterns(converter, patterns);
    patterns.add<ConvertStart<mpi::ISendOp>>(converter, *mpi, "MPI_Isend");
    patterns.add<ConvertStart<mpi::IRecvOp>>(converter, *mpi, "MPI_Irecv");
    patterns.add<ConvertWait, ConvertAllReduce>(converter, *mpi);
    LLVMConversionTarget target(*context);
    target.addLegalOp<ModuleOp>();
    target.addIllegalDialect<mpi::MPIDialect>();
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
} // namespace tilewright
