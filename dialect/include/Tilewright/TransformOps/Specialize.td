// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_TRANSFORMOPS_SPECIALIZE_TD
#define TILEWRIGHT_TRANSFORMOPS_SPECIALIZE_TD

include "Tilewright/TransformOps/TransformOpBase.td"

def Tilewright_SpecializeTilesOp : Tilewright_TransformEachOp<"specialize_tiles"> {
  let summary = "Evens out the tiles of a loop over an unknown extent, and gives each size of a tile code of its own";
  let description = [{
    Takes a loop over tiles as `transform.structured.tile_using_for` makes it: of a constant step, whose body computes the
    size of a tile by an `affine.min` of that step. As many tiles as before then share the extent evenly, in whole multiples
    of `unit`, and the body branches by the size of its tile: one region for each multiple of `unit`, in which the size is a
    constant. Where the extent may end within a unit, each has a second region, in which the size is bounded only; with
    `whole` there are none of those.

    With `whole` and a step of one unit every tile is whole, and nothing branches. With `masked`, where reading a whole vector
    under a mask costs as much as reading it, only the largest size has two regions, and each other one is bounded.

    With `once` the extent is known to be no larger than the step: the body takes the loop's place, so that nothing is
    computed before a tile's size is known, and with `masked` every size is bounded.

    With `single` nothing is bounded, for targets on which every element under a mask is a branch: the loop is over whole units, of
    which there may be none, and what is left of one comes after it in a loop of its own, in tiles of one.

    So a tile of 3 rows is computed by code for 3 rows, and of 9 rows in tiles of 8 at most, 5 and 4 are computed.

    Why not upstream: `transform.loop.peel` leaves one short tile of unknown size, and
    `transform.structured.multitile_sizes` chooses two sizes of which at least one is not known either.

    ```mlir
    scf.for %i = %c0 to %m step %c8 {
      %rows = affine.min (8, %m - %i)
      tile of %rows rows
    // becomes
    %tiles = ceildiv(%m, 8);  %even = ceildiv(%m, %tiles)
    scf.for %i = %c0 to %m step %even {
      %rows = affine.min (%even, %m - %i)
      scf.index_switch %rows case 1 { tile of 1 row } ... default { tile of 8 rows }
    ```

    The extent must not be zero, which is for whoever calls to see to. The handle is consumed. A silenceable failure: the
    target is no such loop, or its step is no multiple of `unit`.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$unit, UnitAttr:$whole, UnitAttr:$masked,
                       UnitAttr:$single, UnitAttr:$once);
  let results = (outs);
  let assemblyFormat = "$target (`unit` $unit^)? (`whole` $whole^)? (`masked` $masked^)? (`single` $single^)? (`once` $once^)? attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_SPECIALIZE_TD
