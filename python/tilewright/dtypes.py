# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The element types: one row each, so that a new type is a new row.

Names are MLIR's, with ``u8`` for unsigned. This module does not import numpy: a row names its numpy type by text.

Which types go together is a table too, `COMBINATIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tilewright.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["float", "int", "uint", "complex"]

_HALF_BYTE = 4


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: tilewright's name, and the one that users write ("f32").
        bits: Width of one element in bits.
        kind: "float", "int" (signed), "uint" or "complex".
        mlir: The type in MLIR's syntax; MLIR's integers carry no sign, so "u8" is ``i8`` there.
        numpy: The name of the numpy type (``np.dtype(x).name``); see `to_numpy`.
        roundoff: Unit roundoff u of round-to-nearest, half the distance from 1 to the next number; None for integers. Of a complex
            type, that of its parts.
        accumulator: Name of the type in which products of this type are summed.
        numpy_module: The package that brings the numpy type, where numpy itself does not; otherwise None.
        multiplied: Name of the type as which its elements are multiplied where nothing else is asked for; None: as they are. It
            holds every one of them.
        finite: Whether it has no Inf: what is too large becomes NaN.
        dlpack: DLPack's code of the type, from version 1.1 of dlpack.h; None: that of its kind.
        part: Name of the type of the real part and the imaginary part, which lie side by side; None for what is not complex.
    """

    name: str
    bits: int
    kind: Kind
    mlir: str
    numpy: str
    roundoff: float | None
    accumulator: str
    numpy_module: str | None = None
    multiplied: str | None = None
    finite: bool = False
    dlpack: int | None = None
    part: str | None = None

    def __post_init__(self) -> None:
        """Checks the row against itself.

        Raises:
            SpecError: Elements fill neither bytes nor halves of them, or a float has no roundoff in (0, 1), or an integer has one, or
                a float that is none of IEEE 754's has no code of DLPack's.
        """
        if self.bits != _HALF_BYTE and (self.bits <= 0 or self.bits % 8):
            expected = "4, or a multiple of 8: `lowering.types.packed_elements` takes bytes apart in halves"
            raise SpecError(f"element type {self.name} is {self.bits} bits wide", expected=expected)
        if self.kind == "float" and not (self.roundoff is not None and 0.0 < self.roundoff < 1.0):
            raise SpecError(f"floating-point type {self.name} has roundoff {self.roundoff}", expected="one in (0, 1)")
        if self.kind in ("int", "uint") and self.roundoff is not None:
            raise SpecError(f"integer type {self.name} has roundoff {self.roundoff}", expected="None")
        if self.kind == "float" and self.numpy_module and self.dlpack is None:
            raise SpecError(f"floating-point type {self.name} has no code of DLPack's", expected="that of dlpack.h")

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory, rounded up."""
        return -(-self.bits // 8)

    @property
    def is_wide(self) -> bool:
        """Whether products of such integers keep their last bits."""
        return any(self.name == each.a for each in WIDE_INTEGERS)

    @property
    def packed(self) -> int:
        """Elements that share a byte in memory: 1, or 2 of those of four bits."""
        return max(1, 8 // self.bits)

    def __str__(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Combination:
    """Element types that can be combined in one product, by name.

    Attributes:
        a: Of A.
        b: Of B.
        acc: In which products are summed.
        c: Of the result: what is summed is rounded to it once.
    """

    a: str
    b: str
    acc: str
    c: str

    def __str__(self) -> str:
        """Operands and result, and the accumulator where it differs from the result: "bf16×bf16→bf16 (summed in f32)"."""
        return f"{self.a}×{self.b}→{self.c}{'' if self.acc == self.c else f' (summed in {self.acc})'}"


# Unit roundoffs u = 2**-p. Precision p: IEEE 754-2019, table 3.5, binary16 11, binary32 24, binary64 53; bfloat16 8 (Intel,
# "BFLOAT16 - Hardware Numerics Definition", 2018); f8E4M3FN 4, f8E5M2 3 (OCP 8-bit Floating Point Specification, revision 1.0),
# f8E3M4 5 (H. Shen et al., "Efficient Post-training Quantization with FP8 Formats", 2023),
# f4E2M1FN 2, f8E8M0FNU 1 (OCP Microscaling Formats Specification, version 1.0).
_ROWS = (
    DType("f32", 32, "float", mlir="f32", numpy="float32", roundoff=2.0**-24, accumulator="f32"),
    DType("f64", 64, "float", mlir="f64", numpy="float64", roundoff=2.0**-53, accumulator="f64"),
    DType("f16", 16, "float", mlir="f16", numpy="float16", roundoff=2.0**-11, accumulator="f32"),
    DType(
        "bf16",
        16,
        "float",
        mlir="bf16",
        numpy="bfloat16",
        roundoff=2.0**-8,
        accumulator="f32",
        numpy_module="ml_dtypes",
        dlpack=4,
    ),
    DType("i8", 8, "int", mlir="i8", numpy="int8", roundoff=None, accumulator="i32"),
    DType("u8", 8, "uint", mlir="i8", numpy="uint8", roundoff=None, accumulator="i32"),
    DType("i32", 32, "int", mlir="i32", numpy="int32", roundoff=None, accumulator="i32"),
    DType("i64", 64, "int", mlir="i64", numpy="int64", roundoff=None, accumulator="i64"),
    *(
        DType(
            name,
            bits,
            "float",
            mlir=name,
            numpy=numpy,
            roundoff=roundoff,
            accumulator="f32",
            numpy_module="ml_dtypes",
            multiplied=multiplied,
            finite=finite,
            dlpack=dlpack,
        )
        for name, bits, numpy, roundoff, multiplied, finite, dlpack in (
            ("f8E3M4", 8, "float8_e3m4", 2.0**-5, "bf16", False, 7),
            ("f8E4M3FN", 8, "float8_e4m3fn", 2.0**-4, "bf16", True, 10),
            ("f8E5M2", 8, "float8_e5m2", 2.0**-3, "bf16", False, 12),
            ("f4E2M1FN", 4, "float4_e2m1fn", 2.0**-2, "bf16", True, 17),
            ("f8E8M0FNU", 8, "float8_e8m0fnu", 2.0**-1, None, True, 14),
        )
    ),
    DType("i4", 4, "int", "i4", "int4", roundoff=None, accumulator="i32", numpy_module="ml_dtypes", multiplied="i8"),
    DType("u4", 4, "uint", "i4", "uint4", roundoff=None, accumulator="i32", numpy_module="ml_dtypes", multiplied="u8"),
    *(
        DType(name, bits, "complex", f"complex<{part}>", f"complex{bits}", roundoff, accumulator=name, part=part)
        for name, bits, part, roundoff in (("c64", 64, "f32", 2.0**-24), ("c128", 128, "f64", 2.0**-53))
    ),
)

DTYPES: Mapping[str, DType] = MappingProxyType({row.name: row for row in _ROWS})
"""Every element type that this release knows, by name."""

COMBINATIONS = (
    Combination("f32", "f32", "f32", "f32"),
    Combination("f64", "f64", "f64", "f64"),
    Combination("f16", "f16", "f32", "f32"),
    Combination("f16", "f16", "f32", "f16"),
    Combination("bf16", "bf16", "f32", "f32"),
    Combination("bf16", "bf16", "f32", "bf16"),
    Combination("i8", "i8", "i32", "i32"),
    Combination("u8", "i8", "i32", "i32"),
    Combination("i8", "u8", "i32", "i32"),
    Combination("u8", "u8", "i32", "i32"),
)
"""The combinations that this release computes on every target."""

WIDE_INTEGERS = tuple(Combination(*[name] * 4) for name in ("i32", "i64"))
"""Those besides that processors compute: products and sums keep their last bits, as in C and numpy, so that unsigned ones are the same."""

COMPLEX_COMBINATIONS = tuple(Combination(*[row.name] * 4) for row in _ROWS if row.part is not None)
"""Those besides that it computes as products of the real and imaginary parts."""

STORED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **dict.fromkeys(("f8E3M4", "f8E4M3FN", "f8E5M2", "f4E2M1FN"), frozenset({"bf16", "f16", "f32"})),
        "i4": frozenset({"i8", "i32", "bf16", "f16", "f32"}),
        "u4": frozenset({"i8", "u8", "i32", "bf16", "f16", "f32"}),
        "f8E8M0FNU": frozenset({"bf16", "f32"}),
    }
)
"""Storage-only types: by name, the types that represent all of their values, to which they are widened before multiplication."""

SMALL_FLOATS = tuple(row.name for row in _ROWS if row.kind == "float" and row.bits == 8 and row.multiplied)
"""Those of them to which a sum, or the result of an epilogue, in f32 can be rounded: floats of eight bits with a sign."""

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


def dtype_of(field: str, name: str) -> DType:
    """The element type `name` of a field of a spec.

    Raises:
        SpecError: There is no such type; the error names the field.
    """
    try:
        return dtype(name)
    except SpecError as error:
        raise SpecError(
            error.what, where=f"MatmulSpec, {field}", expected=error.expected, remedy=error.remedy
        ) from None


def require_computed(types: Combination, *, prologues: bool, is_plain: bool) -> None:
    """Checks that this release computes products of these types.

    Args:
        types: The types.
        prologues: Whether prologues made those of A and B.
        is_plain: Whether nothing else is computed than C = A·B or C += A·B.

    Raises:
        SpecError: It does not.
    """
    if types in WIDE_INTEGERS and not is_plain:
        raise SpecError(
            f"A of {types.a} with other ops or factors is not supported yet",
            where="MatmulSpec",
            expected="alpha 1, beta 0 or 1, no prologue and no epilogue",
        )
    computed = (*COMBINATIONS, *WIDE_INTEGERS, *COMPLEX_COMBINATIONS)
    if types not in computed:
        raise SpecError(
            f"A of {types.a}, B of {types.b} summed in {types.acc} to C of {types.c} is not supported yet",
            where="MatmulSpec",
            expected=f"one of {', '.join(map(str, computed))}",
            remedy='End a prologue with tw.cast("bf16"), or what the other operand is of' if prologues else None,
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


def numpy_name(element: DType) -> str:
    """What names the numpy type of elements of that type: "float32", "ml_dtypes.bfloat16"."""
    return element.numpy if element.numpy_module is None else f"{element.numpy_module}.{element.numpy}"


def to_numpy(element: DType) -> np.dtype[Any]:
    """The numpy type of elements of that type, one by one; what brings it is imported."""
    import numpy

    if element.numpy_module is None:
        return numpy.dtype(element.numpy)
    return numpy.dtype(getattr(import_module(element.numpy_module), element.numpy))


def stored_numpy(element: DType) -> np.dtype[Any]:
    """The numpy type of arrays that hold elements of that type in memory: bytes, where two of them share one."""
    import numpy

    return numpy.dtype(numpy.uint8) if element.packed > 1 else to_numpy(element)
