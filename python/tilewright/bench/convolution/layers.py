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
    """A convolution of images that are square, as its filters are.

    Attributes:
        size: Rows and columns of the image.
        channels: Of the image.
        filters: Channels of the result.
        reach: Rows and columns of a filter.
        stride: Down and to the right.
        padding: Zeros on each side.
        groups: Of channels; as many as channels: depthwise.
        images: How many.
    """

    size: int
    channels: int
    filters: int
    reach: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    images: int = 1

    @property
    def result(self) -> int:
        """Rows and columns of the result."""
        return (self.size + 2 * self.padding - self.reach) // self.stride + 1

    @property
    def depth(self) -> int:
        """Products in a sum."""
        return self.reach**2 * self.channels // self.groups

    @property
    def flops(self) -> int:
        """Operations, those with padding too."""
        return 2 * self.images * self.result**2 * self.filters * self.depth

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
        """Our spec of it, with filters packed ahead of time where it is a product."""
        a, b, c = TYPES[asked]
        return Conv2dSpec(
            self.images,
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
            groups=self.groups,
            w_packed=self.groups == 1,
            epilogue=(quantize(self.scale, ZERO_POINT, "u8"),) if asked == "i8" else (),
        )

    def work(self, asked: str) -> int:
        """Operations, of any type."""
        return self.flops

    def values(self, random: np.random.Generator, operand: OperandSpec) -> np.ndarray:
        """Floats uniform in [-1, 1], integers over their whole range."""
        return values(random, operand.shape, operand.type)

    def __str__(self) -> str:
        """Image, filters and stride: "56x56x64, 3x3x64, stride 1"; of several images or groups how many."""
        count = f"{self.images} x " if self.images > 1 else ""
        image, filters = f"{self.size}x{self.size}x{self.channels}", f"{self.reach}x{self.reach}x{self.filters}"
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{count}{image}, {filters}, stride {self.stride}{groups}"


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


_BOTTLENECKS = (
    (112, 16, 3, 16, 16, 1),
    (112, 16, 3, 64, 24, 2),
    (56, 24, 3, 72, 24, 1),
    (56, 24, 5, 72, 40, 2),
    (28, 40, 5, 120, 40, 1),
    (28, 40, 3, 240, 80, 2),
    (14, 80, 3, 200, 80, 1),
    (14, 80, 3, 184, 80, 1),
    (14, 80, 3, 480, 112, 1),
    (14, 112, 3, 672, 112, 1),
    (14, 112, 5, 672, 160, 2),
    (7, 160, 5, 960, 160, 1),
)
"""Of MobileNetV3-Large (Howard et al., "Searching for MobileNetV3", 2019, table 1): image, channels, filter, channels inside and of the
result, and stride."""


def _bottleneck(size: int, channels: int, reach: int, inside: int, out: int, stride: int) -> Iterator[Layer]:
    """The layers of an inverted bottleneck: channels become more, each is filtered by itself, and they become few again."""
    if inside > channels:
        yield Layer(size, channels, inside, 1)
    yield Layer(size, inside, inside, reach, stride, reach // 2, inside)
    yield Layer(size // stride, inside, out, 1)


def _block(size: int, channels: int) -> Iterator[Layer]:
    """The layers of a stage of ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022), and the one that leads to the next stage."""
    yield Layer(size, channels, channels, 7, 1, 3, channels)
    yield Layer(size, channels, 4 * channels, 1)
    yield Layer(size, 4 * channels, channels, 1)
    if size % 2 == 0:
        yield Layer(size, channels, 2 * channels, 2, 2)


LAYERS: Mapping[str, tuple[Layer, ...]] = MappingProxyType(
    {
        "resnet50": (
            Layer(224, 3, 64, 7, 2, 3),
            *_stage(56, 64, 64, 1),
            *_stage(56, 256, 128, 2),
            *_stage(28, 512, 256, 2),
            *_stage(14, 1024, 512, 2),
        ),
        "mobilenetv3": tuple(
            dict.fromkeys(
                (
                    Layer(224, 3, 16, 3, 2, 1),
                    *(layer for each in _BOTTLENECKS for layer in _bottleneck(*each)),
                    Layer(7, 160, 960, 1),
                )
            )
        ),
        "convnext": (
            Layer(224, 3, 96, 4, 4),
            *(
                layer
                for size, channels in ((56, 96), (28, 192), (14, 384), (7, 768))
                for layer in _block(size, channels)
            ),
        ),
    }
)
"""By network, each distinct convolution of one image once, in its order."""
