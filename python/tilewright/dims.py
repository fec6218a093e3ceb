# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extents of specs: an int, or a `Dim`, a dynamic extent with its limits."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Union

from tilewright.errors import SpecError

MAX_EXTENT = 2**31 - 1
"""The largest extent."""
_WRITTEN = re.compile(
    r"(?P<size>[0-9]{1,20})|\?((?P<min>[0-9]{1,20})\.\.(?P<max>[0-9]{1,20})?)?(/(?P<multiple>[0-9]{1,20}))?"
)


@dataclass(frozen=True, slots=True)
class Dim:
    """A dynamic extent, which is known only when a kernel is called.

    Attributes:
        min: The least that it can be.
        max: The most that it can be.
        multiple: What divides it. `min` is rounded up and `max` down to multiples of it.

    Raises:
        SpecError: A field is no int in its range, or nothing is left between `min` and `max`.
    """

    min: int = 0
    max: int = MAX_EXTENT
    multiple: int = 1

    def __post_init__(self) -> None:
        """Checks the fields, and rounds the limits to multiples."""
        for field, least in (("min", 0), ("max", 0), ("multiple", 1)):
            value = _int(getattr(self, field))
            if value is None or not least <= value <= MAX_EXTENT:
                raise SpecError(
                    f"{field} is {getattr(self, field)!r}", where="Dim", expected=f"an int from {least} to {MAX_EXTENT}"
                )
            object.__setattr__(self, field, value)
        least, most = -(-self.min // self.multiple) * self.multiple, self.max // self.multiple * self.multiple
        if least > most:
            raise SpecError(
                f"no multiple of {self.multiple} lies from {self.min} to {self.max}",
                where="Dim",
                expected="min, max and multiple that leave an extent",
            )
        object.__setattr__(self, "min", least)
        object.__setattr__(self, "max", most)

    def __contains__(self, extent: int) -> bool:
        """Whether the value is allowed."""
        return self.min <= extent <= self.max and extent % self.multiple == 0

    def nearest(self, extent: int) -> int:
        """The largest allowed value that is at most `extent`; the minimum if there is none."""
        return max(min(extent, self.max) // self.multiple * self.multiple, self.min)

    @property
    def words(self) -> str:
        """The allowed values in words: "a multiple of 8 from 8 to 512"."""
        what = "an extent" if self.multiple == 1 else f"a multiple of {self.multiple}"
        return f"{what} from {self.min}" + ("" if self.max == Dim(multiple=self.multiple).max else f" to {self.max}")

    def __str__(self) -> str:
        """As the command line takes it: "?", "?1..512", "?8..512/8"."""
        unbounded = Dim(multiple=self.multiple)
        limits = "" if self == unbounded else f"{self.min}..{'' if self.max == unbounded.max else self.max}"
        return f"?{limits}" + (f"/{self.multiple}" if self.multiple > 1 else "")


Extent = Union[int, Dim]  # noqa: UP007 - evaluated by Python 3.10 in other modules
"""An extent: static, or a Dim."""


def written(text: str) -> Extent | None:
    """The extent that a text is: "384", "?", "?1..512/8", as `Dim` prints it; None for another text.

    Raises:
        SpecError: Nothing lies between its limits.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None or found["size"]:
        return found and int(found["size"])
    return Dim(**{name: int(found[name]) for name in ("min", "max", "multiple") if found[name]})


def extent(field: str, value: Any) -> Any:  # noqa: ANN401 - an Extent
    """`value` as an extent: an int or an integer of numpy, a Dim, or None for one that can be anything.

    Raises:
        SpecError: It is none of these, or no extent from 0 to `MAX_EXTENT`.
    """
    if value is None or isinstance(value, Dim):
        dim = value or Dim()
        return dim.min if dim.min == dim.max else dim
    size = _int(value)
    if size is None:
        raise SpecError(
            f"{field} is {value!r}, a {type(value).__name__}",
            where="MatmulSpec",
            expected="an int, a tilewright.Dim, or None",
        )
    if not 0 <= size <= MAX_EXTENT:
        raise SpecError(f"{field} is {size}", where="MatmulSpec", expected=f"an extent from 0 to {MAX_EXTENT}")
    return size


def least(value: Extent) -> int:
    """The least that an extent can be."""
    return value.min if isinstance(value, Dim) else value


def most(value: Extent) -> int:
    """The most that an extent can be."""
    return value.max if isinstance(value, Dim) else value


def divided_by(value: Extent, size: int) -> bool:
    """Whether an extent is a multiple of `size`, whatever it is."""
    return (value.multiple if isinstance(value, Dim) else value) % size == 0


def fits(value: Extent, size: int) -> bool:
    """Whether an extent can be `size`."""
    return size in value if isinstance(value, Dim) else value == size


def _int(value: Any) -> int | None:  # noqa: ANN401
    """An int or an integer of numpy as an int; None for anything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
