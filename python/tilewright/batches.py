# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches: leading extents over which a product is repeated, and how an operand that lacks some of them is broadcast."""

from __future__ import annotations

from typing import Any

from tilewright.dims import MAX_EXTENT, extent
from tilewright.errors import SpecError


def checked(field: str, value: object) -> tuple[Any, ...]:
    """`value` as batch extents.

    Raises:
        SpecError: It is no tuple of ints from 0 to 2**31 - 1.
    """
    if not isinstance(value, tuple):
        raise SpecError(f"{field} is {value!r}", where="MatmulSpec", expected="a tuple")
    extents = tuple(extent(field, each) if each is not None else each for each in value)
    if not all(isinstance(each, int) for each in extents):
        raise SpecError(
            f"{field} is {value!r}, with a dynamic extent",
            where="MatmulSpec",
            expected=f"ints from 0 to {MAX_EXTENT}",
            remedy="Compile one kernel for each batch size",
        )
    return extents


def of_operand(field: str, value: object, batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """The batch extents of an operand, None being all of `batch`, which are broadcast to `batch` by numpy's rules.

    Raises:
        SpecError: They cannot be.
    """
    if value is None:
        return batch
    own = checked(field, value)
    pairs = zip(reversed(own), reversed(batch), strict=False)
    if len(own) > len(batch) or any(mine not in (1, whole) for mine, whole in pairs):
        raise SpecError(
            f"{field} is {own} for batch {batch}",
            where="MatmulSpec",
            expected="the last extents of batch, or some of them, each as it is there or 1",
        )
    return own


def axes(own: tuple[Any, ...], batch: tuple[Any, ...]) -> tuple[int, ...]:
    """The axes of `batch`, of those with more than one entry or none, along which an operand with batch `own` has several."""
    missing = len(batch) - len(own)
    return tuple(
        axis for axis, whole in enumerate(batch) if whole != 1 and axis >= missing and own[axis - missing] != 1
    )
