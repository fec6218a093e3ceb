// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_EXCHANGE_TD
#define TILEWRIGHT_TRANSFORMOPS_EXCHANGE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_ExchangeOp : Tilewright_TransformEachOp<"exchange"> {
  let summary = "Exchanges the operands of a function's matrix product, whose sums are then transposed where they are written";
  let description = [{
    Takes a function with one matrix product, A of m x k by B of k x n elements, both arguments of the function that nothing else
    uses, whose sums start from zeros. It then computes the transpose of B by that of A: the same sums, as n x m elements. The
    arguments' types are those of the transposes, whose strides are the other way round: memory stays as it is.
    The elementwise op that uses the sums runs over (n, m), and reads them as they are; where there is none, one is made that writes
    them to C. What it writes, and its other inputs of both dimensions, it meets transposed.

    ```mlir
    func.func @matmul(%a: tensor<64x1024xbf16> {strided<[?, 1]>}, %b: tensor<1024x512xbf16> {strided<[1, ?]>}, %c: tensor<64x512xf32>)
    %f = linalg.fill ins(%zero) outs(%c)
    %r = linalg.matmul ins(%a, %b) outs(%f)
    // becomes
    func.func @matmul(%a: tensor<1024x64xbf16> {strided<[1, ?]>}, %b: tensor<512x1024xbf16> {strided<[?, 1]>}, %c: tensor<64x512xf32>)
    %f = linalg.fill ins(%zero) outs(%e) : tensor<512x64xf32>
    %s = linalg.matmul ins(%b, %a) outs(%f)
    %r = linalg.generic {(n, m) -> (n, m), (n, m) -> (m, n)} ins(%s) outs(%c)
    ```

    Why not upstream: `structured.transpose_matmul` transposes one input, by a copy, and `structured.interchange` leaves the order of
    inputs, and what is stored, as they are.

    The handle stays valid. A silenceable failure: there is no such product, or not one alone.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_EXCHANGE_TD
