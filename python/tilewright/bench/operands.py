# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operands that everyone multiplies: the same values in every process for the same arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.bench.suites import Shape
from tilewright.dtypes import DType, to_numpy
from tilewright.dtypes import dtype as dtype_of
from tilewright.errors import SpecError
from tilewright.payload.epilogues import parse
from tilewright.payload.samples import aligned, unwritten, values
from tilewright.spec import MatmulSpec

Types = tuple[str, str, str]
"""The element types of A, B and C, by name."""


def types_of(dtype: str) -> Types:
    """The three types that `dtype` means: "u8,i8,i32" spells them; "bf16" is that of A and B, C being of their accumulator's.

    Raises:
        SpecError: A name is unknown or that of complex numbers, or there is neither one nor three.
    """
    names = dtype.split(",")
    if any(dtype_of(name).part for name in names):
        raise SpecError(f"element types are {dtype!r}", where="bench", expected="types of real numbers")
    if len(names) == 1:
        return names[0], names[0], dtype_of(names[0]).accumulator
    if len(names) == 3:
        a, b, c = (dtype_of(name).name for name in names)
        return a, b, c
    raise SpecError(f"element types are {dtype!r}", where="bench", expected="one type, or those of A, B and C")


@dataclass(frozen=True, slots=True)
class Operands:
    """The matrices of one product, C row-major and contiguous like the others.

    Attributes:
        a: M×K elements, after the batch; a transposed view where it is stored transposed.
        b: K×N elements, likewise.
        c: M×N elements, filled with NaN (the least integer, where there is no NaN) so that an element nobody wrote is found.
        further: The operands of what is done to the sums.
        epilogue: What that is, as on the command line.
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    further: tuple[np.ndarray, ...] = ()
    epilogue: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum(each.nbytes for each in (self.a, self.b, self.c, *self.further))


def operands(shape: Shape, dtype: str, seed: int = 0, epilogue: str = "", layout: str = "nn") -> Operands:
    """A and B with floats uniform in [-1, 1], and integers over their whole range.

    Args:
        shape: The extents.
        dtype: As for `types_of`.
        seed: Another seed, other values.
        epilogue: What is done to the sums; C and further operands are of the types that it says.
        layout: How A and B are stored.
    """
    a_type, b_type, c_type = map(dtype_of, types_of(dtype))
    random = np.random.default_rng((seed, shape.m, shape.n, shape.k))
    a = _matrix(random, shape.batch, (shape.m, shape.k), a_type, transposed=layout[0] == "t")
    b = _matrix(random, shape.batch, (shape.k, shape.n), b_type, transposed=layout[1] == "t")
    further: tuple[np.ndarray, ...] = ()
    if epilogue:
        spec = MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, dtype, epilogue=parse(epilogue), batch=shape.batch)
        c_type = spec.c_type
        further = tuple(values(random, each.shape, each.type) for each in spec.further)
    c = aligned((*shape.batch, shape.m, shape.n), to_numpy(c_type))
    c.fill(unwritten(c_type))
    return Operands(a, b, c, further, epilogue)


def rotation(first: Operands, total_bytes: int) -> list[Operands]:
    """`first` and as many copies of it as make at least `total_bytes` together; just `first` for 0."""
    count = max(1, math.ceil(total_bytes / first.bytes))
    every = [first]
    while len(every) < count:
        arrays = (first.a, first.b, first.c, *first.further)
        a, b, c, *further = (copied(each, transposed=not each.flags.c_contiguous) for each in arrays)
        every.append(Operands(a, b, c, tuple(further), first.epilogue))
    return every


def copied(array: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """The same elements in other memory, row by row, or, where the matrices are stored transposed, column by column."""
    if transposed:
        return copied(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _matrix(
    random: np.random.Generator, batch: tuple[int, ...], extents: tuple[int, int], kind: DType, *, transposed: bool
) -> np.ndarray:
    """A matrix, or a batch of them; of elements that share bytes a view of the bytes as they are stored."""
    if kind.packed > 1 and transposed:
        return values(random, (*batch, *reversed(extents)), kind).swapaxes(-1, -2)
    drawn = values(random, (*batch, *extents), kind)
    return copied(drawn, transposed=True) if transposed else drawn
