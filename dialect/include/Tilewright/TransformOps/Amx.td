// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_AMX_TD
#define TILEWRIGHT_TRANSFORMOPS_AMX_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_ContractToAmxOp : Tilewright_TransformEachOp<"contract_to_amx"> {
  let summary = "Lowers contractions in dot form to AMX tiles, with the accumulators in tile registers";
  let description = [{
    Rewrites each contraction below the target that `dot_form` made, on memrefs, to operations of the `amx` dialect.
    An accumulator of MR x NR elements becomes a block of tiles of at most 16 x 16, which the `scf.for`s around it
    carry and `scf.if`s yield; a tile of A has the same rows and 64 bytes of k in each, a tile of B 16 groups of k.
    bf16 and f16 make f32 sums, and bytes of any two signs, which the extensions say, make i32 sums.

    A zero that an accumulator starts from becomes `amx.tile_zero`. What reads or writes a whole accumulator in bounds,
    with contiguous rows, becomes `amx.tile_load` or `amx.tile_store`. What does so out of bounds goes through 16 x 16
    tiles of a scratch buffer on the stack, row by row, under the same masks. Everything else goes through that buffer
    as a vector. Loops that carry tiles are annotated so that LLVM does not unroll them.

    ```mlir
    %r = scf.for %k = %c0 to %kc step %c32 iter_args(%acc = %zeros) -> (vector<32x32xf32>) {
      %a = vector.transfer_read %pa[%i, %c0, %k] ... vector<32x32xbf16>
      %b = vector.transfer_read %pb[%j, %kf, %c0] ... vector<16x64xbf16>
      ... vector.contract (m,ko,ki),(ko,n,ki)->(m,n) (arith.extf (vector.shape_cast %a)), ..., %acc
    }
    vector.transfer_write %r, %c[%x, %y]
    // becomes
    %r:4 = scf.for %k = %c0 to %kc step %c32 iter_args(%c00 = amx.tile_zero, ...) -> (!amx.tile<16x16xf32>, ...) {
      %a0 = amx.tile_load %pa[%i, %c0, %k] ; %a1 = amx.tile_load %pa[%i, %c16, %k]
      %b0 = amx.tile_load %pb[%j, %kf, %c0]
      %d00 = amx.tile_mulf %a0, %b0, %c00 ; %d10 = amx.tile_mulf %a1, %b0, %c10
      ...
    }
    amx.tile_store %c[%x, %y], %r#0 ; ...
    ```

    Other contractions are left alone, and so are those with fewer than 16 groups of k, or a part of 16. One of types
    that AMX multiplies is a silenceable failure when its operands are not read in bounds from contiguous rows, right
    before it, when its rows or columns are neither a multiple of 16 nor fewer, or when the accumulators and the operands
    do not fit eight tile registers. Nothing has been changed then.

    Why not upstream: `convert-vector-to-amx` makes one tile of a contraction, so a block of them has to be unrolled
    before, and copies the accumulator through the stack in every step of the loop that carries it. It takes signed bytes
    only, and loads tiles directly only from memrefs that have the groups of a dot product as a dimension of their own.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_AMX_TD
