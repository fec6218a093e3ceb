# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puts together the code of a thread of warp groups: tiles, tensor maps, products, and where results go."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.build.usedef import retype
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu.tma_stores import BoxStores
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.codegen.gpu_attention.group_block import GroupBlock
from tilewright.codegen.gpu_attention.group_products import GroupProducts
from tilewright.codegen.gpu_attention.group_results import GroupResults
from tilewright.codegen.gpu_attention.group_split import SplitResults
from tilewright.codegen.gpu_attention.group_tiles import PER_ROW, GroupTiles
from tilewright.codegen.gpu_attention.softmax import Softmax
from tilewright.codegen.gpu_attention.warp_groups import WarpGroupThread
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROWS, WarpGroupTile
from tilewright.schedules.models import warp_group_softmax as model
from tilewright.targets.gpu import GpuTarget


def emit(
    function: func.FuncOp,
    chain: Chain,
    sizes: WarpGroupSoftmax,
    target: GpuTarget,
    operands: Mapping[str, ir.Value],
    out: ir.Value,
    *,
    boxed: bool,
) -> list[Box]:
    """Emits it; `boxed` says that the result is stored by boxes. Returns the boxes in which operands, and that, are copied."""
    tiles = GroupTiles.of(sizes, chain)
    boxes = tiles.boxes(chain, sizes.places)
    tile, element = _result_tile(sizes, chain), ir.Type.parse(chain.out)
    boxed = boxed and sizes.merged == sizes.split == 1 and not chain.packed  # Boxes know no sequence's end.
    if boxed:
        boxes.append(BoxStores.box_of(tile, element, len(operands)).of_rank(len(boxes[0].shape)))
    maps = [function.entry_block.add_argument(ir.Type.parse("!llvm.ptr"), function.location) for _ in boxes]
    retype(function.operation)
    places = (tiles.q.memory, tiles.q.tile.bytes) if model.stores_over_queries(chain) else None
    stores = BoxStores(tile, element, boxes[-1], maps[-1], places) if boxed else None
    block, softmax = GroupBlock.of(chain, sizes, operands), Softmax.of(chain, target)
    results = GroupResults(block, out, stores, tile.across)
    products = GroupProducts.of(sizes, chain, tiles, tile.across)
    written = SplitResults.of(results, softmax) if sizes.split > 1 else results
    WarpGroupThread(block, products, softmax, written, maps[:3]).emit()
    return boxes


def _result_tile(sizes: WarpGroupSoftmax, chain: Chain) -> WarpGroupTile:
    """The tile of the result as a product of weights by values has it."""
    return WarpGroupTile(
        ROWS * sizes.consumers, model.columns(chain), bk=PER_ROW, stages=max(2, sizes.stages), consumers=sizes.consumers
    )
