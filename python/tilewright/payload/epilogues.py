# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The named entries of epilogues: each is a function of one element, like a user's.

The IR (`payload.elementwise`), the NumPy reference and the error bound (`payload.propagation`) all follow from it. `c` is
the sum, or the result of the entry before.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, pi, sqrt
from typing import Any

from tilewright import math
from tilewright.dtypes import dtype
from tilewright.entries import FLOAT, INDEX_TYPES, Epilogue, Operand, of_function
from tilewright.errors import SpecError
from tilewright.expressions import Step, Traced, convert, joined, trace


def bias(axes: str = "n", type: str | None = None) -> Epilogue:
    """Computes c + bias, with an element for each column ("n"), or each row ("m"), of type `type`, by default as the sum has it.

    Raises:
        SpecError: The axes are none of "n", "m", "mn" and "", or there is no such type; as for every entry below.
    """
    return _entry("bias", lambda c, x: c + x, Operand("bias", axes, type), _written(axes, type))


def residual(axes: str = "mn", type: str | None = None) -> Epilogue:
    """Computes c + residual, an operand of M×N elements ("mn"), or with one for each column or row, which is then broadcast."""
    return _entry("residual", lambda c, x: c + x, Operand("residual", axes, type), _written(axes, type))


def multiply(axes: str = "mn", type: str | None = None) -> Epilogue:
    """Computes c · factor, an operand as that of `residual`."""
    return _entry("multiply", lambda c, x: c * x, Operand("factor", axes, type), _written(axes, type))


def scale(value: float) -> Epilogue:
    """Computes c · value, for a constant."""
    factor = _number("scale", value)
    return Epilogue(f"scale({factor!r})", (), trace(lambda c: c * factor, 0))


def scale_by(axes: str = "n", type: str = FLOAT) -> Epilogue:
    """Computes c · scale, a float for each column ("n"), or each row ("m"), or one for all ("")."""
    return _entry("scale_by", lambda c, x: c * x, Operand("scale", axes, type), _written(axes, type))


def relu() -> Epilogue:
    """The larger of c and 0."""
    return Epilogue("relu()", (), trace(lambda c: math.max(c, 0), 0))


def leaky_relu(slope: float = 0.01) -> Epilogue:
    """Computes c where it is above zero, and c · slope elsewhere."""
    factor = _number("leaky_relu", slope)
    return Epilogue(f"leaky_relu({factor!r})", (), trace(lambda c: math.where(c > 0, c, c * factor), 0))


def clamp(lo: float = -inf, hi: float = inf) -> Epilogue:
    """c, but at least `lo` and at most `hi`.

    Raises:
        SpecError: `lo` is above `hi`, or one is no number.
    """
    if not lo <= hi:
        raise SpecError(f"clamp from {lo!r} to {hi!r}", where="epilogue", expected="lo <= hi")

    def clamped(c: Traced) -> Traced:
        least = c if lo == -inf else math.max(c, lo)
        return least if hi == inf else math.min(least, hi)

    return Epilogue(f"clamp({lo!r}, {hi!r})", (), trace(clamped, 0))


def gelu(form: str = "erf") -> Epilogue:
    """Computes c · Φ(c), Φ being the normal distribution: with "erf" as it is defined, with "tanh" by the usual approximation.

    Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units", 2016.

    Raises:
        SpecError: `form` is something else.
    """
    forms: dict[str, Callable[[Traced], Traced]] = {
        "erf": lambda c: (0.5 * c) * (1 + math.erf(c * sqrt(0.5))),
        "tanh": lambda c: (0.5 * c) * (1 + math.tanh(sqrt(2 / pi) * (c + 0.044715 * (c * c) * c))),
    }
    if form not in forms:
        raise SpecError(f"gelu by {form!r}", where="epilogue", expected="'erf' or 'tanh'")
    return Epilogue(f"gelu({form!r})", (), trace(forms[form], 0))


def silu() -> Epilogue:
    """Computes c / (1 + exp(-c))."""
    return Epilogue("silu()", (), trace(lambda c: c / (1 + math.exp(-c)), 0))


def hardswish() -> Epilogue:
    """Computes c · min(max(c + 3, 0), 6) / 6, which is near `silu` and needs no exponential.

    Source: A. Howard et al., "Searching for MobileNetV3", 2019.
    """
    return Epilogue("hardswish()", (), trace(lambda c: c * math.min(math.max(c + 3, 0), 6) * (1 / 6), 0))


def sigmoid() -> Epilogue:
    """1 / (1 + exp(-c))."""
    return Epilogue("sigmoid()", (), trace(math.sigmoid, 0))


def tanh() -> Epilogue:
    """The hyperbolic tangent of c."""
    return Epilogue("tanh()", (), trace(math.tanh, 0))


def exp() -> Epilogue:
    """Computes e to the power of c."""
    return Epilogue("exp()", (), trace(math.exp, 0))


def cast(type: str) -> Epilogue:
    """Computes c rounded to `type`, to the nearest; integers are saturated, as by `quantize`."""
    name = dtype(type).name
    return Epilogue(f"cast({name!r})", (), trace(lambda c: convert(c, name), 0))


def quantize(scale: float, zero_point: int = 0, type: str = "i8") -> Epilogue:
    """Computes c / scale + zero_point, rounded (to even between two) and saturated to `type`, "i8" or "u8"; NaN gives the least.

    What is computed is c · (1 / scale), with the reciprocal rounded once.

    Raises:
        SpecError: `scale` is no finite number above zero, `type` is something else, or it cannot hold the zero point.
    """
    factor = _number("quantize", scale)
    if not (factor > 0 and isfinite(1 / factor)):
        raise SpecError(f"quantize by {scale!r}", where="epilogue", expected="a scale above zero")
    ranges = {"i8": range(-128, 128), "u8": range(256)}
    if type not in ranges:
        raise SpecError(f"quantize to {type!r}", where="epilogue", expected="'i8' or 'u8'")
    if zero_point not in ranges[type]:
        raise SpecError(f"quantize with zero point {zero_point!r}", where="epilogue", expected=f"an int of {type}")
    inverse = 1 / factor
    zero = int(zero_point)
    # Rounded before the zero point is added: the sum of both would be rounded twice.
    program = trace(lambda c: convert(math.round(c * inverse) + float(zero), type), 0)
    return Epilogue(f"quantize({factor!r}, {zero}, {type!r})", (), program)


def dequantize(
    scale: float | str = "n",
    zero_point: int | str = 0,
    group: int = 0,
    type: str | None = None,
    scale_type: str = FLOAT,
) -> Epilogue:
    """(c - zero_point) · scale: numbers, or operands with one for each column ("n"), each row ("m"), or for all ("").

    In a prologue, with a `group`, there is one for so many elements along K: axes "gn" in `prologue_b`, "mg" in `prologue_a`.
    The operand then has ceil(K / group) × N elements, or M × ceil(K / group); stored transposed, N × ceil(K / group), where its
    matrix is stored transposed.

    Args:
        scale: A number, or the axes of an operand.
        zero_point: An int; or the type of an operand with the axes of the scale: "u8", "i8", "f32"...
        group: With axes that have a g, its elements: a multiple of 16.
        type: As which the result is multiplied, when this is the last entry of a prologue: "bf16", "f16" or "f32". By default
            that of A, or bf16 where A is stored in eight bits or less. In an epilogue it is left to the next entry.
        scale_type: The type of the operand of scales: "f32", "f16", "bf16"; and "f8E8M0FNU", a power of two, as the blocks of
            the OCP Microscaling Formats (MX) Specification, version 1.0 (2023), have it.

    Raises:
        SpecError: The zero point is neither, or an operand without one of scales; or an argument does not fit.
    """
    by_operand = isinstance(zero_point, str)
    if (
        isinstance(zero_point, bool)
        or not isinstance(zero_point, int | str)
        or (by_operand and not isinstance(scale, str))
    ):
        expected = "an int; or, with axes for the scale, a type"
        raise SpecError(f"dequantize with zero point {zero_point!r}", where="epilogue", expected=expected)
    as_type = type and dtype(type).name

    def of(c: Traced, factor: Traced | float, zero: Traced | int) -> Traced:
        result = (c - zero if by_operand or zero_point else c) * factor
        return convert(result, as_type) if as_type else result

    follows = isinstance(scale, str) and not as_type
    if not isinstance(scale, str):
        factor = _number("dequantize", scale)
        return Epilogue(f"dequantize({factor!r}, {zero_point})", (), trace(lambda c: of(c, factor, int(zero_point)), 0))
    operands = [Operand("scale", scale, scale_type, group=group)]
    if by_operand:
        operands.append(Operand("zero_point", scale, str(zero_point), group=group))
        program = trace(of, 2)
    else:
        program = trace(lambda c, x: of(c, x, int(zero_point)), 1)
    further = (("group", group), ("type", as_type), ("scale_type", scale_type if scale_type != FLOAT else None))
    said = "".join(f", {name}={value!r}" for name, value in further if value)
    return Epilogue(f"dequantize({scale!r}, {zero_point!r}{said})", tuple(operands), program, follows=follows)


def glu(activation: str | Callable[..., Any] = "silu") -> Epilogue:
    """Computes activation(c) · (A·B2), a gated linear unit: B2 is a further operand `b2`, of B's shape and type as it is stored.

    What is activated is the product with B, or what entries before made of it.

    Source: N. Shazeer, "GLU Variants Improve Transformer", 2020.

    Args:
        activation: "silu", "gelu", "sigmoid", "relu", "tanh", or a Python function of one element.

    Raises:
        SpecError: `activation` is none of them.
    """
    known: dict[str, Callable[[], Epilogue]] = {
        "silu": silu,
        "gelu": gelu,
        "sigmoid": sigmoid,
        "relu": relu,
        "tanh": tanh,
    }
    if isinstance(activation, str):
        if activation not in known:
            names = ", ".join(map(repr, known))
            raise SpecError(
                f"glu by {activation!r}", where="epilogue", expected=f"one of {names}, or a Python function"
            )
        name, entry = repr(activation), known[activation]()
    else:
        entry = function(activation)
        name = entry.name
        if entry.operands:
            raise SpecError(f"glu by {name}", where="epilogue", expected="a function of one element")
    program = joined(entry.program, Step("operand", detail="0"), "multiply")
    return Epilogue(f"glu({name})", (Operand("b2", "mn", role="b"),), program)


def softmax() -> Epilogue:
    """Computes exp(c - max) / sum of exp(c - max), with the largest number and the sum of the row.

    The row of a NaN is all NaN, and so is one whose largest number is infinite.
    """
    return Epilogue("softmax()", (), trace(lambda c: c, 0), "softmax")


def row_sum() -> Epilogue:
    """The sum of a row: C has M elements. It is the last entry."""
    return Epilogue("row_sum()", (), trace(lambda c: c, 0), "row_sum")


def row_max() -> Epilogue:
    """The largest number of a row, NaN where one is: C has M elements. It is the last entry."""
    return Epilogue("row_max()", (), trace(lambda c: c, 0), "row_max")


def gather_rows(rows: int, type: str = "i32") -> Epilogue:
    """Takes row number index[i] of a table for row i of A: the first entry of `prologue_a`.

    A, as calls take it, is then the table, of `rows` × K elements, and `index` a further operand of M integers. Calls refuse
    an index that is not from 0 to rows - 1.

    Args:
        rows: The rows of the table.
        type: "i32" or "i64".

    Raises:
        SpecError: `rows` is no int from 1 to 2**31 - 1, or `type` is something else.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows < 2**31:
        raise SpecError(f"gather_rows from {rows!r} rows", where="prologue_a", expected="an int from 1 to 2**31 - 1")
    if type not in INDEX_TYPES:
        raise SpecError(f"gather_rows by {type!r}", where="prologue_a", expected=f"one of {', '.join(INDEX_TYPES)}")
    index = Operand("index", "m", type, role="index")
    return Epilogue(f"gather_rows({rows}, {type!r})", (index,), trace(lambda a, _index: a, 1), "gather", rows)


def function(of: Callable[..., Any], **axes: str | tuple[str, str]) -> Epilogue:
    """A Python function of the element and of one of each further operand, computed with operators and `tilewright.math`.

    It is called once, with placeholders. A function without this around it has an operand of N floats for each parameter after
    the first; here `axes` says otherwise, by the parameter's name: "n", "m", "mn" or "" (one number for all), or that and an
    element type, ("mn", "bf16").

        tw.function(lambda c, s, r: tw.math.tanh(c * s) + r, s="m", r="mn")

    Raises:
        SpecError: A name is no parameter, axes or type are wrong, or what it does cannot be traced.
    """
    if not callable(of):
        raise SpecError(f"function of {of!r}", where="epilogue", expected="a def or lambda")
    return of_function(of, axes)


NAMES = (
    "bias",
    "cast",
    "clamp",
    "dequantize",
    "exp",
    "gather_rows",
    "gelu",
    "glu",
    "hardswish",
    "leaky_relu",
    "multiply",
    "quantize",
    "relu",
    "residual",
    "row_max",
    "row_sum",
    "scale",
    "scale_by",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
)
"""The entries that can be written as text."""


def parse(text: str) -> tuple[Epilogue, ...]:
    """The entries that a text names, as on the command line: "bias:n,gelu", each with its arguments after colons, by name too.

    Raises:
        SpecError: A name is unknown, or an argument does not fit.
    """
    entries = []
    for written in text.split(","):
        name, *arguments = written.strip().split(":")
        given = [each.split("=", 1) for each in arguments if "=" in each]
        named = dict(given)
        if name not in NAMES:
            raise SpecError(f"no entry {name!r}", where="epilogue", expected=f"one of {', '.join(NAMES)}")
        try:
            if len(named) < len(given):
                raise TypeError("an argument twice")
            values = map(_argument, (each for each in arguments if "=" not in each))
            entries.append(globals()[name](*values, **{each: _argument(value) for each, value in named.items()}))
        except TypeError:
            raise SpecError(
                f"{written!r} has wrong arguments", where="epilogue", expected=f"those of tw.{name}"
            ) from None
    return tuple(entries)


def _argument(text: str) -> int | float | str:
    """A number, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _entry(name: str, of: Callable[[Traced, Traced], Traced], operand: Operand, written: str) -> Epilogue:
    return Epilogue(f"{name}({written})", (operand,), trace(of, 1))


def _written(axes: str, type: str | None) -> str:
    """The arguments of an entry with an operand, as people write them."""
    return repr(axes) if type in (None, FLOAT) else f"{axes!r}, {type!r}"


def _number(name: str, value: float) -> float:
    """`value` as a float."""
    try:
        number = None if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not isfinite(number):
        raise SpecError(f"{name} of {value!r}", where="epilogue", expected="a finite number")
    return number
