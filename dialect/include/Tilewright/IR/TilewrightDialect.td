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

    Two attribute names mean something on any operation, and are verified wherever they stand:

    - `tilewright.target` on a module or a function holds a `#tilewright.target`: what the code inside is compiled for.
    - `tilewright.schedule` on any operation holds a `#tilewright.schedule`: which strategy made the code what it is.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The name under which a module or function carries its `TargetAttr`.
    static constexpr ::llvm::StringLiteral getTargetAttrName() { return "tilewright.target"; }
    /// The name under which an operation carries its `ScheduleAttr`.
    static constexpr ::llvm::StringLiteral getScheduleAttrName() { return "tilewright.schedule"; }
  }];
}

#endif // TILEWRIGHT_IR_TILEWRIGHTDIALECT_TD
