// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_IR_TILEWRIGHTATTRS_TD
#define TILEWRIGHT_IR_TILEWRIGHTATTRS_TD

include "Tilewright/IR/TilewrightDialect.td"
include "Tilewright/IR/TilewrightGpuAttrs.td"
include "Tilewright/IR/TilewrightProductAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

class Tilewright_Attr<string name, string attrMnemonic> : AttrDef<Tilewright_Dialect, name> {
  let mnemonic = attrMnemonic;
  let genVerifyDecl = 1;
}

def Tilewright_TargetAttr : Tilewright_Attr<"Target", "target"> {
  let summary = "The machine that a module or function is compiled for";
  let description = [{
    Says in LLVM's spelling what the code may use. `name` is the row of tilewright's target table, or `host`.
    `features` is a comma-separated list of `+feature` and `-feature`, each feature once. `tune_cpu` only steers LLVM's
    cost model. `vector_bits` is the width of a vector register, and `prefer_vector_width` the width that LLVM should
    vectorize to; 0 leaves either open.

    ```mlir
    module attributes {tilewright.target = #tilewright.target<
        name = "x86-64-v3", triple = "x86_64-unknown-linux-gnu", features = "+avx2,+fma", tune_cpu = "haswell",
        vector_bits = 256>} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"row of the target table">:$name,
    StringRefParameter<"LLVM target triple">:$triple,
    StringRefParameter<"LLVM features, as in \"+avx2,+fma\"", [{""}]>:$features,
    StringRefParameter<"CPU that LLVM's cost model follows", [{""}]>:$tune_cpu,
    DefaultValuedParameter<"int64_t", "0", "bits of a vector register">:$vector_bits,
    DefaultValuedParameter<"int64_t", "0", "bits of the vectors that LLVM should make">:$prefer_vector_width
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tilewright_ScheduleAttr : Tilewright_Attr<"Schedule", "schedule"> {
  let summary = "Which strategy scheduled an operation, and with what";
  let description = [{
    The provenance of scheduled code: the strategy's name, the parameters that it chose (tile and block extents as
    non-negative integers, switches as booleans, names as strings, or arrays of those), and the line of the schedule
    that was being built.

    ```mlir
    linalg.matmul {tilewright.schedule = #tilewright.schedule<
        strategy = "packed", parameters = {mr = 6 : i64, nr = 16 : i64}, source = "packed.py:41">} ...
    ```
  }];
  let parameters = (ins
    StringRefParameter<"name of the strategy">:$strategy,
    DefaultValuedParameter<"::mlir::DictionaryAttr",
      "::mlir::DictionaryAttr::get($_ctxt)", "what the strategy chose">:$parameters,
    StringRefParameter<"FILE:LINE of the schedule", [{""}]>:$source
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // TILEWRIGHT_IR_TILEWRIGHTATTRS_TD
