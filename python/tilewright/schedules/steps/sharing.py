# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of schedules for GPUs that decide how a block's tile is shared among its threads, and how many stages its pipeline has.

They come last, when a block computes its tile in vectors (`block_tile`), one of the first four and perhaps `pipeline`. Sizes are numbers,
or transform parameters such as knobs'. What is decided is recorded on the loops, and carried out when the module has been bufferized
(`codegen.gpu`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.steps import Handle, Size

Flag = bool | Handle
"""Whether something is done, or a transform parameter of 0 or 1, such as a knob's."""


def _clauses(sizes: Mapping[str, Size], flags: Mapping[str, Flag] = MappingProxyType({})) -> dict[str, Any]:
    """What an op's clauses say, as its binding takes them: numbers and flags as attributes, parameters as operands."""
    kind = ir.IntegerType.get_signless(64)
    said: dict[str, Any] = {}
    for name, each in (*sizes.items(), *flags.items()):
        if isinstance(each, ir.Value):
            said[f"dynamic_{name}"] = each
        else:
            said[name] = bool(each) if name in flags else ir.IntegerAttr.get(kind, each)
    return said


def _unusual(sizes: Mapping[str, tuple[Size, int]]) -> dict[str, Size]:
    """Sizes that are not what they are where a clause is left out, which comes behind each."""
    return {name: size for name, (size, usual) in sizes.items() if not isinstance(size, int) or size != usual}


def share_among_threads(blocks: Handle, *, rows: Size, columns: Size) -> None:
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
    ours.tilewright_share_among_threads(blocks, **_clauses({"rows": rows, "columns": columns}))


def share_among_warps(blocks: Handle, *, rows: Size, columns: Size, instructions: str) -> None:
    """Gives each warp of a block `rows` x `columns` elements of the block's tile.

    `instructions` multiply: "mma_sync", NVIDIA's, or "matrix_cores", AMD's. Before, as for `share_among_threads`:
    ``for k: sums += a * b``. After, in each thread of a warp::

        for k:
            tile_a, tile_b = a, b, a piece of each;  barrier
            mine += fragments of tile_a[the warp's rows, :] * fragments of tile_b[:, the warp's columns];  barrier
        C[the warp's rows, the warp's columns] = f(mine), each thread what the instructions leave it
    """
    ours.tilewright_share_among_warps(blocks, instructions, **_clauses({"rows": rows, "columns": columns}))


def specialize_warp_groups(
    blocks: Handle,
    *,
    consumers: Size,
    pingpong: Flag = False,
    cluster: Size = 1,
    beside: Size = 1,
    split: Size = 1,
    streamed: Flag = False,
    fetched: Flag = False,
    swapped: Flag = False,
    band: Size = 8,
    promote: Size = 0,
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
    flags = {"pingpong": pingpong, "streamed": streamed, "fetched": fetched, "swapped": swapped}
    sizes = {
        "cluster": (cluster, 1),
        "beside": (beside, 1),
        "split": (split, 1),
        "band": (band, 8),
        "promote": (promote, 0),
    }
    ours.tilewright_specialize_warp_groups(blocks, **_clauses({"consumers": consumers, **_unusual(sizes)}, flags))


def specialize_warps(
    blocks: Handle,
    *,
    buffers: Size,
    cluster: Size = 1,
    pair: Flag = False,
    split: Size = 1,
    streamed: Flag = False,
    swapped: Flag = False,
    band: Size = 8,
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
    flags = {"pair": pair, "streamed": streamed, "swapped": swapped}
    sizes = {"cluster": (cluster, 1), "split": (split, 1), "band": (band, 8)}
    ours.tilewright_specialize_warps(blocks, **_clauses({"buffers": buffers, **_unusual(sizes)}, flags))


def pipeline(blocks: Handle, stages: Size) -> None:
    """Keeps the tiles of `stages` steps over K of a block in shared memory: one is multiplied while the others are on their way.

    Before: ``for k: tile_a, tile_b = a, b;  mine += tile_a * tile_b``. After, with 3 stages::

        begin copies of a and b of the first two steps to slots 0 and 1
        for k:
            await slot;  begin copies for the step after next to the slot after next
            mine += tile_a[slot] * tile_b[slot];  slot = the next one of three

    Where copies cannot go on by themselves, threads load pieces for the next step before they multiply, and store them after, to the
    other one of two slots.
    """
    ours.tilewright_pipeline(steps.match(blocks, "scf.for"), **_clauses({"stages": stages}))
