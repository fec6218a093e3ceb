// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the threads of a GPU share what a block of them computes, and how many stages a block's pipeline has.

#ifndef TILEWRIGHT_TRANSFORMOPS_GPU_TD
#define TILEWRIGHT_TRANSFORMOPS_GPU_TD

include "Tilewright/TransformOps/TransformOpBase.td"

// What a clause of these ops says is a number or a transform parameter, such as a knob's (`transform.tune.knob`): `rows 4`, or
// `rows %rows`. A clause that says whether something is done takes nothing, or a parameter of 0 or 1: `swapped`, or `swapped %swapped`. In
// the generic form a clause is an attribute of its name, or else an operand of that name with `dynamic_` before it. A parameter has one
// value, for all loops of the target. What it may be is checked when the op is applied: that is a definite failure, as is what of several
// clauses does not go together; of numbers alone it is an error of the op itself.

def Tilewright_Param : Optional<Tilewright_SizeParam>;
def Tilewright_Size : OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>;

// One that is applied to each loop of its `target`, and has clauses.
class Tilewright_LoopOp<string name, list<Trait> traits = []>
    : Tilewright_TransformOp<name, !listconcat(traits, [DeclareOpInterfaceMethods<TransformOpInterface>])> {
  let results = (outs);
  let hasVerifier = 1;
  let extraClassDefinition = [{
    void $cppClass::getEffects(::llvm::SmallVectorImpl<::mlir::MemoryEffects::EffectInstance> &effects) {
      ::mlir::transform::onlyReadsHandle(getOperation()->getOpOperands(), effects);
      ::mlir::transform::modifiesPayload(effects);
    }
  }];
}

// Below, "a loop over blocks" is an scf.forall that is mapped to #gpu.block<y> and #gpu.block<x>, each iteration of which computes a
// tile of C in vectors as large as the tile: BlockTile.h says it exactly, and is what checks it.

def Tilewright_ShareAmongThreadsOp : Tilewright_LoopOp<"share_among_threads", [AttrSizedOperandSegments]> {
  let summary = "Gives each thread of a block a rectangle of the block's tile, to be multiplied and added by itself";
  let description = [{
    Decides that the threads of a block bring tiles of A and B to shared memory together, a piece each, and that each of them then
    multiplies and adds `rows` x `columns` elements of the block's tile. So many threads a block has as there are such rectangles.

    The target is a loop over blocks, each of which computes its tile in vectors as large as the tile, as `linalg` tiled by
    `transform.structured.tile_using_forall` and vectorized is. The decision is recorded on it, as upstream's `mapping` is, and is
    carried out when the module has been bufferized: only then can tiles of A and B have memory of their own.

    Why not upstream: `transform.gpu.map_nested_forall_to_threads` gives the iterations of an `scf.forall` in a `gpu.launch` one
    thread each, and needs the tiles of shared memory, the copies into them and the barriers between to be there already, in loops
    of static trip counts; nothing of upstream's divides a vector as large as a block's tile among a block's threads
    (`vector.warp_execute_on_lane_0` does so for one warp, along one axis).

    ```mlir
    scf.forall (%i, %j) in (%0, %1) {
      %sums = scf.for %k = %c0 to %n step %c16 iter_args(%s = %zeros) -> (vector<64x64xf32>) {
        a = read A under a mask;  b = read B under a mask
        vector.contract a, b, %s : vector<64x16xf32>, vector<16x64xf32> into vector<64x64xf32>
      }
      write C <- f(%sums) under a mask
    } {mapping = [#gpu.block<y>, #gpu.block<x>]}
    // with `rows 4 columns 4` it carries {tilewright.sharing = #tilewright.threads<rows = 4, columns = 4>}, and becomes, in each thread,
    for %k = %c0 to %n step %c16 iter_args(%s = %zeros) -> 4 rows of vector<4xf32> {
      tile_a, tile_b <- a piece of A and of B;  gpu.barrier
      %s += tile_a[my rows, :] * tile_b[:, my columns];  gpu.barrier
    }
    write my part of C <- f(%s), as far as it is inside
    ```

    The handle stays valid. A silenceable failure: the target is no such loop, it is shared already, or the tile is no multiple of
    the parts.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Tilewright_Param:$dynamic_rows, Tilewright_Size:$rows,
                       Tilewright_Param:$dynamic_columns, Tilewright_Size:$columns);
  let assemblyFormat = [{
    $target `rows` custom<Size>($dynamic_rows, $rows) `columns` custom<Size>($dynamic_columns, $columns) attr-dict `:` type($target)
  }];
}

def Tilewright_ShareAmongWarpsOp : Tilewright_LoopOp<"share_among_warps", [AttrSizedOperandSegments]> {
  let summary = "Gives each warp of a block a rectangle of the block's tile, to be multiplied by matrix instructions";
  let description = [{
    Decides that each warp of a block multiplies `rows` x `columns` elements of the block's tile by matrix instructions of a family:
    `"mma_sync"`, NVIDIA's of a warp, or `"matrix_cores"`, AMD's (MFMA or WMMA, whichever the target has; a warp is then a wave of as
    many threads as the target's have). Threads bring tiles of A and B to shared memory together; with `transform.tilewright.pipeline`
    and `mma_sync` copies go on by themselves (`cp.async`).

    The target and how the decision is recorded are as for `transform.tilewright.share_among_threads`, and so is why upstream's
    ops do not do it. `transform.nvgpu.rewrite_matmul_as_mma_sync` makes one instruction of one `linalg.matmul` of 16x8x4 or 16x8x16
    elements in a `gpu.launch` of one warp; `convert-vector-to-gpu` takes neither bf16 nor a block of several warps.

    ```mlir
    scf.forall (%i, %j) in (%0, %1) {
      %sums = scf.for %k ... { vector.contract ... : vector<128x32xbf16>, vector<32x128xbf16> into vector<128x128xf32> }
      write C <- f(%sums) under a mask
    } {mapping = [#gpu.block<y>, #gpu.block<x>]}
    // with `rows 64 columns 32 instructions "mma_sync"` it carries
    // {tilewright.sharing = #tilewright.warps<rows = 64, columns = 32, instructions = "mma_sync">}, and becomes, in each thread,
    for %k ... {
      tile_a, tile_b <- a piece of A and of B;  gpu.barrier
      my sums += fragments of tile_a * fragments of tile_b, by 4 x 4 x 2 nvvm.mma.sync;  gpu.barrier
    }
    write my part of C <- f(my sums), as far as it is inside
    ```

    The handle stays valid. Silenceable failures are those of `share_among_threads`.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Tilewright_Param:$dynamic_rows, Tilewright_Size:$rows,
                       Tilewright_Param:$dynamic_columns, Tilewright_Size:$columns,
                       StrAttr:$instructions);
  let assemblyFormat = [{
    $target `rows` custom<Size>($dynamic_rows, $rows) `columns` custom<Size>($dynamic_columns, $columns)
    `instructions` $instructions attr-dict `:` type($target)
  }];
}

def Tilewright_SpecializeWarpGroupsOp : Tilewright_LoopOp<"specialize_warp_groups", [AttrSizedOperandSegments]> {
  let summary = "Lets one warp group of a block copy tiles, and the others multiply them (Hopper)";
  let description = [{
    Decides that a block has one warp group (four warps) that copies, the producer, and `consumers` that multiply. One thread of the
    producer has boxes of A and B copied to shared memory (TMA); consumers multiply them from there, asynchronously (`wgmma`), with
    sums in registers that the producer gave away (`setmaxnreg`). Barrier objects tell which slot is full, and which is empty; how many
    slots there are is for `transform.tilewright.pipeline` to say. A grid of as many blocks as multiprocessors goes on from tile to tile.

    - `consumers`: each has rows of the block's tile.
    - `pingpong`: each of two consumers has a tile of its own, and multiplies while the other one finishes its sums.
    - `cluster`: so many blocks below one another share the tile of B, of which each has a part copied to all (multicast).
    - `beside`: so many blocks beside one another share the tile of A likewise; a cluster has `cluster` times as many.
    - `split`: so many blocks, a cluster, have a part of the steps over K each, and add up their sums.
    - `streamed`: blocks divide the steps over K of the last tiles, which would fill the chip in part, evenly among them, and add up sums of
      the same tile through memory (stream-K).
    - `fetched`: the matrix that is added to the tile, C itself or another of its extents, is copied to shared memory while the tile's
      products are computed, to where the tile of C is put together afterwards.
    - `swapped`: C is computed as the transpose of the product of the transposes, for few rows.
    - `band`: rows of tiles that blocks go through together, column by column.
    - `promote`: steps over K after which sums are added to others in f32; 0 for never.

    The target and how the decision is recorded are as for `transform.tilewright.share_among_threads`.

    Why not upstream: it has the instructions (`nvgpu`, `nvvm`), `nvgpu.warpgroup.mma`, which waits for every product at once, and
    `transform.nvgpu.create_async_groups`, of copies that all threads begin; it has no op that divides a loop between those who copy
    and those who multiply, with barriers that go round between them.

    ```mlir
    scf.forall (%i, %j) in (%0, %1) {
      %sums = scf.for %k ... { vector.contract ... : vector<128x64xbf16>, vector<64x256xbf16> into vector<128x256xf32> }
      write C <- f(%sums) under a mask
    } {mapping = [#gpu.block<y>, #gpu.block<x>]}
    // with `consumers 2` it carries {tilewright.sharing = #tilewright.warp_groups<consumers = 2>}, and becomes, in each thread,
    if first warp group:                                 // the producer: one thread of it
      for (i, j) in my tiles:
        for %k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot
    else:                                                // a consumer, which has 64 rows
      for (i, j) in my tiles:
        for %k: await full[slot];  sums += tile_a[slot] * tile_b[slot];  await the product before, release its slot
        write C <- f(sums), by boxes
    ```

    The handle stays valid. A silenceable failure: the target is no loop over blocks, it is shared already, or the tile is
    no multiple of 64 rows for each consumer. Clauses that do not go together are an error, as said above.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Tilewright_Param:$dynamic_consumers, Tilewright_Size:$consumers,
                       Tilewright_Param:$dynamic_pingpong, UnitAttr:$pingpong,
                       Tilewright_Param:$dynamic_cluster, Tilewright_Size:$cluster,
                       Tilewright_Param:$dynamic_beside, Tilewright_Size:$beside,
                       Tilewright_Param:$dynamic_split, Tilewright_Size:$split,
                       Tilewright_Param:$dynamic_streamed, UnitAttr:$streamed,
                       Tilewright_Param:$dynamic_fetched, UnitAttr:$fetched,
                       Tilewright_Param:$dynamic_swapped, UnitAttr:$swapped,
                       Tilewright_Param:$dynamic_band, Tilewright_Size:$band,
                       Tilewright_Param:$dynamic_promote,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$promote);
  let assemblyFormat = [{
    $target `consumers` custom<Size>($dynamic_consumers, $consumers)
    (`pingpong` `` custom<Flag>($dynamic_pingpong, $pingpong)^)?
    (`cluster` custom<Size>($dynamic_cluster, $cluster)^)?
    (`beside` custom<Size>($dynamic_beside, $beside)^)?
    (`split` custom<Size>($dynamic_split, $split)^)?
    (`streamed` `` custom<Flag>($dynamic_streamed, $streamed)^)?
    (`fetched` `` custom<Flag>($dynamic_fetched, $fetched)^)?
    (`swapped` `` custom<Flag>($dynamic_swapped, $swapped)^)?
    (`band` custom<Size>($dynamic_band, $band)^)?
    (`promote` custom<Size>($dynamic_promote, $promote)^)?
    attr-dict `:` type($target)
  }];
}

def Tilewright_SpecializeWarpsOp : Tilewright_LoopOp<"specialize_warps", [AttrSizedOperandSegments]> {
  let summary = "Lets one warp copy tiles, one multiply them with sums in tensor memory, and four finish the sums (Blackwell)";
  let description = [{
    Decides that a block has one thread that has boxes of A and B copied to shared memory (TMA), one that multiplies them from there,
    asynchronously (`tcgen05.mma`), with sums in tensor memory, and four warps that load sums from there and finish them. Barrier
    objects tell which slot for tiles is full, and which is empty; and which tile of sums is complete, and which has been loaded. How
    many slots there are is for `transform.tilewright.pipeline` to say. A grid of as many blocks as multiprocessors goes on from tile to tile.

    - `buffers`: tiles of sums in tensor memory; with 2, one is finished while the next one is summed up.
    - `cluster`: so many blocks below one another share the tile of B, of which each has a part copied to all (multicast).
    - `pair`: the two blocks of a cluster multiply together (`cta_group::2`): each has its own rows of A and half of B in its shared
      memory, and its own rows of sums; one thread of the first block begins the products of both.
    - `split`: so many blocks, a cluster, have a part of the steps over K each, and add up their sums through shared memory.
    - `streamed`: blocks divide the steps over K of the last tiles, which would fill the chip in part, evenly among them, and add up sums of
      the same tile through memory (stream-K).
    - `swapped`: C is computed as the transpose of the product of the transposes, for few rows.
    - `band`: rows of tiles that blocks go through together, column by column.

    The target and how the decision is recorded are as for `transform.tilewright.share_among_threads`.

    Why not upstream: `nvvm` has the instructions; it has no op that allocates tensor memory for a loop's sums, or that divides a loop
    between those who copy, who multiply and who finish.

    ```mlir
    scf.forall (%i, %j) in (%0, %1) {
      %sums = scf.for %k ... { vector.contract ... : vector<128x64xbf16>, vector<64x256xbf16> into vector<128x256xf32> }
      write C <- f(%sums) under a mask
    } {mapping = [#gpu.block<y>, #gpu.block<x>]}
    // with `buffers 2` it carries {tilewright.sharing = #tilewright.tensor_memory<buffers = 2>}, and becomes, in each thread,
    if the one that copies:
      for (i, j) in my tiles:
        for %k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot
    if the one that multiplies:
      for (i, j) in my tiles:
        await loaded[buffer]
        for %k: await full[slot];  sums[buffer] += tile_a[slot] * tile_b[slot];  have empty[slot] told when that is complete
        have summed[buffer] told when all is complete
    if of the last four warps:
      for (i, j) in my tiles: await summed[buffer];  write C <- f(sums[buffer]), by boxes;  tell loaded[buffer]
    ```

    The handle stays valid. A silenceable failure: the target is no loop over blocks, it is shared already, or the tile is
    no multiple of 128 rows. Clauses that do not go together are an error, as said above.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Tilewright_Param:$dynamic_buffers, Tilewright_Size:$buffers,
                       Tilewright_Param:$dynamic_cluster, Tilewright_Size:$cluster,
                       Tilewright_Param:$dynamic_pair, UnitAttr:$pair,
                       Tilewright_Param:$dynamic_split, Tilewright_Size:$split,
                       Tilewright_Param:$dynamic_streamed, UnitAttr:$streamed,
                       Tilewright_Param:$dynamic_swapped, UnitAttr:$swapped,
                       Tilewright_Param:$dynamic_band, Tilewright_Size:$band);
  let assemblyFormat = [{
    $target `buffers` custom<Size>($dynamic_buffers, $buffers)
    (`cluster` custom<Size>($dynamic_cluster, $cluster)^)?
    (`pair` `` custom<Flag>($dynamic_pair, $pair)^)?
    (`split` custom<Size>($dynamic_split, $split)^)?
    (`streamed` `` custom<Flag>($dynamic_streamed, $streamed)^)?
    (`swapped` `` custom<Flag>($dynamic_swapped, $swapped)^)?
    (`band` custom<Size>($dynamic_band, $band)^)?
    attr-dict `:` type($target)
  }];
}

def Tilewright_PipelineOp : Tilewright_LoopOp<"pipeline"> {
  let summary = "Keeps the tiles of several steps over K in shared memory: one is multiplied while the others are on their way";
  let description = [{
    Decides that shared memory has room for the tiles of A and B of `stages` steps of a loop over K. Copies for later steps are begun
    before a step is multiplied, and go on meanwhile. How they are awaited goes by how the block's tile is shared: threads that are
    all alike wait for groups of `cp.async` and meet at a barrier; with `transform.tilewright.specialize_warp_groups` those who copy
    and those who multiply wait for each other by barrier objects. Where copies into
    shared memory cannot go on by themselves, because the target has none, or elements are widened or computed on the way, or rows are not
    aligned, threads load the pieces of the next step into registers, and store them when they have multiplied: two slots are then
    enough, and no more are used.

    The target is the loop over K in a loop over blocks (`transform.tilewright.share_among_threads` says what that is). The
    decision is recorded on it, before or after the one how the block's tile is shared.

    Why not upstream: `transform.nvgpu.pipeline_shared_memory_copies` overlaps copies that are there already, through memory that has
    been multi-buffered for it, and, as it says, leaves it to its user that no two stages meet in the same buffer; its groups are
    those of `cp.async`, no barrier objects; and its loop has to have a static trip count or to be predicated op by op.
    `transform.loop.pipeline` schedules by latencies of ops, and knows nothing of copies that complete by themselves.

    ```mlir
    %sums = scf.for %k = %c0 to %n step %c32 iter_args(%s = %zeros) -> (vector<128x128xf32>) {
      a = read A[.., %k];  b = read B[%k, ..]
      vector.contract a, b, %s
    }
    // with `stages 3` it carries {tilewright.pipeline = #tilewright.pipeline<stages = 3>}, and becomes, where all threads are alike,
    begin copies of A[.., 0] and B[0, ..] to slot 0;  of those at 32 to slot 1
    for %k ... {
      await all groups but 1;  gpu.barrier
      begin copies of A[.., %k + 64] and B[%k + 64, ..] to the slot after next
      %s += tile_a[slot] * tile_b[slot];  slot = (slot + 1) mod 3
    }
    ```

    The handle stays valid. A silenceable failure: the target is no such loop, or has a pipeline already.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Tilewright_Param:$dynamic_stages, Tilewright_Size:$stages);
  let assemblyFormat = "$target `stages` custom<Size>($dynamic_stages, $stages) attr-dict `:` type($target)";
}

#endif // TILEWRIGHT_TRANSFORMOPS_GPU_TD
