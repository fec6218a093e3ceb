# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What to compute: a matrix multiplication by its extents and element types, and nothing about how."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from tilewright.dtypes import COMBINATIONS, Combination, DType, dtype
from tilewright.entries import Chain, Epilogue, chain, entry
from tilewright.errors import SpecError

LAYOUTS = ("nn", "nt", "tn", "tt")
"""How A and B can be stored: n as they are multiplied, t transposed."""
_MAX_EXTENT = 2**31 - 1
_MAX_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """An operand of a call.

    Attributes:
        name: Its name in errors, and that of the argument for "a" and "b".
        shape: Its extents.
        type: Its element type.
    """

    name: str
    shape: tuple[int, ...]
    type: DType


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """C = A·B, with A of M×K, B of K×N and C of M×N elements.

    Specs are values: they compare, hash and pickle by their fields, which are complete after construction (`b`, `c` and
    `acc` are then never None).

    Attributes:
        m: Rows of A and C, from 0 to 2**31 - 1.
        n: Columns of B and C, likewise.
        k: Columns of A and rows of B, likewise; with 0, A·B is all zeros.
        a: Element type of A.
        b: Element type of B; by default that of A.
        c: Element type of C; by default the accumulator's.
        acc: Element type in which products are summed: the accumulator of `a`.
        layout: "nn", "nt", "tn" or "tt": t means that A (first) or B (second) is stored transposed, A as K×M and B as N×K
            elements, each row-major as ever.
        batch: Leading batch extents: ().
        beta: 0: C = A·B, and C's former elements are never read. 1: C += A·B.
        b_packed: False. True: calls take B as `Kernel.pack_b` packed it.
        epilogue: What is done to each element of the sum, in this order: entries such as `tilewright.bias`, and Python
            functions of an element and of one of each further operand (`tilewright.function`). They are made entries.

    This release computes the combinations of element types in `tilewright.dtypes.COMBINATIONS`, with static extents
    and no batch. A `c` narrower than `acc` is rounded to once, when the sum is complete; with `beta` 1 the former C is one
    of its terms. Integers that overflow i32 wrap around, modulo 2**32.

    With an epilogue, `c` is by default the type that the last entry leaves, and may be a narrower float; with `beta` 1 the
    former C is added to what the last entry leaves.

    Raises:
        SpecError: A field is wrong, or asks for what this release does not do; the message says which.
    """

    m: int
    n: int
    k: int
    a: str = "f32"
    b: str | None = None
    c: str | None = None
    acc: str | None = None
    layout: str = "nn"
    batch: tuple[int, ...] = ()
    beta: int = 0
    b_packed: bool = False
    epilogue: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Checks and completes the fields."""
        if not isinstance(self.epilogue, tuple):
            raise SpecError(f"epilogue is {self.epilogue!r}", where="MatmulSpec", expected="a tuple")
        object.__setattr__(self, "epilogue", tuple(entry(each) for each in self.epilogue))
        for field in ("m", "n", "k"):
            object.__setattr__(self, field, _extent(field, getattr(self, field)))
        self._complete_types()
        self._check_how_stored()
        self._check_sizes()

    def _complete_types(self) -> None:
        """Fills in the element types that were left out, and checks that this release computes the combination."""
        a = _type("a", self.a)
        acc = _type("acc", a.accumulator if self.acc is None else self.acc)
        b = _type("b", a.name if self.b is None else self.b)
        last = _chain(acc.name, self.epilogue).result if self.epilogue else acc.name
        c = _type("c", last if self.c is None else self.c)
        # An epilogue says itself what may come of the sum.
        sum_ = acc if self.epilogue else c
        if Combination(a.name, b.name, acc.name, sum_.name) not in COMBINATIONS:
            raise SpecError(
                f"A of {a}, B of {b} summed in {acc} to C of {sum_} is not supported yet",
                where="MatmulSpec",
                expected=f"one of {', '.join(map(str, COMBINATIONS))}",
            )
        object.__setattr__(self, "b", b.name)
        object.__setattr__(self, "c", c.name)
        object.__setattr__(self, "acc", acc.name)
        if self.epilogue:
            self._check_result(_chain(acc.name, self.epilogue).results())

    def _check_result(self, possible: tuple[str, ...]) -> None:
        """Checks that the epilogue's last entry leaves what C can hold."""
        if self.c not in possible:
            raise SpecError(
                f"C of {self.c} after an epilogue that ends with {self.epilogue[-1]}",
                where="MatmulSpec",
                expected=f"one of {', '.join(possible)}",
                remedy="End with tw.quantize(...) for i8 and u8, with tw.dequantize(...) for floats of an integer sum",
            )
        if self.beta and self.c in ("i8", "u8"):
            raise _not_yet(f"beta 1 with C of {self.c}", "beta 0", "Add to a C of i32 or of a float type")

    def _check_sizes(self) -> None:
        """Checks that every operand can be addressed with 64-bit offsets."""
        operands = (
            ("A", self.a_shape, self.a_type),
            ("B", self.b_shape, self.b_type),
            ("C", self.c_shape, self.c_type),
            *((each.name, each.shape, each.type) for each in self.further),
        )
        for name, shape, element in operands:
            if prod(shape) * element.bytes > _MAX_BYTES:
                raise SpecError(
                    f"{name} of {'x'.join(map(str, shape))} {element} has more bytes than a 64-bit offset can reach",
                    where="MatmulSpec",
                    expected="operands of less than 2**63 bytes",
                )

    def _check_how_stored(self) -> None:
        """Checks the fields that say how operands are stored and what else is done, all but beta at their only value."""
        if not isinstance(self.layout, str) or self.layout not in LAYOUTS:
            raise SpecError(f"layout is {self.layout!r}", where="MatmulSpec", expected=f"one of {', '.join(LAYOUTS)}")
        if not isinstance(self.batch, tuple):
            raise SpecError(f"batch is {self.batch!r}", where="MatmulSpec", expected="a tuple")
        if self.batch:
            raise _not_yet(f"batch {self.batch!r}", "()", "Call the kernel once for each matrix of the batch")
        if isinstance(self.beta, bool) or not isinstance(self.beta, int) or self.beta not in (0, 1):
            raise SpecError(f"beta is {self.beta!r}", where="MatmulSpec", expected="0 or 1")
        if not isinstance(self.b_packed, bool):
            raise SpecError(f"b_packed is {self.b_packed!r}", where="MatmulSpec", expected="False or True")

    @classmethod
    def from_dtypes(cls, m: int, n: int, k: int, dtypes: str = "f32", **fields: Any) -> MatmulSpec:  # noqa: ANN401
        """The spec with element types as the command line writes them: "bf16", or "a,b,c" ("u8,i8,i32").

        Args:
            m: As in `MatmulSpec`.
            n: As in `MatmulSpec`.
            k: As in `MatmulSpec`.
            dtypes: One element type for A and B, C being of their accumulator's, or those of A, B and C separated by
                commas.
            **fields: Further fields of `MatmulSpec`.

        Raises:
            SpecError: There is neither one type nor three, or as for `MatmulSpec`.
        """
        names = dtypes.split(",") if isinstance(dtypes, str) else []
        if len(names) == 1:
            return cls(m, n, k, a=names[0], **fields)
        if len(names) == 3:
            return cls(m, n, k, a=names[0], b=names[1], c=names[2], **fields)
        raise SpecError(
            f"element types are {dtypes!r}",
            where="MatmulSpec",
            expected="one type ('f32'), or those of A, B and C ('u8,i8,i32')",
        )

    @property
    def fused(self) -> bool:
        """Whether something is done to the sums before they are written: an epilogue, or rounding to a narrower type."""
        return bool(self.epilogue) or self.c != self.acc

    @property
    def a_type(self) -> DType:
        """Element type of A."""
        return dtype(self.a)

    @property
    def b_type(self) -> DType:
        """Element type of B."""
        return dtype(self.b or self.a)

    @property
    def c_type(self) -> DType:
        """Element type of C."""
        return dtype(self.c or self.a)

    @property
    def acc_type(self) -> DType:
        """Element type in which products are summed."""
        return dtype(self.acc or self.a)

    @property
    def a_transposed(self) -> bool:
        """Whether A is stored transposed."""
        return self.layout[0] == "t"

    @property
    def b_transposed(self) -> bool:
        """Whether B is stored transposed."""
        return self.layout[1] == "t"

    @property
    def a_shape(self) -> tuple[int, int]:
        """The shape of A as it is stored, and as calls take it: (M, K), or (K, M) where it is stored transposed."""
        return (self.k, self.m) if self.a_transposed else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        """The shape of B as it is stored, and as calls take it: (K, N), or (N, K) where it is stored transposed."""
        return (self.n, self.k) if self.b_transposed else (self.k, self.n)

    @property
    def c_shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.m, self.n

    @property
    def chain(self) -> Chain:
        """The entries of the epilogue with the types of all that they compute."""
        return _chain(self.acc_type.name, self.epilogue)

    @property
    def further(self) -> tuple[OperandSpec, ...]:
        """The further operands, those of the epilogue, in the order of the call."""
        extents = {"m": self.m, "n": self.n}
        return tuple(
            OperandSpec(each.name, tuple(extents[axis] for axis in each.axes), dtype(str(each.type)))
            for each in self.chain.operands
        )

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """All operands but the result, in the order of the call."""
        a = OperandSpec("a", self.a_shape, self.a_type)
        return (a, OperandSpec("b", self.b_shape, self.b_type), *self.further)

    @property
    def flops(self) -> int:
        """Operations: a multiply and an add for each of the M·N·K products."""
        return 2 * self.m * self.n * self.k

    def __str__(self) -> str:
        """Extents, element types, layout and more: "384x1024x1024 f32 nn", "4x4x4 u8,i8,i32 nn beta=1 [relu()]"."""
        names = [self.a_type.name, self.b_type.name, self.c_type.name]
        types = names[0] if len(set(names)) == 1 else ",".join(names)
        further = f"{' beta=1' if self.beta else ''}{' b_packed' if self.b_packed else ''}"
        if self.epilogue:
            further += f" [{', '.join(map(str, self.epilogue))}]"
        return f"{self.m}x{self.n}x{self.k} {types} {self.layout}{further}"


@lru_cache(maxsize=256)
def _chain(accumulator: str, epilogue: tuple[Epilogue, ...]) -> Chain:
    """The entries with their types."""
    return chain(accumulator, epilogue)


def _extent(field: str, value: Any) -> int:  # noqa: ANN401
    """`value` as an extent: an int, or an integer of numpy."""
    if value is None:
        raise _not_yet(f"{field}=None, a dynamic extent,", "a size", "Compile one kernel for each size")
    try:
        extent = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        extent = None
    if extent is None:
        raise SpecError(f"{field} is {value!r}, a {type(value).__name__}", where="MatmulSpec", expected="an int")
    if not 0 <= extent <= _MAX_EXTENT:
        raise SpecError(f"{field} is {extent}", where="MatmulSpec", expected=f"an extent from 0 to {_MAX_EXTENT}")
    return extent


def _type(field: str, name: str) -> DType:
    """The element type `name`, or an error that names the field."""
    try:
        return dtype(name)
    except SpecError as error:
        raise SpecError(
            error.what, where=f"MatmulSpec, {field}", expected=error.expected, remedy=error.remedy
        ) from None


def _not_yet(what: str, supported: str, remedy: str) -> SpecError:
    """The error for what a spec can say and this release does not do."""
    return SpecError(f"{what} is not supported yet", where="MatmulSpec", expected=supported, remedy=remedy)
