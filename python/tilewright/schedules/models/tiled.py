# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of strategy `packed` where tile registers multiply, and the tiles that it then loads: what `tile_blocks` is asked."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import most
from tilewright.schedules.models import exchange, finishing, lone_panel, passing, tile_blocks, tiles
from tilewright.schedules.models.register_tiles import MANY_ROWS, panel_bytes
from tilewright.schedules.models.sizes import Blocking, ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MANY_TILE_ROWS = 2048
"""Rows for which blocks are chosen where they are to be the same for all, in tile registers."""


def packed_blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes where tile registers multiply: those that `tile_blocks` chooses.

    What is not to depend on M is chosen for many rows: nr, nc and kc where B comes packed, kc of a deterministic product.
    """
    if isinstance(spec, exchange.Transpose):
        return _of_transpose(spec, target)
    if spec.products > 1 and finishing.may(spec):
        return _of_several(spec, target)
    return _of_one(spec, target)


def _of_several(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes where sums of several products come together: of one nest for all, or of one for each, after which they do."""
    together, each = _of_one(spec, target), packed_blocking(spec.plain_sums, target)
    if each.kc >= spec.k:
        return together
    one, caches = _in_tiles(spec.plain_sums, target)
    wide = replace(together, nr=together.nr * spec.products, nc=together.nc * spec.products)
    apart = spec.products * tile_blocks.cycles(replace(one, finished=True), each, caches)
    return each if apart < tile_blocks.cycles(_in_tiles(spec, target)[0], wide, caches) else together


def _of_transpose(spec: exchange.Transpose, target: Target) -> Blocking:
    """The sizes where the transpose is computed: rows are read where they lie, whole and in whole tile registers."""
    product, caches = _in_tiles(spec, target)
    found = [
        tile_blocks.choose(product, caches, (down * tiles.AMX_ROWS, across * tiles.AMX_ROWS), kc=product.k)
        for down, across in tiles.blocks()
        if down * tiles.AMX_ROWS <= tile_blocks.STREAMS and product.m % (down * tiles.AMX_ROWS) == 0
    ]
    block = min(found, key=lambda each: tile_blocks.cycles(product, each, caches))
    return replace(block, past_l1=tile_blocks.past_l1(product, block, caches))


def _of_one(spec: MatmulSpec, target: Target) -> Blocking:
    """The same, of one nest."""
    same = spec.b_packed or spec.deterministic
    in_rows = spec.deterministic and spec.has_rows
    mr, nr = tiles.block(MANY_ROWS if spec.b_packed or in_rows else spec.m, spec.n, products=spec.products)
    product, caches = _in_tiles(spec, target)
    kc, nc = product.k if spec.fused and not product.finished else None, product.n if spec.has_rows else None
    for_all = replace(product, m=_MANY_TILE_ROWS) if same else product
    tile = tile_blocks.rows_read_at_once(for_all, caches, mr), nr * spec.products
    block = tile_blocks.choose(for_all, caches, tile, nc=nc, kc=kc)
    if same:
        mr, _ = tiles.block(spec.m, spec.n, nr=nr, products=spec.products)
        mr = tile_blocks.rows_read_at_once(product, caches, mr)
        nc = block.nc if spec.b_packed else nc
        block = tile_blocks.choose(product, caches, (mr, nr * spec.products), nc=nc, kc=block.kc)
    block = tile_blocks.even_rows(product, caches, block, nc=nc, kc=block.kc)
    sizes = replace(block, nr=nr, nc=ceil_div(block.nc, nr * spec.products) * nr)
    sizes = replace(sizes, past_l1=tile_blocks.past_l1(product, block, caches))
    return passing.with_rows(sizes, spec, target) if spec.has_rows else sizes


def _in_tiles(spec: MatmulSpec, target: Target) -> tuple[tile_blocks.Product, tile_blocks.Caches]:
    """A product as `tile_blocks` has it: several matrices like B are one with more columns."""
    m, n, k = (max(most(extent), 1) for extent in (spec.m, spec.n, spec.k))
    step = target.dot(*spec.multiplied).step
    fits = lone_panel.may_read_a(spec, target)
    nbytes, turned = panel_bytes(spec, target), spec.b_transposed
    apart = finishing.may(spec) and spec.products == 1
    product = tile_blocks.Product(m, n * spec.products, k, nbytes, step, spec.b_packed, fits, turned, apart)
    return product, tile_blocks.Caches(target.l1.bytes, target.l2.bytes)


def exchange_pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether the transpose is faster, where tile registers multiply."""
    other = exchange.turned(spec)
    ways = [(packed_blocking(each, target), *_in_tiles(each, target)) for each in (spec, other)]
    plain, transposed = (tile_blocks.cycles(product, sizes, caches) for sizes, product, caches in ways)
    return transposed + exchange.cycles(spec) < plain


def tile_loads(spec: MatmulSpec, target: Target, sizes: Blocking) -> dict[str, dict[str, int]]:
    """By operand, how many tiles strategy `packed` loads from L1, L2 and beyond, where tile registers multiply."""
    if sizes.exchanged:
        found = tile_loads(exchange.turned(spec), target, replace(sizes, exchanged=0))
        return {"A": found["B"], "B": found["A"], "C": found["C"]}
    # Several products have one nest, or one each.
    one, nests = (spec.plain_sums, spec.products) if finishing.is_apart(spec, sizes) else (spec, 1)
    product, caches = _in_tiles(one, target)
    block = replace(sizes, nr=sizes.nr * one.products, nc=sizes.nc * one.products)
    found = tile_blocks.by_level(product, block, caches)
    return {
        operand: {at: each * nests * spec.matrices for at, each in counts.items()} for operand, counts in found.items()
    }
