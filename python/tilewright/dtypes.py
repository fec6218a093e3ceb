# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The element types: one row each, so that a new type is a new row.

Names are MLIR's, with ``u8`` for unsigned. This module does not import numpy: a row names its numpy type by text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tilewright.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["float", "int", "uint"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: tilewright's name, and the one that users write ("f32").
        bits: Width of one element in bits.
        kind: "float", "int" (signed) or "uint".
        mlir: The type in MLIR's syntax; MLIR's integers carry no sign, so "u8" is ``i8`` there.
        numpy: The name of the numpy type (``np.dtype(x).name``).
        roundoff: Unit roundoff u of round-to-nearest, half the distance from 1 to the next number; None for integers.
        accumulator: Name of the type in which products of this type are summed.
    """

    name: str
    bits: int
    kind: Kind
    mlir: str
    numpy: str
    roundoff: float | None
    accumulator: str

    def __post_init__(self) -> None:
        """Checks the row against itself.

        Raises:
            SpecError: The width is not positive, or a float has no roundoff in (0, 1), or an integer has one.
        """
        if self.bits <= 0:
            raise SpecError(f"element type {self.name} is {self.bits} bits wide", expected="a positive width")
        if self.kind == "float" and not (self.roundoff is not None and 0.0 < self.roundoff < 1.0):
            raise SpecError(f"floating-point type {self.name} has roundoff {self.roundoff}", expected="one in (0, 1)")
        if self.kind != "float" and self.roundoff is not None:
            raise SpecError(f"integer type {self.name} has roundoff {self.roundoff}", expected="None")

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory, rounded up."""
        return -(-self.bits // 8)

    def __str__(self) -> str:
        """The name."""
        return self.name


# Unit roundoffs: IEEE 754-2019, table 3.5 (precision p is 24 and 53 bits; u = 2**-p).
_ROWS = (
    DType("f32", 32, "float", mlir="f32", numpy="float32", roundoff=2.0**-24, accumulator="f32"),
    DType("f64", 64, "float", mlir="f64", numpy="float64", roundoff=2.0**-53, accumulator="f64"),
)

DTYPES: Mapping[str, DType] = MappingProxyType({row.name: row for row in _ROWS})
"""Every element type that this release computes with, by name."""

_BY_NUMPY: Mapping[str, DType] = MappingProxyType({row.numpy: row for row in _ROWS})


def dtype(name: str) -> DType:
    """The element type of that name.

    Raises:
        SpecError: There is no such type; the message lists the known ones.
    """
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    spelled = _BY_NUMPY.get(name) if isinstance(name, str) else None
    raise SpecError(
        f"unknown element type {name!r}",
        expected=f"one of {', '.join(DTYPES)}",
        remedy=f"Write {spelled.name!r}" if spelled else None,
    )


def from_numpy(numpy_dtype: np.dtype[Any]) -> DType:
    """The element type stored as `numpy_dtype`, in this machine's byte order.

    Raises:
        SpecError: No element type corresponds to it, or its bytes are swapped.
    """
    if not numpy_dtype.isnative:
        raise SpecError(
            f"numpy type {numpy_dtype.str} has its bytes swapped",
            expected="this machine's byte order",
            remedy="Convert with x.astype(x.dtype.newbyteorder('='))",
        )
    if numpy_dtype.name in _BY_NUMPY:
        return _BY_NUMPY[numpy_dtype.name]
    raise SpecError(
        f"no element type for numpy's {numpy_dtype.name}",
        expected=f"one of {', '.join(_BY_NUMPY)}",
        remedy="Convert the array with x.astype(...)",
    )
