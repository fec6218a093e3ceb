// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a schedule for a CPU has decided that upstream's passes do not carry out: how a product is written out, which operands are
// prefetched, and for which calls a kernel is.

#ifndef TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD
#define TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD

include "Tilewright/IR/TilewrightGpuAttrs.td"

def Tilewright_ScalableTilesAttr : Tilewright_DecisionAttr<"ScalableTiles", "scalable_tiles"> {
  let summary = "A product of blocks is computed in register tiles of scalable vectors, from packed panels";
  let description = [{
    `mr` and `nr` are rows and columns of a register tile, the columns for vectors of 128 bits; `mc`, `nc` and `kc` are the most rows,
    columns and depth of a block, which size the panels.

    ```mlir
    linalg.matmul {tilewright.product = #tilewright.scalable_tiles<mr = 8, nr = 12, mc = 96, nc = 960, kc = 256>} ...
    ```
  }];
  let parameters = (ins "int64_t":$mr, "int64_t":$nr, "int64_t":$mc, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_OuterProductsAttr : Tilewright_DecisionAttr<"OuterProducts", "outer_products"> {
  let summary = "A product of blocks is computed by outer products that add to the tiles of SME's array ZA";
  let description = [{
    `mc`, `nc` and `kc` are the most rows, columns and depth of a block, which size the panels. The tiles are as large as the machine
    makes them.
  }];
  let parameters = (ins "int64_t":$mc, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_ScaledSumsAttr : Tilewright_DecisionAttr<"ScaledSums", "scaled_sums"> {
  let summary = "A product by quantized weights sums codes, and scales each sum once a group";
  let description = [{
    `mr` and `nr` are rows and columns of a register tile; `nc` columns are summed over a whole group before they are scaled; `kc` is
    the depth of one pass over them.
  }];
  let parameters = (ins "int64_t":$mr, "int64_t":$nr, "int64_t":$nc, "int64_t":$kc);
}

def Tilewright_PrefetchAttr : Tilewright_DecisionAttr<"Prefetch", "prefetch"> {
  let summary = "Which operands of a function are prefetched by software";
  let description = [{
    `operands` is `"none"`, where the hardware foresees every stream, or `"all"`, where also operands of dynamic extents are larger
    than the caches. A function without the attribute prefetches operands that are known to be larger than the caches.
  }];
  let parameters = (ins StringRefParameter<"none or all">:$operands);
}

def Tilewright_KernelAttr : Tilewright_DecisionAttr<"Kernel", "kernel"> {
  let summary = "For which calls a schedule is, and by how many threads its kernel is computed";
  let description = [{
    Stands on a schedule's module. `threads` is the most that a call uses. Of a kernel with dynamic extents a schedule is one of several,
    and says for which extents: `extents` holds least, most and divisor of each of m, n and k that it was made for, and `cases`
    the cases that it computes. A case has its number, by which cases are tried in order, and the tests that a call's extents have to
    pass: the `extents` whose product is tested, the `least` and the `most` that it may be (-1: any), and what divides it.

    ```mlir
    module attributes {transform.with_named_sequence, tilewright.kernel = #tilewright.kernel<threads = 1,
        extents = {m = array<i64: 1, 8, 1>, n = array<i64: 1, 2147483647, 1>, k = array<i64: 1, 2147483647, 1>},
        cases = [ {number = 2 : i64, tests = [ {extents = "m", least = 0 : i64, most = 8 : i64, multiple = 1 : i64} ]} ]>} { ... }
    ```
  }];
  let parameters = (ins
    "int64_t":$threads,
    DefaultValuedParameter<"::mlir::DictionaryAttr", "::mlir::DictionaryAttr::get($_ctxt)", "extents that it is for">:$extents,
    DefaultValuedParameter<"::mlir::ArrayAttr", "::mlir::ArrayAttr::get($_ctxt, {})", "cases that it computes">:$cases
  );
}

#endif // TILEWRIGHT_IR_TILEWRIGHTPRODUCTATTRS_TD
