# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches: leading extents over which a product is repeated, and how operands are broadcast to them."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.dims import Dim, extent, least
from tilewright.errors import SpecError


def checked(field: str, value: object) -> tuple[Any, ...]:
    """`value` as batch extents.

    Raises:
        SpecError: It is no tuple of ints from 0 to 2**31 - 1, `Dim` and None.
    """
    if not isinstance(value, tuple):
        raise SpecError(f"{field} is {value!r}", where="MatmulSpec", expected="a tuple")
    return tuple(extent(field, each) for each in value)


def of_operand(field: str, value: object, batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """The batch extents of an operand, which are broadcast to `batch` by numpy's rules.

    None is all of `batch`, and an extent of None that which `batch` has there.

    Raises:
        SpecError: They cannot be.
    """
    if value is None:
        return batch
    if isinstance(value, tuple) and len(value) <= len(batch):
        whole = batch[len(batch) - len(value) :]
        value = tuple(there if mine is None else mine for mine, there in zip(value, whole, strict=True))
    own = checked(field, value)
    pairs = zip(reversed(own), reversed(batch), strict=False)
    if len(own) > len(batch) or any(mine not in (1, whole) for mine, whole in pairs):
        raise SpecError(
            f"{field} is {text(own)} for batch {text(batch)}",
            where="MatmulSpec",
            expected="the last extents of batch, or some of them, each as it is there or 1",
        )
    return own


def axes(own: tuple[Any, ...], batch: tuple[Any, ...]) -> tuple[int, ...]:
    """The axes of `batch` along which an operand with batch `own` is not broadcast, without axes of a single entry."""
    missing = len(batch) - len(own)
    return tuple(
        axis for axis, whole in enumerate(batch) if whole != 1 and axis >= missing and own[axis - missing] != 1
    )


def named(batch: tuple[Any, ...]) -> dict[str, Any]:
    """The extents of a batch by their names: "b0" for the first axis, and so on."""
    return {f"b{axis}": size for axis, size in enumerate(batch)}


def entries(sizes: tuple[Any, ...]) -> int:
    """How many entries there are, at least; a dynamic extent counts as its least, but as one where that is zero."""
    return prod(max(1, least(each)) if isinstance(each, Dim) else each for each in sizes)


def text(sizes: tuple[Any, ...]) -> str:
    """Extents as a tuple is written: "(8, 1)", "(?,)"."""
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
