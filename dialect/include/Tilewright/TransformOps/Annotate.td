// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD
#define TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_AnnotateOp : Tilewright_TransformEachOp<"annotate"> {
  let summary = "Records the target or the schedule on payload operations";
  let description = [{
    Attaches `#tilewright.target` to the payload's modules or functions, or `#tilewright.schedule` to any payload
    operation, under the name that the dialect gives it (`tilewright.target`, `tilewright.schedule`).

    Unlike upstream's `transform.annotate`, it never replaces what is there: a payload operation that already carries
    the same attribute is left alone, and one that carries another is a silenceable failure, because two schedules that
    both claim an operation are a mistake in the script. A target on anything but a module or a function is one too.

    ```mlir
    transform.tilewright.annotate #tilewright.schedule<strategy = "packed"> on %matmul : !transform.any_op
    ```
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, AnyAttr:$annotation);
  let results = (outs);
  let assemblyFormat = "$annotation `on` $target attr-dict `:` type($target)";
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD
