# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight-only quantization: quantizes floats to narrow elements with scales, and dequantizes them.

Elements along K share a scale in groups, as `tilewright.dequantize` has them in a prologue: the element is (code - zero point) ·
scale. This module imports numpy only when it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import dtype, to_numpy
from tilewright.errors import OperandError, SpecError
from tilewright.nibbles import pack_nibbles, unpack_nibbles

if TYPE_CHECKING:
    from numpy.typing import NDArray

MX_BLOCK = 32
"""Elements that share a scale in every concrete format of the OCP Microscaling Formats (MX) Specification."""
_LARGEST_EXPONENT = {"f8E4M3FN": 8, "f8E5M2": 15, "f4E2M1FN": 2}
_RANGES = {"i4": (-8, 7), "u4": (0, 15), "i8": (-128, 127), "u8": (0, 255)}
_SCALE_BIAS, _SCALE_NAN = 127, 255


@dataclass(frozen=True, slots=True)
class Quantized:
    """Quantized weights as calls take them.

    Attributes:
        codes: The elements, shaped as the weights; of four bits two in a byte along the last axis (`tilewright.pack_nibbles`).
        scales: One for each group along K, shaped as the weights but for K, which is ceil(K / group); without groups one for
            each of the other axis.
        zero_points: Shaped as the scales; None where they are all 0.
        type: The type of the elements.
        shape: That of the weights.
        axis: Which of the two axes is K.
        group: Elements along K that share a scale; 0: all.
    """

    codes: NDArray[Any]
    scales: NDArray[Any]
    zero_points: NDArray[Any] | None
    type: str
    shape: tuple[int, int]
    axis: int
    group: int

    def __repr__(self) -> str:
        """Shape, type and groups, and none of the elements."""
        points = "" if self.zero_points is None else " and zero points"
        of = f"of {self.group} along axis {self.axis}" if self.group else f"of all of axis {self.axis}"
        return f"<tilewright.Quantized {'x'.join(map(str, self.shape))} {self.type}, scales{points} for groups {of}>"

    @property
    def operands(self) -> tuple[NDArray[Any], ...]:
        """What a call takes for B and for the operands of its prologue, in order."""
        return (self.codes, self.scales) if self.zero_points is None else (self.codes, self.scales, self.zero_points)

    def floats(self) -> NDArray[Any]:
        """The dequantized weights as float32: (code - zero point) · scale."""
        import numpy as np

        codes = self.codes
        if dtype(self.type).packed > 1:
            codes = unpack_nibbles(codes, self.type, self.shape[-1])
        codes = codes.astype(np.float32)
        if self.zero_points is not None:
            codes = codes - self._spread(self.zero_points)
        return codes * self._spread(self.scales)

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """One of `values` for each element."""
        import numpy as np

        values = values.astype(np.float32)
        if not self.group:
            return np.expand_dims(values, self.axis)
        return np.repeat(values, self.group, self.axis).take(range(self.shape[self.axis]), self.axis)


def quantize_weights(
    w: NDArray[Any],
    type: str = "i4",
    group: int = 128,
    *,
    symmetric: bool = True,
    axis: int = 1,
    scale_type: str = "f32",
) -> Quantized:
    """Quantizes weights, with a scale for each group along K that fits its largest element.

    Symmetric: no zero point is needed. Codes reach one further below 0 than above, so a group's scale has the sign that gives its largest
    magnitude a code below 0, and is the smallest of which no element is further than half a scale from what its code stands for. Otherwise
    codes span from the least to the largest element, 0 among them, and a zero point says which code is 0. A group of zeros has scale 0.
    Magnitudes of scales are rounded up to their type, so that half a scale bounds errors in either case, but for the rounding of f32.

    Args:
        w: The weights, in an array of any library: N × K, as layout "nt" stores B, or, with `axis` 0, K × N.
        type: "i4", "u4", "i8" or "u8"; the unsigned ones are not symmetric.
        group: Elements along K that share a scale, a multiple of 16; 0: all, for a scale of each column of C.
        symmetric: Without zero points.
        axis: Which axis is K.
        scale_type: "f32", "f16" or "bf16".

    Raises:
        OperandError: `w` is no matrix of finite numbers.
        SpecError: An argument is none of those.
    """
    import numpy as np

    if type not in _RANGES or (symmetric and type.startswith("u")):
        expected = "one of i4, i8 with symmetric=True; of i4, u4, i8, u8 otherwise"
        raise SpecError(f"weights of {type}, symmetric={symmetric}", where="quantize_weights", expected=expected)
    if isinstance(group, bool) or not isinstance(group, int) or group < 0 or group % 16 or axis not in (0, 1):
        raise SpecError(
            f"groups of {group!r} along axis {axis!r}",
            where="quantize_weights",
            expected="a multiple of 16, axis 0 or 1",
        )
    if scale_type not in ("f32", "f16", "bf16"):
        raise SpecError(f"scales of {scale_type}", where="quantize_weights", expected="f32, f16 or bf16")
    values = _matrix(w)
    lo, hi = _RANGES[type]
    least, most = (_by_group(values, group, axis, reduce) for reduce in (np.minimum, np.maximum))
    if symmetric:
        larger, smaller = np.maximum(-least, most), np.minimum(-least, most)
        # Half a scale beyond the last code on either side.
        exact, zero = np.maximum(larger / (0.5 - lo), smaller / (0.5 + hi)), np.zeros_like(most)
    else:
        exact = (most - least) / (hi - lo)
        zero = np.zeros_like(most)
    with np.errstate(over="ignore"):
        scales = exact.astype(to_numpy(dtype(scale_type)))
        # Rounded up, so that codes reach the largest element: of 255 steps a bf16 that is rounded down may lack a whole one.
        scales = np.where(scales.astype(np.float64) < exact, np.nextafter(scales, scales.dtype.type(np.inf)), scales)
    if not np.isfinite(scales.astype(np.float64)).all():
        raise OperandError(f"has elements too large for scales of {scale_type}", operand="w", expected="smaller ones")
    if symmetric:
        scales = np.where(most > -least, -scales, scales)
    size = np.where(scales == 0, 1, scales.astype(np.float64))
    if not symmetric:
        zero = np.clip(np.rint(lo - least / size), lo, hi)
    made = Quantized(values, scales, None if symmetric else zero, type, values.shape, axis, group)
    codes = np.clip(np.rint(values / made._spread(size)) + made._spread(zero), lo, hi)
    element = to_numpy(dtype(type))
    packed = dtype(type).packed > 1
    codes = pack_nibbles(codes.astype(np.int8).astype(element)) if packed else codes.astype(element)
    zero_points = None if symmetric else zero.astype(np.uint8 if type.startswith("u") else np.int8)
    return Quantized(codes, scales, zero_points, type, values.shape, axis, group)


def mx_quantize(x: NDArray[Any], type: str = "f8E4M3FN", axis: int = 1) -> Quantized:
    """Converts a matrix to MXFP8 or MXFP4: blocks of 32 elements along K with a power of two, of type f8E8M0FNU, as their scale.

    The scale is the largest power of two that is no larger than the block's largest magnitude, over the largest of the
    element type; elements are rounded to the nearest, ties to even, and those that are too large become the largest. A block with a NaN
    or an Inf has a NaN as its scale, and one of zeros the smallest scale.

    Source: OCP Microscaling Formats (MX) Specification, version 1.0 (2023), sections 5.2, 5.3 and 6.3.

    Args:
        x: A matrix of floats, in an array of any library: A as M × K, B as N × K (layout "nt"); with `axis` 0 transposed.
        type: "f8E4M3FN", "f8E5M2" or "f4E2M1FN".
        axis: Which axis is K.

    Raises:
        OperandError: `x` is no matrix of floats.
        SpecError: The type is none of those.
    """
    import numpy as np

    if type not in _LARGEST_EXPONENT or axis not in (0, 1):
        expected = f"one of {', '.join(_LARGEST_EXPONENT)}, axis 0 or 1"
        raise SpecError(f"MX elements of {type} along axis {axis!r}", where="mx_quantize", expected=expected)
    values = _matrix(x, finite=False)
    row = dtype(type)
    finite = np.isfinite(values)
    sizes = np.abs(np.where(finite, values, 0.0))
    most = _by_group(sizes, MX_BLOCK, axis, np.maximum)
    broken = _by_group((~finite).astype(np.float64), MX_BLOCK, axis, np.maximum) > 0
    with np.errstate(divide="ignore"):
        # The exponent of the largest: exact, where a logarithm would be rounded.
        exponents = np.where(most > 0, np.frexp(most)[1] - 1 - _LARGEST_EXPONENT[type], -_SCALE_BIAS)
    exponents = np.clip(exponents, -_SCALE_BIAS, _SCALE_BIAS)
    bits = np.where(broken, _SCALE_NAN, exponents + _SCALE_BIAS).astype(np.uint8)
    scales = bits.view(to_numpy(dtype("f8E8M0FNU")))
    made = Quantized(values, scales, None, type, values.shape, axis, MX_BLOCK)
    scaled = np.where(finite, values, 0.0) / made._spread(2.0**exponents)
    element = to_numpy(row)
    largest = float(_largest(element))
    codes = np.clip(scaled, -largest, largest).astype(np.float32).astype(element)
    return Quantized(pack_nibbles(codes) if row.packed > 1 else codes, scales, None, type, values.shape, axis, MX_BLOCK)


def _largest(element: Any) -> Any:  # noqa: ANN401 - a type of numpy's or ml_dtypes'
    import ml_dtypes

    return ml_dtypes.finfo(element).max


def _matrix(w: object, *, finite: bool = True) -> NDArray[Any]:
    """A matrix, in an array of any library, as float64."""
    import numpy as np

    from tilewright.standalone import _native

    w = _native.array_view(w, "w")
    if not isinstance(w, np.ndarray) or w.ndim != 2:
        found = f"has {w.ndim} dimensions" if isinstance(w, np.ndarray) else f"is a {w.__class__.__name__}"
        raise OperandError(found, operand="w", expected="an array of two dimensions")
    try:
        values = w.astype(np.float64)
    except (TypeError, ValueError):
        raise OperandError(f"is of type {w.dtype.name}", operand="w", expected="floats") from None
    if finite and not np.isfinite(values).all():
        raise OperandError("has a NaN or an Inf", operand="w", expected="finite numbers")
    return values


def _by_group(values: NDArray[Any], group: int, axis: int, reduce: Any) -> NDArray[Any]:  # noqa: ANN401 - a ufunc
    """The least or largest of each group along `axis`, and of 0; without groups, of all."""
    import numpy as np

    extent = values.shape[axis]
    if not group:
        return reduce.reduce(values, axis, initial=0.0)
    if not extent:
        return np.zeros([0 if each == axis else size for each, size in enumerate(values.shape)])
    return reduce(reduce.reduceat(values, range(0, extent, group), axis), 0.0)
