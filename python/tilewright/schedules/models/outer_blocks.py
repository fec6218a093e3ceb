# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of strategy `outer_product`: the model that computes them from a target's streaming vectors and its caches."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.schedules.models.blocking import B_BLOCK_LIMIT, Blocking, ceil_div, even, rows_of_a
from tilewright.spec import MatmulSpec
from tilewright.targets import outer_products
from tilewright.targets.base import Target
from tilewright.targets.outer_products import OuterProduct

_LEAST_BITS = 128
_LONGEST_KC = 1024
"""Steps over K after which reading and writing a block of C, a row of a tile at a time, costs less than a tenth of them."""


def outer(spec: MatmulSpec, target: Target) -> OuterProduct | None:
    """How the target makes outer products of the operands of `spec`; None where it has none."""
    return outer_products.of(spec.a_type.name, spec.b_type.name, target.features)


def fits(spec: MatmulSpec, target: Target) -> bool:
    """Whether the strategy computes `spec`: one product, of operands as they are, and what is done to each element of it."""
    further = spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows
    return outer(spec, target) is not None and not further and not spec.b_packed


def pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether an outer product has rows and columns for a whole tile at the target's length of streaming vectors.

    With fewer, most of each tile is padding, and streaming mode takes its time to enter.
    """
    row = outer(spec, target)
    if row is None or not target.streaming_bits or not fits(spec, target):
        return False
    return min(spec.m, spec.n) >= row.lanes(target.streaming_bits)


def require(spec: MatmulSpec, target: Target) -> OuterProduct:
    """The same, where there has to be one.

    Raises:
        ScheduleError: The target has no outer products of these types, or the strategy does not compute `spec`.
    """
    row = outer(spec, target)
    if row is not None and not fits(spec, target):
        raise ScheduleError(
            f"strategy outer_product does not compute {spec}",
            where="outer_product",
            expected="a B that comes unpacked, no prologue, and an epilogue of elements",
            remedy="Let the strategy be chosen",
        )
    if row is None:
        raise ScheduleError(
            f"{target.name} has no outer products of {spec.a_type.name} and {spec.b_type.name}",
            where="outer_product",
            expected="a target with SME, and types that it multiplies",
            remedy="Let the strategy be chosen",
        )
    return row


def register_tile(spec: MatmulSpec, target: Target) -> tuple[int, int]:
    """Rows and columns of a block of tiles at the target's own length of streaming vectors.

    Raises:
        ScheduleError: As for `require`.
    """
    row = require(spec, target)
    lanes = row.lanes(max(target.streaming_bits, _LEAST_BITS))
    return row.down * lanes, row.across * lanes


def blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes for `spec` on `target`. Those of a register tile are for the target's own length of streaming vectors.

    Blocks are of so many rows and columns that vectors of every length fill them.

    Raises:
        ScheduleError: As for `require`.
    """
    row = require(spec, target)
    mr, nr = register_tile(spec, target)
    kc = even(spec.k, _LONGEST_KC * row.depth, row.depth)
    depth_bytes = ceil_div(kc, row.depth) * row.word // 8
    mc = rows_of_a(spec, target, depth_bytes, row.most_rows)
    nc = even(spec.n, B_BLOCK_LIMIT // depth_bytes, row.most_rows)
    return Blocking(mr=mr, nr=nr, mc=mc, nc=nc, kc=kc)
