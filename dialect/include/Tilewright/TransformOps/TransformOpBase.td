// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_TRANSFORMOPBASE_TD
#define TILEWRIGHT_TRANSFORMOPS_TRANSFORMOPBASE_TD

include "mlir/Dialect/Transform/IR/TransformDialect.td"
include "mlir/Dialect/Transform/IR/TransformTypes.td"
include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// An operation transform.tilewright.<name>. It states its effects on handles and payload itself (getEffects).
class Tilewright_TransformOp<string name, list<Trait> traits = []>
    : Op<Transform_Dialect, "tilewright." # name,
         !listconcat(traits, [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>])> {
  let cppNamespace = "::tilewright";
}

// One that is applied to each payload operation of its `target` in turn (applyToOne).
class Tilewright_TransformEachOp<string name, list<Trait> traits = []>
    : Tilewright_TransformOp<name, !listconcat(traits, [TransformOpInterface, TransformEachOpTrait])> {
  let extraClassDeclaration = [{
    ::mlir::DiagnosedSilenceableFailure applyToOne(
        ::mlir::transform::TransformRewriter &rewriter, ::mlir::Operation *target,
        ::mlir::transform::ApplyToEachResultList &results, ::mlir::transform::TransformState &state);
  }];
}

// A parameter that is a size, such as a knob's (`transform.tune.knob`).
def Tilewright_SizeParam
    : Type<CPred<"::tilewright::isSizeParam($_self)">, "transform parameter of i64", "::mlir::transform::ParamType">,
      BuildableType<"::mlir::transform::ParamType::get($_builder.getContext(), $_builder.getI64Type())">;

#endif // TILEWRIGHT_TRANSFORMOPS_TRANSFORMOPBASE_TD
