// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_ORDER_TD
#define TILEWRIGHT_TRANSFORMOPS_ORDER_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_ReorderAlongKOp : Tilewright_TransformEachOp<"reorder_along_k"> {
  let summary = "Multiplies the elements of each block along k in another order: every so manieth, one after the other";
  let description = [{
    Takes a `linalg.matmul` whose B an elementwise `linalg.generic` computes, a prologue, and whose k is a multiple of
    `block`. In each block, element `l * ways + p` of A and B becomes element `p * (block / ways) + l`. A is copied so, once;
    the prologue reads its first input so. Where `ways` elements of a row share a word, as eight of four bits do, words
    shifted by p elements then have such pieces of a block side by side, and nothing has to be interleaved.

    Other inputs of the prologue that have an element for each group along k stay as they are, groups being whole blocks.

    Why not upstream: `linalg.pack` with a permutation would copy B too.

    ```mlir
    %b = linalg.generic {maps = [(k, n) -> (k, n), (k, n) -> (k floordiv 128, n), ...]} ins(%codes, %scales)
    linalg.matmul ins(%a, %b)
    // becomes, with block = 128, ways = 4, and p(k) = k floordiv 128 * 128 + k mod 32 * 4 + k mod 128 floordiv 32
    %a2 = linalg.generic {maps = [(m, k) -> (m, p(k)), ...]} ins(%a)
    %b = linalg.generic {maps = [(k, n) -> (p(k), n), (k, n) -> (k floordiv 128, n), ...]} ins(%codes, %scales)
    linalg.matmul ins(%a2, %b)
    ```

    A silenceable failure: the product or its B is none of that form.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$block,
                       ConfinedAttr<I64Attr, [IntPositive]>:$ways);
  let results = (outs);
  let assemblyFormat = "$target `block` $block `ways` $ways attr-dict `:` type($target)";
}

def Tilewright_SpreadTilesOp : Tilewright_TransformEachOp<"spread_tiles"> {
  let summary = "Gives each tile of a loop elements that are far apart, so that memory is read in several streams";
  let description = [{
    Takes an `scf.for` over all tiles of an extent, each of as many elements, whose slices of tensors begin at its counter.
    Tile i, which had elements `i * size` to `i * size + size - 1`, has elements i, `i + tiles`, `i + 2 * tiles` and so on:
    the slices get strides. From step to step each of them moves on by one, so that rows that lie one after the other are
    read as `size` streams, each of which goes straight on. The steps of the loop must not depend on each other, as those of
    tiled parallel loops do not.

    Why not upstream: tiles of the tiling interface are contiguous.

    ```mlir
    scf.for %j = 0 to 4096 step 2 { %b[0, %j] [64, 2] [1, 1] }
    // becomes
    scf.for %j = 0 to 4096 step 2 { %b[0, %j floordiv 2] [64, 2] [1, 2048] }
    ```

    A silenceable failure: the counter is used otherwise, or the bounds are not constants of that form.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_ORDER_TD
