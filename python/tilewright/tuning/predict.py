# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicts what a choice costs, so that a search tries likely winners first: cycles of register tiles, and of bytes that pass the caches.

Register tiles cost what the sizes' model says (`register_tiles.tile_cycles`), whose rates a test compares with llvm-mca's models. Blocks
cost the bytes that they move, each from the level of the memory that holds it. The sum orders candidates, and is no time.
"""

from __future__ import annotations

from tilewright.schedules import select
from tilewright.schedules.models import parts, register_tiles, space
from tilewright.schedules.models.blocking import Blocking, ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_BYTES_PER_CYCLE = {"l1": 64.0, "l2": 32.0, "l3": 12.0, "memory": 6.0}
"""What a core reads in a cycle from each level, about: it only orders candidates."""
_READ_B_ONCE = ("streamed",)
"""The strategies that read B once from where it is, and keep the sums of a strip of C."""
_SEEN = 0.5
"""Part of the bytes' time that multiply-adds do not hide."""


def cycles(spec: MatmulSpec, target: Target, name: str, sizes: Blocking) -> float:
    """What a product under strategy `name` with some sizes costs, in cycles of one core."""
    if sizes.exchanged:
        spec, sizes = parts.inside(spec, sizes)
    dot = target.dots(*spec.multiplied)[0 if select.is_in_panels(name) else -1]
    m, n, k = max(int(spec.m), 1), max(int(spec.n), 1), max(int(spec.k), 1)
    bytes_ = _moved(spec, target, name, sizes)
    if select.row(name).own_order:  # Vectors along K, whose elements are added up in the end.
        steps = ceil_div(k, target.lanes(spec.acc_type) * max(dot.depth, 1))
        loads = (sizes.mr + sizes.nr) / (sizes.mr * sizes.nr * target.loads_per_cycle)
        return m * n * steps * max(1 / target.fma_per_cycle, loads) + _SEEN * bytes_
    lanes = space.lanes(spec, target, in_panels=select.is_in_panels(name))
    if dot.is_tile:  # Sixteen rows and columns an instruction, in sixteen cycles.
        return (
            ceil_div(m, sizes.mr) * sizes.mr * ceil_div(n, sizes.nr) * sizes.nr / 16 * ceil_div(k, dot.step)
            + _SEEN * bytes_
        )
    tile = register_tiles.result_cycles(
        register_tiles.at_width(target, spec.acc_type, lanes),
        m,
        n,
        (sizes.mr, sizes.nr),
        lanes=lanes,
        padded=select.is_in_panels(name),
        rows=dot.rows,
        steps=ceil_div(min(k, sizes.kc), max(dot.depth, 1)),
    )
    return tile * ceil_div(k, max(dot.depth, 1)) + _SEEN * bytes_


def _moved(spec: MatmulSpec, target: Target, name: str, p: Blocking) -> float:
    """Cycles of the bytes that pass: A, B and C as often as the loops go through them."""
    m, n, k = max(int(spec.m), 1), max(int(spec.n), 1), max(int(spec.k), 1)
    of_a, of_b, of_c = (each.bytes for each in (spec.a_type, spec.b_type, spec.acc_type))
    blocks_k = ceil_div(k, p.kc)
    c_passes = 2 * m * n * of_c * blocks_k
    a, b = m * k * of_a, k * n * of_b
    if select.is_in_panels(name):
        packing = 2 * b / _rate(target, b) + 2 * a * ceil_div(n, p.nc) / _rate(target, a)
        panels_a = a * ceil_div(n, p.nr) / _rate(target, min(p.mc, m) * p.kc * of_a)
        panels_b = b * ceil_div(m, p.mr) / _rate(target, p.kc * p.nr * of_b)
        return packing + panels_a + panels_b + c_passes / _rate(target, m * n * of_c)
    reads_a = a * ceil_div(n, p.nr) / _rate(target, a)
    if name in _READ_B_ONCE:
        return b / _rate(target, b) + reads_a + c_passes / _rate(target, m * p.nc * of_c)
    rows_b = b * ceil_div(m, p.mr) / _rate(target, p.kc * p.nr * of_b if p.nr < n else b)
    return rows_b + reads_a + c_passes / _rate(target, m * n * of_c)


def _rate(target: Target, size: float) -> float:
    """Bytes that a core reads in a cycle of a set of so many."""
    for level in ("l1", "l2", "l3"):
        cache = getattr(target, level)
        if cache is not None and size <= (min(cache.bytes, 32 << 20) if level == "l3" else cache.bytes):
            return _BYTES_PER_CYCLE[level]
    return _BYTES_PER_CYCLE["memory"]
