// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_ACCUMULATORS_TD
#define TILEWRIGHT_TRANSFORMOPS_ACCUMULATORS_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_ForwardFillOp : Tilewright_TransformEachOp<"forward_fill"> {
  let summary = "Starts accumulators at the filled value, so that the filled tensor is neither filled nor read first";
  let description = [{
    Takes a `linalg.fill` whose result is carried through tiling loops to `vector.transfer_read`s, and replaces each of
    those reads by the filled value in the first step of the loops that reduce. A loop reduces when its induction
    variable does not choose the slice that is read; it has to be known to run. The loops that do choose it are trusted
    to visit distinct slices and, together, all of the tensor, as tiling makes them, unless their constants say
    otherwise. With `runs`, loops of unknown length are trusted to run too, which is for whoever calls to see to. Tiles beside or behind a loop, as peeling makes them, are followed too, when they provably lie beside
    what was written before. Without a loop that reduces the read becomes a constant. The fill is removed.

    Why not upstream: `structured.fuse_into_containing_op` moves a fill into parallel loops only, so a blocked reduction
    keeps a pass over the whole result that writes it, and one that reads it.

    ```mlir
    %f = linalg.fill ins(%zero) outs(%c)
    scf.for %p iter_args(%x = %f) { scf.for %i iter_args(%y = %x) {
      %s = tensor.extract_slice %y[%i, 0] ...
      %acc = vector.transfer_read %s[0, 0] ...
    // becomes
    scf.for %p iter_args(%x = %c) { scf.for %i iter_args(%y = %x) {
      %s = tensor.extract_slice %y[%i, 0] ...
      %acc = scf.if (%p == 0) { yield dense<0.0> } else { yield vector.transfer_read %s[0, 0] }
    ```

    The handle is consumed. A silenceable failure: something other than the tiled nest uses the filled tensor, tiles
    overlap, elements that nothing else was written to are used, a read pads with another value than the fill's, or no
    read is reached.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, UnitAttr:$runs);
  let results = (outs);
  let assemblyFormat = "$target (`runs` $runs^)? attr-dict `:` type($target)";
}

def Tilewright_SplitTransferOp : Tilewright_TransformEachOp<"split_transfer"> {
  let summary = "Gives a vector transfer that may be out of bounds a branch for the full tile";
  let description = [{
    Rewrites `vector.transfer_read` and `vector.transfer_write` with dimensions that are not known to be in bounds into
    an `scf.if`: where the tile is full, the same transfer with every dimension in bounds; where it is not, the transfer
    as it was. Full tiles then pay one compare and never a mask. A transfer in bounds already is left alone.

    Why not upstream: `apply_patterns.vector.split_transfer_full_partial` in LLVM 22 does not reach a fixed point on a
    function that holds such transfers inside `scf.if` and `scf.for` both, and copies partial tiles through memory.

    The handle is consumed.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

def Tilewright_UnrollVectorsOp : Tilewright_TransformEachOp<"unroll_vectors"> {
  let summary = "Unrolls multi-dimensional vectors to single registers, those carried by loops and branches too";
  let description = [{
    Splits every vector of rank two or more that an `scf.for` carries or an `scf.if` yields into pieces of one row and
    `lanes` columns, and unrolls contractions and transfers to the same pieces. Each accumulator of a register tile is
    then a value of its own, so that the register tile need not be a power of two wide: a `vector<8x48xf32>` becomes 24
    `vector<1x16xf32>`, where LLVM would widen each row to 64 elements. A last dimension that is no multiple of `lanes`
    is split into pieces of `part` columns where it is a multiple of that, and longer than a register; otherwise it stays whole.

    Why not upstream: the unroll patterns exist in C++ only, and do not split what loops carry.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target, ConfinedAttr<I64Attr, [IntPositive]>:$lanes,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$part);
  let results = (outs);
  let assemblyFormat = "$target `lanes` $lanes (`part` $part^)? attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_ACCUMULATORS_TD
