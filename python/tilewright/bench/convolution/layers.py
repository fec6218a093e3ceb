# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The convolutions that are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

import numpy as np

from tilewright.operand import OperandSpec
from tilewright.operator_specs import Conv2dSpec
from tilewright.payload.epilogues import quantize
from tilewright.payload.samples import values

TYPES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"f32": ("f32", "f32", "f32"), "bf16": ("bf16", "bf16", "bf16"), "i8": ("u8", "i8", "u8")}
)
"""By what is asked for, the types of images, filters and result; integer sums are quantized."""
ZERO_POINT = 128
"""The zero point of a quantized result."""
_DEVIATION = 40
"""The standard deviation of a quantized result's elements."""


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

    @property
    def streams(self) -> bool:
        """Never: it is measured in operations."""
        return False

    def spec(self, asked: str) -> Conv2dSpec:
        """Our spec of it, with filters packed ahead of time."""
        a, b, c = TYPES[asked]
        return Conv2dSpec(
            1,
            self.size,
            self.size,
            self.channels,
            self.filters,
            self.reach,
            self.reach,
            a=a,
            b=b,
            c=c,
            stride=self.stride,
            padding=self.padding,
            w_packed=True,
            epilogue=(quantize(self.scale, ZERO_POINT, "u8"),) if asked == "i8" else (),
        )

    def work(self, asked: str) -> int:
        """Operations, of any type."""
        return self.flops

    def values(self, random: np.random.Generator, operand: OperandSpec) -> np.ndarray:
        """Floats uniform in [-1, 1], integers over their whole range."""
        return values(random, operand.shape, operand.type)

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
