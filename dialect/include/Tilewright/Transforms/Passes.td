// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMS_PASSES_TD
#define TILEWRIGHT_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def StripProvenance : Pass<"tilewright-strip-provenance"> {
  let summary = "Removes what says where code came from, and keeps what it is";
  let description = [{
    Removes every `tilewright.schedule` attribute below the operation that the pass runs on, the operation itself included,
    and with `target=true` every `tilewright.target` too. Two payloads that differ only in the file and line of the
    schedule that made them are the same text afterwards, so a key can be made from it.
  }];
  let options = [
    Option<"target", "target", "bool", /*default=*/"false", "Remove tilewright.target as well">
  ];
}

def OpaqueIndices : Pass<"tilewright-opaque-indices"> {
  let summary = "Hides how the indices of slices are computed, so that two slices are compared by their values alone";
  let description = [{
    Puts a cast from index to index between each computed index and the slices of tensors and the transfers of vectors that
    use it. Upstream's one-shot bufferization asks of many pairs of slices whether they are one, and solves systems of
    inequalities over everything that the indices are computed from: most of its time, where a kernel has a case for each
    number of rows that can be left. Tiling gives the slice that is read and the slice that is written the same values, which stay
    the same values. Canonicalization folds the casts away.
  }];
}

def PrefetchTiles : Pass<"tilewright-prefetch-tiles"> {
  let summary = "Prefetches the next tile of accumulators while the current one is computed";
  let description = [{
    Where a loop starts from a two-dimensional vector that is read from a memref, as the microkernel's loop over K starts
    from a tile of C, prefetches the tile below it before the loop. The hardware does not: a tile's rows are few and far
    apart. Where that loop is one over strips of K, the tile's rows are spread over these, and the next tile is the one on the right
    in a loop over columns. Runs after bufferization and before vectors are unrolled. A prefetch beyond the memref is harmless.

    Upstream has the operation, and no pass that places it.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"lineBytes", "line-bytes", "int64_t", /*default=*/"64", "Bytes of a cache line">
  ];
}

def PrefetchStreams : Pass<"tilewright-prefetch-streams"> {
  let summary = "Prefetches into L2 what a loop nest reads of an operand that is larger than L2 and of which it reads each element once";
  let description = [{
    A read of an operand that every loop around it moves on, but for one that repeats it a few times, finds nothing in the caches that an earlier step brought there.
    The hardware foresees such a stream only within a page. The same lines a few steps later are prefetched before the read:
    a step of the outermost loop of which a step reads no more than a quarter of L2. Along a row that is enough unless the
    operand is larger than `held-bytes` too.

    With `rows-ahead`, other reads that go down the rows of a matrix, packed or not, have the lines of so many steps later prefetched into L1: a core
    that does not look as far ahead as L2 is away waits for each. Copies are left alone. Runs after bufferization and before vectors are
    unrolled. A prefetch beyond the memref is harmless.

    Upstream has the operation, and no pass that places it.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"cacheBytes", "cache-bytes", "int64_t", /*default=*/"1048576", "Bytes of L2">,
    Option<"heldBytes", "held-bytes", "int64_t", /*default=*/"8388608", "Bytes of an operand that the last-level cache still has when it is read again">,
    Option<"lineBytes", "line-bytes", "int64_t", /*default=*/"64", "Bytes of a cache line">,
    Option<"aheadBytes", "ahead-bytes", "int64_t", /*default=*/"6144", "Bytes to be ahead at least">,
    Option<"open", "open", "bool", /*default=*/"false", "Operands of unknown size are larger than the caches">,
    Option<"rowsAhead", "rows-ahead", "int64_t", /*default=*/"0", "Steps ahead that rows of other operands are prefetched into L1; 0: they are not">
  ];
}

def PrefetchNumbers : Pass<"tilewright-prefetch-numbers"> {
  let summary = "Prefetches numbers of an operand that a loop loads one by one, such as the scales of a row";
  let description = [{
    Where a loop loads one number after the other from a row of an operand, and the loop around it goes from row to row, the lines of
    a row some steps later are prefetched before the inner loop. They are few and come from memory, beside a larger stream: the
    hardware is late for them, and all that is added up waits. Runs after bufferization. A prefetch beyond the memref is harmless.

    Upstream has the operation, and no pass that places it.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"lineBytes", "line-bytes", "int64_t", /*default=*/"64", "Bytes of a cache line">
  ];
}

def MarkLoops : Pass<"tilewright-mark-loops"> {
  let summary = "Has the location of each op name the loops around it";
  let description = [{
    Makes the location of an op in loops a call site: the op in the innermost loop, that loop in the next one, and so on, as in
    callsite(op at callsite("loop ir"(loop) at ...)). Lowering keeps locations, and not loops. A loop that steps by one of the sizes of `tilewright.schedule` has the name that BLIS gives it.

    Upstream has locations of calls, which the debugger shows as inlined functions, and nothing that makes them of loops.
  }];
}

def DebugScopes : Pass<"tilewright-debug-scopes"> {
  let summary = "Gives functions of the LLVM dialect line tables of the schedule";
  let description = [{
    Each instruction gets the file and line of the step of the schedule that made it (loc("step"(...))), or else the first place in its
    location; the loops that `tilewright-mark-loops` named become inlined functions. So gdb, perf and objdump show the schedule's lines, and
    the loops as a call stack.

    Upstream's ensure-debug-info-scope-on-llvm-func makes the scope of a function alone, in one file.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [
    Option<"source", "source", "std::string", /*default=*/"\"tilewright\"", "The file that the code is said to be of">,
    Option<"directives", "directives", "bool", /*default=*/"false", "Say of each instruction where it comes from, without tables in sections of their own">
  ];
}

def SimplifyShards : Pass<"tilewright-simplify-shards"> {
  let summary = "Leaves out what a partitioned program sends or computes for nothing";
  let description = [{
    Of a reduction of which each process keeps a slice, `shard.all_slice` of `shard.all_reduce`, it makes a `shard.reduce_scatter`. Where
    partial sums start from the same number whichever process computes them, it removes the question which process this is.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::shard::ShardDialect", "::mlir::tensor::TensorDialect"];
}

def ShardPanels : Pass<"tilewright-shard-panels", "::mlir::func::FuncOp"> {
  let summary = "Multiplies panel by panel what processes would gather first";
  let description = [{
    A product whose operands are gathered by `shard.all_gather` along the dimension that it sums over becomes a chain of products of panels. In each one,
    the processes that have a panel broadcast it. Panels go in the order of K, so that every process adds up in the order of one process alone:
    van de Geijn and Watts, SUMMA: scalable universal matrix multiplication algorithm, 1997. Where an operand is gathered along M or N alone, each product has a panel of C.
    There are as many panels as blocks of the operand that has more, or `per-block` times that.

    Where each process keeps a block of the sums, by `shard.reduce_scatter`, panels of C are reduced by themselves, so that one is on its way while the next is
    computed: of one panel of the dimension that is not scattered, or of a panel of each process's block.
    With more than one panel a block, the sums that all processes get, by `shard.all_reduce`, become such blocks of panels, which are then gathered: the same bytes.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::shard::ShardDialect", "::mlir::tensor::TensorDialect"];
  let options = [
    Option<"perBlock", "per-block", "int64_t", /*default=*/"1", "Panels of a process's block, at most: as many as divide it">,
    Option<"multiple", "multiple", "int64_t", /*default=*/"1", "What the extents of panels along K are multiples of; where blocks are none, nothing changes">
  ];
}

def ShardToMpi : Pass<"tilewright-shard-to-mpi", "::mlir::func::FuncOp"> {
  let summary = "Converts collectives of the shard dialect to messages of the mpi dialect";
  let description = [{
    The function gets an argument for each communicator that it needs, which the caller makes once: processes that differ along the axes `tilewright.axes` alone,
    in the order of their indices along these. Its last result is what went wrong: 0, or the error code of a call.

    - `broadcast` of a panel passes it on from neighbor to neighbor. What a product takes is on its way while the product `ahead` products before is computed.
    - `all_gather` and `reduce_scatter` send each block where it belongs, and add up in the order of processes. What they send is on its way while the next product is
      computed, unless something takes the result before that.
    - `all_reduce` is `mpi.allreduce`. `shift` sends to one process and receives from another. `all_slice` sends nothing.

    Upstream's convert-shard-to-mpi converts all_reduce alone in LLVM 22, and each collective makes a communicator that nothing frees.
    The module's DLTI attribute "MPI:Implementation" says which numbers MPI has: "OpenMPI" or "MPICH".
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::bufferization::BufferizationDialect", "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
    "::mlir::mpi::MPIDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"
  ];
  let options = [
    Option<"ahead", "ahead", "int64_t", /*default=*/"1", "How many products ahead of the one that takes it a panel is sent">
  ];
}

def MpiToLLVM : Pass<"tilewright-mpi-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Converts functions that send messages to the LLVM dialect";
  let description = [{
    Upstream's patterns, and those that LLVM 22 lacks: of `mpi.isend`, `mpi.irecv` and `mpi.wait`, on buffers of any element type, and of `mpi.allreduce`, for which upstream's names
    no symbol of Open MPI's. A memref argument is a pointer to its first element, a
    communicator the number or the pointer that MPI's C type holds, as 64 bits.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // TILEWRIGHT_TRANSFORMS_PASSES_TD
