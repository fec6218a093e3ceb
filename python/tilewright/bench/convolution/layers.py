# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The convolutions that are measured, and their operands: the same values in every process that asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.operands import aligned
from tilewright.dtypes import dtype, to_numpy

TYPES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"f32": ("f32", "f32", "f32"), "bf16": ("bf16", "bf16", "bf16"), "i8": ("u8", "i8", "u8")}
)
"""By what is asked for, the types of images, filters and result; integer sums are quantised."""
ZERO_POINT = 128
"""What stands for zero in a quantised result."""
_DEVIATION = 40
"""The standard deviation of a quantised result's elements."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of one image, square like its filters.

    Attributes:
        size: Rows and columns of the image.
        channels: Of the image.
        filters: Channels of the result.
        reach: Rows and columns of a filter.
        stride: Down and to the right.
        padding: Zeros on each side.
    """

    size: int
    channels: int
    filters: int
    reach: int
    stride: int = 1
    padding: int = 0

    @property
    def result(self) -> int:
        """Rows and columns of the result."""
        return (self.size + 2 * self.padding - self.reach) // self.stride + 1

    @property
    def depth(self) -> int:
        """Products in a sum."""
        return self.reach**2 * self.channels

    @property
    def flops(self) -> int:
        """Operations, those with padding too."""
        return 2 * self.result**2 * self.filters * self.depth

    @property
    def scale(self) -> float:
        """By which sums of random bytes are divided to fit one."""
        deviation = sqrt(self.depth * (255**2 / 3) * (128**2 / 3))
        return float(np.float32(deviation / _DEVIATION))

    def __str__(self) -> str:
        """Image, filters and stride: "56x56x64, 3x3x64, stride 1"."""
        return (
            f"{self.size}x{self.size}x{self.channels}, {self.reach}x{self.reach}x{self.filters}, stride {self.stride}"
        )


def _stage(size: int, channels: int, width: int, stride: int) -> Iterator[Layer]:
    """The distinct layers of a stage of ResNet-50: the first block, in which the 3x3 filters have the stride, and others."""
    small, wide = size // stride, 4 * width
    yield Layer(size, channels, width, 1)
    yield Layer(size, width, width, 3, stride, 1)
    yield Layer(small, width, wide, 1)
    if stride > 1:
        yield Layer(size, channels, wide, 1, stride)
        yield Layer(small, width, width, 3, 1, 1)
    yield Layer(small, wide, width, 1)


LAYERS: Mapping[str, tuple[Layer, ...]] = MappingProxyType(
    {
        "resnet50": (
            Layer(224, 3, 64, 7, 2, 3),
            *_stage(56, 64, 64, 1),
            *_stage(56, 256, 128, 2),
            *_stage(28, 512, 256, 2),
            *_stage(14, 1024, 512, 2),
        )
    }
)
"""By network, each distinct convolution of it once, in its order."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """The operands of a layer.

    Attributes:
        x: The image, (1, rows, columns, channels).
        w: The filters, (rows, columns, channels, filters).
        y: The result, (1, rows, columns, filters), not yet computed.
    """

    x: np.ndarray
    w: np.ndarray
    y: np.ndarray


def arrays(layer: Layer, asked: str, seed: int = 0) -> Arrays:
    """Floats uniform in [-1, 1], integers over their whole range."""
    rng = np.random.default_rng(seed)
    shapes = (
        (1, layer.size, layer.size, layer.channels),
        (layer.reach, layer.reach, layer.channels, layer.filters),
        (1, layer.result, layer.result, layer.filters),
    )
    x, w, y = (aligned(shape, to_numpy(dtype(name))) for shape, name in zip(shapes, TYPES[asked], strict=True))
    for each in (x, w):
        each[...] = _random(rng, each)
    y.fill(0)
    return Arrays(x, w, y)


def _random(rng: np.random.Generator, like: np.ndarray) -> Any:  # noqa: ANN401 - an array of any type
    if like.dtype.kind in "iu":
        limits = np.iinfo(like.dtype)
        return rng.integers(limits.min, limits.max, like.shape, like.dtype, endpoint=True)
    return rng.uniform(-1, 1, like.shape).astype(like.dtype)
