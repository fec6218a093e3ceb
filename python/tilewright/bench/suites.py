# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shapes that are measured, as named suites, and the syntax of a shape on the command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import SpecError


@dataclass(frozen=True, slots=True)
class Shape:
    """The extents of one product C = A·B, with A of M×K, B of K×N and C of M×N elements.

    Attributes:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        batch: Leading extents of all three; () when there is one product only.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()

    @property
    def flops(self) -> int:
        """Floating-point operations of the product: two for each multiply-add."""
        count = 2 * self.m * self.n * self.k
        for extent in self.batch:
            count *= extent
        return count

    @property
    def size(self) -> float:
        """The edge of the cube of the same work, the cube root of M·N·K: what a plot has on its axis."""
        return (self.flops / 2) ** (1 / 3)

    def __str__(self) -> str:
        """As it is written on the command line, ``MxNxK``; batch extents come first, ``16x[512x512x64]``."""
        text = f"{self.m}x{self.n}x{self.k}"
        return f"{'x'.join(map(str, self.batch))}x[{text}]" if self.batch else text


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of shapes.

    Attributes:
        name: What `--suite` calls it.
        about: Where the shapes come from, one line.
        shapes: All its shapes.
    """

    name: str
    about: str
    shapes: tuple[Shape, ...]


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(parse_shape(word) for word in text.split())


_SHAPE = re.compile(r"\s*(\d+)[x×X](\d+)[x×X](\d+)\s*", re.ASCII)


def parse_shape(text: str) -> Shape:
    """The shape that `text` spells: three extents MxNxK, each at least 1, such as ``384x1024x1024``.

    Raises:
        SpecError: It is spelled differently, or an extent is 0 so that there is nothing to time.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise SpecError(f"bad shape {text!r}", expected="MxNxK in decimal digits, such as 384x1024x1024")
    m, n, k = map(int, match.groups())
    if 0 in (m, n, k):
        raise SpecError(f"shape {text!r} has an extent of 0", expected="at least 1 each, as no work has no speed")
    return Shape(m, n, k)


_LLM_M = (1, 8, 16, 32, 128, 512)
_LLM_NK = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (11008, 4096))

_ROWS = (
    Suite(
        "square",
        "cubes, from what fits in the first cache to what fits in none",
        _shapes(" ".join(f"{x}x{x}x{x}" for x in (64, 128, 256, 512, 1024, 2048, 4096))),
    ),
    Suite(
        "bert",
        "the layers of BERT base and large, sequences of 128, 384 and 512",
        (
            *_shapes("128x768x768 128x3072x768 128x768x3072 384x1024x1024 512x4096x1024"),
            Shape(512, 512, 64, batch=(16,)),
            Shape(512, 64, 512, batch=(16,)),
        ),
    ),
    Suite(
        "llm",
        "linear layers of large language models, from one token to a prompt of 512",
        tuple(Shape(m, n, k) for (n, k), m in itertools.product(_LLM_NK, _LLM_M)),
    ),
    Suite(
        "resnet50",
        "the convolutions of ResNet-50, as matrix products",
        _shapes(
            "12544x64x147 3136x64x576 3136x256x64 784x128x1152 784x512x128"
            " 196x256x2304 196x1024x256 49x512x4608 49x2048x512"
        ),
    ),
    Suite(
        "odd",
        "extents that are multiples of nothing",
        _shapes(
            "3x5x7 9x9x9 15x7x37 17x1000x31 81x41x19 123x789x456 127x255x511 457x514x330 1000x1000x1000 1000x1x1000"
        ),
    ),
    Suite(
        "skinny",
        "one or two extents tiny, the others large",
        _shapes("65536x64x64 64x64x65536 2048x8x2048 32768x8x512 8x32768x512"),
    ),
    Suite(
        "small",
        "cubes of 4 to 64, two thousand at once",
        tuple(Shape(n, n, n, batch=(2000,)) for n in (4, 5, 8, 13, 16, 23, 32, 48, 64)),
    ),
)

SUITES: Mapping[str, Suite] = MappingProxyType({row.name: row for row in _ROWS})
"""Every suite, by name."""


def suite(name: str) -> Suite:
    """The suite of that name.

    Raises:
        SpecError: There is none; the message lists those there are.
    """
    if name not in SUITES:
        raise SpecError(f"unknown suite {name!r}", expected=f"one of {', '.join(SUITES)}")
    return SUITES[name]
