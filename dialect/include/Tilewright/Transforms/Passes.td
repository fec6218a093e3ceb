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

def PrefetchTiles : Pass<"tilewright-prefetch-tiles"> {
  let summary = "Prefetches the next tile of accumulators while the current one is computed";
  let description = [{
    Where a loop starts from a two-dimensional vector that is read from a memref, as the microkernel's loop over K starts
    from a tile of C, prefetches the tile below it before the loop. The hardware does not: a tile's rows are few and far
    apart. Runs after bufferization and before vectors are unrolled. A prefetch beyond the memref is harmless.

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
    operand exceeds half of the last-level cache too. Copies are left alone. Runs after bufferization and before vectors are
    unrolled. A prefetch beyond the memref is harmless.

    Upstream has the operation, and no pass that places it.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::memref::MemRefDialect"];
  let options = [
    Option<"cacheBytes", "cache-bytes", "int64_t", /*default=*/"1048576", "Bytes of L2">,
    Option<"lastLevelBytes", "last-level-bytes", "int64_t", /*default=*/"33554432", "Bytes of the last-level cache">,
    Option<"lineBytes", "line-bytes", "int64_t", /*default=*/"64", "Bytes of a cache line">,
    Option<"open", "open", "bool", /*default=*/"false", "Operands of unknown size are larger than the caches">
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
    Option<"source", "source", "std::string", /*default=*/"\"tilewright\"", "The file that the code is said to be of">
  ];
}

#endif // TILEWRIGHT_TRANSFORMS_PASSES_TD
