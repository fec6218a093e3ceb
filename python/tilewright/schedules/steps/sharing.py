# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of schedules for GPUs that decide how a block's tile is shared among its threads, and how many stages its pipeline has.

They come last, when a block computes its tile in vectors (`block_tile`), one of the first three and perhaps `pipeline`. What they
decide is recorded on the loops, and carried out when the module has been bufferized (`codegen.gpu`).
"""

from __future__ import annotations

from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.steps import Handle


def share_among_threads(blocks: Handle, *, rows: int, columns: int) -> None:
    """Gives each thread of a block `rows` x `columns` elements of the block's tile.

    Before::

        forall (i, j) in blocks:
            for k: sums += a * b                      # vectors as large as the tile
            C[i*bm:(i+1)*bm, j*bn:(j+1)*bn] = f(sums)

    After, in each thread::

        for k:
            tile_a, tile_b = a, b, a piece of each;  barrier
            mine += tile_a[my rows, :] * tile_b[:, my columns];  barrier
        C[my rows, my columns] = f(mine)
    """
    ours.tilewright_share_among_threads(blocks, rows, columns)


def share_among_warps(blocks: Handle, *, rows: int, columns: int, instructions: str) -> None:
    """Gives each warp of a block `rows` x `columns` elements of the block's tile.

    `instructions` multiply: "mma_sync", NVIDIA's, or "matrix_cores", AMD's. Before, as for `share_among_threads`:
    ``for k: sums += a * b``. After, in each thread of a warp::

        for k:
            tile_a, tile_b = a, b, a piece of each;  barrier
            mine += fragments of tile_a[the warp's rows, :] * fragments of tile_b[:, the warp's columns];  barrier
        C[the warp's rows, the warp's columns] = f(mine), each thread what the instructions leave it
    """
    ours.tilewright_share_among_warps(blocks, rows, columns, instructions)


def specialize_warp_groups(
    blocks: Handle,
    *,
    consumers: int,
    pingpong: bool = False,
    cluster: int = 1,
    beside: int = 1,
    split: int = 1,
    streamed: bool = False,
    fetched: bool = False,
    swapped: bool = False,
    band: int = 8,
    promote: int = 0,
) -> None:
    """Lets one warp group of a block copy tiles, and `consumers` others multiply them.

    What the rest says is in `warpgroup.WarpGroupTile`. Before, as for `share_among_threads`: ``for k: sums += a * b``. After::

        if first warp group:
            for (i, j) in my tiles:
                for k: await empty[slot];  copy boxes of a and b to slot
        else:
            for (i, j) in my tiles:
                for k: await full[slot];  mine += tile_a[slot][my rows, :] * tile_b[slot];  release slot
                C[my rows, :] = f(mine), by boxes
    """
    ours.tilewright_specialize_warp_groups(
        blocks,
        consumers,
        pingpong=pingpong,
        cluster=cluster,
        beside=beside,
        split=split,
        streamed=streamed,
        fetched=fetched,
        swapped=swapped,
        band=band,
        promote=promote,
    )


def specialize_warps(
    blocks: Handle,
    *,
    buffers: int,
    cluster: int = 1,
    pair: bool = False,
    split: int = 1,
    streamed: bool = False,
    swapped: bool = False,
    band: int = 8,
) -> None:
    """Lets one warp of a block copy tiles, one multiply them with sums in tensor memory, and four finish the sums.

    What the clauses say is in `tensor_memory.TensorMemoryTile`. Before, as for `share_among_threads`: ``for k: sums += a * b``. After::

        if first warp:
            for (i, j) in my tiles:
                for k: await empty[slot];  copy boxes of a and b to slot
        if second warp:
            for (i, j) in my tiles:
                await loaded[buffer]
                for k: await full[slot];  sums[buffer] += tile_a[slot] * tile_b[slot];  release slot
        if one of the last four:
            for (i, j) in my tiles: await summed[buffer];  C[...] = f(sums[buffer]), by boxes;  release buffer
    """
    ours.tilewright_specialize_warps(
        blocks, buffers, cluster=cluster, pair=pair, split=split, streamed=streamed, swapped=swapped, band=band
    )


def pipeline(blocks: Handle, stages: int) -> None:
    """Keeps the tiles of `stages` steps over K of a block in shared memory: one is multiplied while the others are on their way.

    Before: ``for k: tile_a, tile_b = a, b;  mine += tile_a * tile_b``. After, with 3 stages::

        begin copies of a and b of the first two steps to slots 0 and 1
        for k:
            await slot;  begin copies for the step after next to the slot after next
            mine += tile_a[slot] * tile_b[slot];  slot = the next one of three

    Where copies cannot go on by themselves, threads load pieces for the next step before they multiply, and store them after, to the
    other one of two slots.
    """
    ours.tilewright_pipeline(steps.match(blocks, "scf.for"), stages)
