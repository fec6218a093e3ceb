# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a `#tilewright.shared_softmax` takes: padded extents, shared memory, and which sizes fit together."""

from __future__ import annotations

from typing import Protocol

from tilewright.dtypes import SMALL_FLOATS, dtype
from tilewright.errors import ScheduleError
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.targets.gpu import GpuTarget

_INSTRUCTION = 16
"""Of what the extents are multiples that matrix instructions multiply."""
_PADDING = 16
"""Bytes by which rows of tiles are longer, at most."""
_NEEDS = {"mma_sync": ("mma.sync",), "matrix_cores": ("mfma", "wmma")}
"""What a target has that multiplies so, one of them."""
HOLD_WEIGHTS = frozenset({"mma_sync"})
"""Those whose sums lie in registers as operands do: weights are multiplied where they were computed."""


class Heads(Protocol):
    """What the sizes depend on: an `AttentionSpec` has it, and the chain that is read from a payload."""

    @property
    def head(self) -> int:
        """Elements of a query and of a key."""
        ...

    @property
    def value_head(self) -> int:
        """Elements of a value."""
        ...

    @property
    def q(self) -> str:
        """Element type of the queries."""
        ...

    @property
    def k(self) -> str:
        """Of the keys."""
        ...

    @property
    def v(self) -> str:
        """Of the values."""
        ...

    @property
    def out(self) -> str:
        """Of the result."""
        ...


def multiplied(heads: Heads) -> str:
    """The narrowest type as which elements can be multiplied: that of the queries, if keys and values are all numbers of it."""
    if dtype(heads.q).bits == 16 and {heads.k, heads.v} <= {heads.q, *SMALL_FLOATS}:
        return heads.q
    return "f32"


def instructions(kind: str, target: GpuTarget) -> str:
    """What multiplies elements of a type on a target."""
    if dtype(kind).bits != 16:
        return "threads"
    found = (name for name, needs in _NEEDS.items() if target.instructions & set(needs))
    return next(found, "threads")


def across(sizes: SharedSoftmax) -> int:
    """How many threads share a query, where single threads multiply."""
    return sizes.threads * sizes.rows // sizes.bm


def padded(sizes: SharedSoftmax, extent: int) -> int:
    """A head's elements as they lie in shared memory, followed by zeros."""
    unit = _INSTRUCTION if sizes.instructions != "threads" else across(sizes)
    return -(-extent // unit) * unit


def bytes_of(sizes: SharedSoftmax, heads: Heads, target: GpuTarget) -> int:
    """Bytes of shared memory of a block, at most."""
    size = max(dtype(sizes.multiplied).bits, target.least_bits) // 8
    head, value_head = padded(sizes, heads.head), padded(sizes, heads.value_head)
    tiles = ((sizes.bm, head), (sizes.kc, head), (max(sizes.kc, value_head), min(sizes.kc, value_head)))
    weights = () if sizes.instructions in HOLD_WEIGHTS else ((sizes.bm, sizes.kc),)
    maxima = 4 * sizes.bm * max(across(sizes), _INSTRUCTION)
    return sum(rows * (columns * size + _PADDING) for rows, columns in (*tiles, *weights)) + maxima


def check(sizes: SharedSoftmax, heads: Heads, target: GpuTarget) -> None:
    """Checks sizes for a target.

    Raises:
        ScheduleError: They do not fit together, or not the target.
    """
    where = "shared_softmax"
    if sizes.multiplied not in ("f32", multiplied(heads)):
        raise ScheduleError(f"products of {sizes.multiplied}", where=where, expected=f"f32 or {multiplied(heads)}")
    wanted = instructions(sizes.multiplied, target)
    if sizes.instructions not in (wanted, "threads"):
        raise ScheduleError(
            f"{sizes.instructions} of {sizes.multiplied} on {target.name}", where=where, expected=wanted
        )
    if sizes.instructions == "threads":
        lanes = across(sizes)
        columns = padded(sizes, heads.value_head) // max(lanes, 1), sizes.kc // max(lanes, 1)
        fits = (
            sizes.multiplied == "f32"
            and sizes.bm % sizes.rows == 0
            and sizes.threads % (sizes.bm // sizes.rows) == 0
            and sizes.kc % max(lanes, 1) == 0
            and max(columns) <= 4
        )
        expected = (
            "f32, and threads that share a query divide kc and have at most 4 elements of a value and 4 keys each"
        )
    else:
        unit = _INSTRUCTION
        fits = sizes.threads == sizes.bm // sizes.rows * target.warp and not any(
            each % unit for each in (sizes.rows, sizes.kc)
        )
        fits = fits and sizes.bm % sizes.rows == 0
        expected = f"rows and kc in multiples of {unit}, and a warp for each `rows` of bm"
    if not fits or sizes.threads % target.warp or sizes.threads > target.block_threads:
        raise ScheduleError(f"{sizes} on {target.name}", where=where, expected=expected)
    held = bytes_of(sizes, heads, target)
    if held > target.shared_bytes:
        raise ScheduleError(
            f"tiles take {held} bytes of shared memory",
            where=where,
            expected=f"at most the {target.shared_bytes} of {target.name}",
            remedy="Make bm or kc smaller",
        )
