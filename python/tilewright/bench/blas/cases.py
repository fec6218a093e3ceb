# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The calls of a BLAS that are measured: routines with their operands, their arguments in C and what they have to compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tilewright.bench.operands import types_of
from tilewright.bench.suites import SUITES as PRODUCTS
from tilewright.bench.suites import Shape
from tilewright.dtypes import dtype, to_numpy
from tilewright.payload.samples import aligned, values

LETTERS: Mapping[str, str] = MappingProxyType({"f32": "s", "f64": "d", "c64": "c", "c128": "z"})
"""By the type asked for, what names of routines begin with."""
PRODUCTS_ALONE: Mapping[str, str] = MappingProxyType(
    {"bf16": "gemm_bf16bf16f32", "f16": "gemm_f16f16f32", "u8,i8,i32": "gemm_s8u8s32"}
)
"""By types that only products have, the routine, by its name in MKL."""
BUILT: Mapping[str, str] = MappingProxyType({**LETTERS, "bf16": "sb", "f16": "sh", "u8,i8,i32": "s8u8"})
"""By type, the letter of `blas.letters.LETTERS` with which a library has it."""
# Enumerations of netlib's cblas.h, and the last one of MKL's.
_ROW_MAJOR, _PLAIN, _TRANSPOSED, _LOWER, _NON_UNIT, _LEFT, _ONE_OFFSET = 101, 111, 112, 122, 131, 141, 173
_NEAR_ONE = 2.0**-20
"""What is beside the diagonal of triangles, so that B keeps its size however often it is multiplied or divided in place."""

Argument = int | float | np.ndarray
"""An argument in C: an integer, a factor, or a matrix."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Matrices of a call, row-major; `c` is what it writes."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine of BLAS.

    Attributes:
        shapes: The shapes of A, B and C of m, n and k.
        arguments: What C passes after the order of elements; factors are floats.
        product: What C then is, in float64 or complex128, of A, B and C as they were.
        work: Multiply-adds.
        triangle: Whether A is a triangle close to one.
    """

    shapes: Callable[[int, int, int], tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]
    arguments: Callable[[int, int, int, Operands], tuple[Argument, ...]]
    product: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    work: Callable[[int, int, int], int]
    triangle: bool = False


def _in_place(m: int, n: int, k: int, each: Operands) -> tuple[Argument, ...]:
    return _LEFT, _LOWER, _PLAIN, _NON_UNIT, m, n, 1.0, each.a, m, each.c, n


def _vector(op: int) -> Callable[[int, int, int, Operands], tuple[Argument, ...]]:
    return lambda m, n, k, each: (op, m, n, 1.0, each.a, n, each.b, 1, 0.0, each.c, 1)


ROUTINES: Mapping[str, Routine] = MappingProxyType(
    {
        "gemm": Routine(
            lambda m, n, k: ((m, k), (k, n), (m, n)),
            lambda m, n, k, each: (_PLAIN, _PLAIN, m, n, k, 1.0, each.a, k, each.b, n, 0.0, each.c, n),
            lambda a, b, c: a @ b,
            lambda m, n, k: m * n * k,
        ),
        "symm": Routine(
            lambda m, n, k: ((m, m), (m, n), (m, n)),
            lambda m, n, k, each: (_LEFT, _LOWER, m, n, 1.0, each.a, m, each.b, n, 0.0, each.c, n),
            lambda a, b, c: (np.tril(a) + np.tril(a, -1).T) @ b,
            lambda m, n, k: m * m * n,
        ),
        "syrk": Routine(
            lambda m, n, k: ((m, k), (1, 1), (m, m)),
            lambda m, n, k, each: (_LOWER, _PLAIN, m, k, 1.0, each.a, k, 0.0, each.c, m),
            lambda a, b, c: np.tril(a @ a.T) + np.triu(c, 1),
            lambda m, n, k: m * (m + 1) // 2 * k,
        ),
        "trmm": Routine(
            lambda m, n, k: ((m, m), (1, 1), (m, n)),
            _in_place,
            lambda a, b, c: np.tril(a) @ c,
            lambda m, n, k: m * (m + 1) // 2 * n,
            triangle=True,
        ),
        "trsm": Routine(
            lambda m, n, k: ((m, m), (1, 1), (m, n)),
            _in_place,
            lambda a, b, c: np.linalg.solve(np.tril(a), c),
            lambda m, n, k: m * (m + 1) // 2 * n,
            triangle=True,
        ),
        "gemv": Routine(
            lambda m, n, k: ((m, n), (n, 1), (m, 1)),
            _vector(_PLAIN),
            lambda a, b, c: a @ b,
            lambda m, n, k: m * n,
        ),
        "gemv_t": Routine(
            lambda m, n, k: ((m, n), (m, 1), (n, 1)),
            _vector(_TRANSPOSED),
            lambda a, b, c: a.T @ b,
            lambda m, n, k: m * n,
        ),
    }
)
"""By name; what follows an underscore tells apart those of one routine."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a routine.

    Attributes:
        routine: One of `ROUTINES`.
        shape: m, n and k as the routine has them, 1 where it has none.
    """

    routine: str
    shape: Shape

    def __str__(self) -> str:
        """What tables call it."""
        return f"{self.routine} {self.shape}"

    @property
    def rule(self) -> Routine:
        """What is known of the routine."""
        return ROUTINES[self.routine]

    @property
    def extents(self) -> tuple[int, int, int]:
        """M, n and k."""
        return self.shape.m, self.shape.n, self.shape.k

    def name(self, asked: str) -> str:
        """The routine's name with the letter of a type: "sgemm"."""
        return PRODUCTS_ALONE.get(asked) or LETTERS[asked] + self.routine.partition("_")[0]

    def is_of(self, asked: str) -> bool:
        """Whether there is a routine for a type."""
        return asked in LETTERS or (asked in PRODUCTS_ALONE and self.routine == "gemm")

    def work(self, asked: str) -> int:
        """Floating-point operations of a call."""
        return (8 if is_complex(asked) else 2) * self.rule.work(*self.extents)

    def operands(self, asked: str) -> Operands:
        """The same values in every process; C is not yet computed, but of routines that compute in place B."""
        random = np.random.default_rng(0)
        kinds = types_of(asked) if asked in PRODUCTS_ALONE else [asked] * 3
        shapes = self.rule.shapes(*self.extents)
        a, b, c = (values(random, shape, dtype(kind)) for shape, kind in zip(shapes, kinds, strict=True))
        if self.rule.triangle:
            a *= _NEAR_ONE
            np.fill_diagonal(a, 1)
        return Operands(a, b, c)

    def expected(self, asked: str) -> np.ndarray:
        """What C is after a call."""
        each = self.operands(asked)
        wide = np.complex128 if is_complex(asked) else np.float64
        return self.rule.product(*(array.astype(wide) for array in (each.a, each.b, each.c)))

    def arguments(self, asked: str, each: Operands) -> list[tuple[str, int | float, np.ndarray | None]]:
        """Each argument in C: its type in LLVM IR, its value, and the array that has to live as long."""
        found = list[tuple[str, int | float, np.ndarray | None]]()
        given = (_ROW_MAJOR, *self.rule.arguments(*self.extents, each))
        if "," in asked:  # Offsets, all of them 0, are added to integers.
            before, of_a, of_b, of_c = given[:3], given[3:9], given[9:11], given[11:]
            given = (*before, _ONE_OFFSET, *of_a, 0, *of_b, 0, *of_c, np.zeros(1, np.int32))
        for argument in given:
            if isinstance(argument, int):
                found.append(("i64", argument, None))
            elif isinstance(argument, float) and not is_complex(asked):
                found.append(("double" if asked == "f64" else "float", argument, None))
            else:
                array = argument if isinstance(argument, np.ndarray) else aligned((1,), to_numpy(dtype(asked)))
                if isinstance(argument, float):
                    array[...] = argument
                found.append(("ptr", array.ctypes.data, array))
        return found


def is_complex(asked: str) -> bool:
    """Whether a type is one of complex numbers."""
    return asked in LETTERS and dtype(asked).part is not None


def _squares(routines: str, sizes: str) -> tuple[Case, ...]:
    return tuple(Case(name, Shape(int(n), int(n), int(n))) for name in routines.split() for n in sizes.split())


SUITES: Mapping[str, tuple[Case, ...]] = MappingProxyType(
    {
        **{
            name: tuple(Case("gemm", shape) for shape in each.shapes if not shape.batch)
            for name, each in PRODUCTS.items()
        },
        "level3": (
            *_squares("symm syrk trmm trsm", "16 64 128 256 512 1024"),
            Case("syrk", Shape(100, 100, 2000)),
            Case("trsm", Shape(64, 2000, 1)),
        ),
        "gemv": tuple(Case(name, Shape(n, n, 1)) for name in ("gemv", "gemv_t") for n in (64, 256, 1000, 4096)),
    }
)
"""Those of products, by gemm, and the other routines."""
