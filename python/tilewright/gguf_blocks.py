# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes blocks of quantized elements, as GGUF files have them, apart into codes, scales and zero points.

Blocks have codes and scales side by side, and codes in other pairs than kernels take. Those of Q4_K have scales of scales, which are
multiplied out, and a number less, which becomes a zero point. This module imports numpy only when it is used.

Source: the structures of src/ggml-common.h of github.com/ggml-org/ggml, and ``dequantize_row_*`` in its src/ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF = 2
"""Bytes of an f16."""
_SUPER = 256
"""Elements of a block whose scales have a scale."""
_FOUR_BITS, _SIX_BITS = 15, 63

Parts = tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any] | None"]
"""Of blocks, N × K/block × bytes: codes, N × K, one in a byte (of four bits without a sign), scales, and zero points or None."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """A type of blocks.

    Attributes:
        block: Elements of a block.
        bytes: Of a block.
        element: The type of codes.
        scale: The type of scales and zero points.
        group: Elements that share one of them.
        parts: Takes blocks apart.
        has_zero_points: Whether there are any.
    """

    block: int
    bytes: int
    element: str
    scale: str
    group: int
    parts: Callable[[NDArray[Any]], Parts]
    has_zero_points: bool = False


def _half(blocks: NDArray[Any], start: int) -> NDArray[Any]:
    """The f16 at a place of each block."""
    import numpy as np

    return np.ascontiguousarray(blocks[..., start : start + _HALF]).view("<f2")[..., 0].astype(np.float16, copy=False)


def _rows(parts: NDArray[Any], blocks: NDArray[Any]) -> NDArray[Any]:
    """What blocks have, row by row."""
    return parts.reshape(len(blocks), -1)


def _q4_0(blocks: NDArray[Any]) -> Parts:
    import numpy as np

    stored = blocks[..., _HALF:]
    # Low halves are elements 0 to 15, high ones 16 to 31, each 8 more than it stands for.
    codes = np.concatenate([stored & _FOUR_BITS, stored >> 4], -1) ^ 8
    return _rows(codes, blocks), _half(blocks, 0), None


def _q8_0(blocks: NDArray[Any]) -> Parts:
    import numpy as np

    return _rows(np.ascontiguousarray(blocks[..., _HALF:]).view(np.int8), blocks), _half(blocks, 0), None


def _q4_k(blocks: NDArray[Any]) -> Parts:
    """Elements are d · s · q - e · m: d and e are f16 of the block, s and m have six bits for each 32 elements, and q four."""
    import numpy as np

    first, second, last = (blocks[..., start : start + 4] for start in (4, 8, 12))
    # Scales 0 to 3 and their m are the low six bits; of 4 to 7, the upper two of these are where the others end.
    scale = np.concatenate([first & _SIX_BITS, last & _FOUR_BITS | first >> 6 << 4], -1)
    less = np.concatenate([second & _SIX_BITS, last >> 4 | second >> 6 << 4], -1)
    scales = _half(blocks, 0).astype(np.float32)[..., None] * scale  # Exact: of 11 bits by 6.
    mins = _half(blocks, _HALF).astype(np.float32)[..., None] * less
    stored = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 1, 32)
    codes = np.concatenate([stored & _FOUR_BITS, stored >> 4], -2).reshape(*blocks.shape[:-1], 8, 32)
    # Without a scale each element is -m, which is (0 - 1) · m.
    flat = scales == 0
    codes[flat] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        zeros = np.where(flat, np.where(mins == 0, 0, 1), mins / scales).astype(np.float32)
    return _rows(codes, blocks), _rows(np.where(flat, mins, scales), blocks), _rows(zeros, blocks)


def _q6_k(blocks: NDArray[Any]) -> Parts:
    """Elements are d · s · (q - 32): d is an f16 of the block, s an i8 for each 16 elements, and q has six bits."""
    import numpy as np

    low = blocks[..., :128].reshape(*blocks.shape[:-1], 2, 2, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:-1], 2, 1, 32)
    lower = np.concatenate([low & _FOUR_BITS, low >> 4], -2)
    upper = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], -2)
    codes = (lower | upper << 4).astype(np.int8) - 32
    scale = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    return _rows(codes, blocks), _rows(_half(blocks, 208).astype(np.float32)[..., None] * scale, blocks), None


BLOCKS: Mapping[str, BlockType] = MappingProxyType(
    {
        "Q4_0": BlockType(32, _HALF + 16, "i4", "f16", 32, _q4_0),
        "Q8_0": BlockType(32, _HALF + 32, "i8", "f16", 32, _q8_0),
        "Q4_K": BlockType(_SUPER, 2 * _HALF + 12 + 128, "u4", "f32", 32, _q4_k, has_zero_points=True),
        "Q6_K": BlockType(_SUPER, 128 + 64 + 16 + _HALF, "i8", "f32", 16, _q6_k),
    }
)
"""By ggml's name."""
