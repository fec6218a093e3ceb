// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD
#define TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_AnnotateOp : Tilewright_TransformEachOp<"annotate"> {
  let summary = "Records a decision, the target or the schedule on payload operations";
  let description = [{
    Attaches an attribute of the dialect to payload operations, under the name that the dialect gives it: `#tilewright.target` to
    modules or functions, `#tilewright.schedule` to any operation, `#tilewright.scalable_tiles` and its like to products,
    `#tilewright.online_softmax` to a softmax between two products, `#tilewright.depthwise` to a depthwise convolution. The lowering carries out decisions by the attribute alone.

    Unlike upstream's `transform.annotate`, it never replaces what is there: a payload operation that already carries
    the same attribute is left alone, and one that carries another is a silenceable failure, because two schedules that
    both claim an operation are a mistake in the script. An attribute on an operation that cannot carry it is one too.

    ```mlir
    transform.tilewright.annotate #tilewright.scalable_tiles<mr = 8, nr = 12, mc = 96, nc = 960, kc = 256> on %matmul
      : !transform.any_op
    ```
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, AnyAttr:$annotation);
  let results = (outs);
  let assemblyFormat = "$annotation `on` $target attr-dict `:` type($target)";
  let hasVerifier = 1;
}

def Tilewright_DecideOp : Tilewright_TransformOp<"decide", [DeclareOpInterfaceMethods<TransformOpInterface>]> {
  let summary = "Records a decision some of whose sizes are transform parameters, such as knobs'";
  let description = [{
    Makes an attribute of the dialect from its mnemonic and its parameters by name, and attaches it as `transform.tilewright.annotate` does.
    What a parameter of the attribute is, is said in the text, or is a transform parameter of one value: a number, or 0 or 1 of what is true
    or false. Parameters that have a default value may be left out.

    Which values go together, the attribute itself checks: where these do not, that is a silenceable failure, as what `annotate` refuses is.

    ```mlir
    %kc = transform.tune.knob<"kc"> = 96 : i64 from options = [48, 96, 192] -> !transform.param<i64>
    transform.tilewright.decide online_softmax(kc = %kc, mr = 6, nr = 4, columns = 4) on %softmax : !transform.any_op
    // attaches #tilewright.online_softmax<kc = 96, mr = 6, nr = 4, columns = 4>
    ```
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, StrAttr:$kind, Variadic<Tilewright_SizeParam>:$sizes,
                       StrArrayAttr:$names, DictionaryAttr:$others);
  let results = (outs);
  let assemblyFormat = [{
    custom<Mnemonic>($kind) `(` custom<Fields>($sizes, $names, $others) `)` `on` $target attr-dict `:` type($target)
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_TRANSFORMOPS_ANNOTATE_TD
