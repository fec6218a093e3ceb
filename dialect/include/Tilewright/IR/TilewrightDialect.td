// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_IR_TILEWRIGHTDIALECT_TD
#define TILEWRIGHT_IR_TILEWRIGHTDIALECT_TD

include "mlir/IR/DialectBase.td"

def Tilewright_Dialect : Dialect {
  let name = "tilewright";
  let cppNamespace = "::tilewright";
  let summary = "What a matrix-multiplication payload carries about its target and its schedule";
  let description = [{
    The dialect has attributes and no operations: computations are upstream's `linalg`, `vector` and `scf`, and schedules
    are upstream's `transform` dialect with the extension `transform.tilewright.*`.

    These attribute names mean something, and are verified wherever they stand:

    - `tilewright.target` on a module or a function holds a `#tilewright.target`: what the code inside is compiled for.
    - `tilewright.schedule` on any operation holds a `#tilewright.schedule`: which strategy made the code what it is.
    - `tilewright.sharing` on an `scf.forall` over blocks of threads of a GPU says how a block's tile is shared among its threads:
      `#tilewright.threads`, `#tilewright.warps` or `#tilewright.warp_groups`.
    - `tilewright.pipeline` on an `scf.for` over K holds a `#tilewright.pipeline`.
    - `tilewright.product` on a `linalg` op says how a product is written out that upstream's passes do not lower so:
      `#tilewright.scalable_tiles`, `#tilewright.outer_products` or `#tilewright.scaled_sums`.
    - `tilewright.softmax` on a `linalg.softmax` between two products holds a `#tilewright.online_softmax`.
    - `tilewright.convolution` on a `linalg` op that is a convolution holds a `#tilewright.depthwise`.
    - `tilewright.patches` on the function of a product holds a `#tilewright.patches`.
    - `tilewright.prefetch` on a function holds a `#tilewright.prefetch`.
    - `tilewright.unroll`, `tilewright.ahead`, `tilewright.rows_ahead`, `tilewright.past_l1`, `tilewright.images` and
      `tilewright.across` on a function hold integers: steps over K of one iteration, KiB that streams are prefetched ahead, steps over K
      that rows of an operand are, whose tiles do not stay in L1 (1: B's, 2: A's, 3: both's), which images are copied for patches to be
      read there (1: all, 2: those of a block of rows), and how many threads are side by side across the outer of two loops that threads
      share.
      `transform.annotate` sets them from a parameter, such as a knob's.
    - `tilewright.kernel` on a schedule's module holds a `#tilewright.kernel`: for which calls the schedule is.

    Schedules record all but the first and the last, and the lowering goes by them, as upstream's goes by the attribute `mapping`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The name under which a module or function carries its `TargetAttr`.
    static constexpr ::llvm::StringLiteral getTargetAttrName() { return "tilewright.target"; }
    /// The name under which an operation carries its `ScheduleAttr`.
    static constexpr ::llvm::StringLiteral getScheduleAttrName() { return "tilewright.schedule"; }
    /// The name under which a loop over blocks carries how they share their tiles.
    static constexpr ::llvm::StringLiteral getSharingAttrName() { return "tilewright.sharing"; }
    /// The name under which a loop over K carries its `PipelineAttr`.
    static constexpr ::llvm::StringLiteral getPipelineAttrName() { return "tilewright.pipeline"; }
    /// The name under which a product carries how it is written out.
    static constexpr ::llvm::StringLiteral getProductAttrName() { return "tilewright.product"; }
    /// The name under which a softmax carries how it is written out, with the products around it.
    static constexpr ::llvm::StringLiteral getSoftmaxAttrName() { return "tilewright.softmax"; }
    /// The name under which a convolution carries how it is written out, with the ops around it.
    static constexpr ::llvm::StringLiteral getConvolutionAttrName() { return "tilewright.convolution"; }
    /// The name under which the function of a product carries which operand is a matrix of patches.
    static constexpr ::llvm::StringLiteral getPatchesAttrName() { return "tilewright.patches"; }
    /// The name under which a function carries its `PrefetchAttr`.
    static constexpr ::llvm::StringLiteral getPrefetchAttrName() { return "tilewright.prefetch"; }
    /// The names under which a function carries numbers that its lowering goes by.
    static constexpr ::llvm::StringLiteral getUnrollAttrName() { return "tilewright.unroll"; }
    static constexpr ::llvm::StringLiteral getAheadAttrName() { return "tilewright.ahead"; }
    static constexpr ::llvm::StringLiteral getRowsAheadAttrName() { return "tilewright.rows_ahead"; }
    static constexpr ::llvm::StringLiteral getPastL1AttrName() { return "tilewright.past_l1"; }
    static constexpr ::llvm::StringLiteral getImagesAttrName() { return "tilewright.images"; }
    static constexpr ::llvm::StringLiteral getAcrossAttrName() { return "tilewright.across"; }
    /// The name under which a schedule's module carries its `KernelAttr`.
    static constexpr ::llvm::StringLiteral getKernelAttrName() { return "tilewright.kernel"; }
  }];
}

#endif // TILEWRIGHT_IR_TILEWRIGHTDIALECT_TD
