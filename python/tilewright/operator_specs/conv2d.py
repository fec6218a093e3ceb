# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spec of a convolution of images with a bank of filters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tilewright.dims import MAX_EXTENT
from tilewright.entries import Epilogue
from tilewright.errors import SpecError
from tilewright.operand import OperandSpec
from tilewright.operator_specs.base import OperatorSpec
from tilewright.spec import MatmulSpec

LAYOUTS = ("nhwc", "nchw")
"""The axes of an image and of the result, outermost first: images, rows, columns and channels."""
FILTERS = {"nhwc": ("hwio", "ohwi"), "nchw": ("oihw",)}
"""By layout, how filters can be stored: rows, columns, channels of the image (of one group) and channels of the result."""
_UNROLLED = 64
"""Elements of a filter that a depthwise convolution has the code of one after the other at most."""
TYPES = ("f32", "f64", "f16", "bf16", "i8", "u8")
"""Element types of images and filters."""
_EXTENTS = ("n", "h", "w", "ic", "oc", "kh", "kw")

Sides = tuple[tuple[int, int], tuple[int, int]]
"""Zeros above and below, left and right."""


@dataclass(frozen=True, slots=True)
class Conv2dSpec(OperatorSpec):
    """A convolution: ``y[n, i, j, o] = sum of x[n, i·s - p + u·d, j·s - p + v·d, c] · w[u, v, c, o]`` over u, v and c.

    What lies outside of the image is zero. As everywhere in deep learning the filter is not mirrored. Specs are values, complete
    after construction.

    Attributes:
        n: Images.
        h: Rows of an image.
        w: Columns of an image.
        ic: Channels of an image.
        oc: Channels of the result.
        kh: Rows of a filter.
        kw: Columns of a filter.
        a: Element type of the images x.
        b: Element type of the filters w; by default that of the images.
        c: Element type of the result y; by default what the sums, or the last entry of the epilogue, leave.
        layout: "nhwc" or "nchw": how images and the result are stored.
        filter: How filters are stored: "hwio" (the default) or "ohwi" with "nhwc", "oihw" with "nchw".
        stride: Between neighboring results: rows and columns, or one number for both.
        dilation: Between neighboring elements of a filter, likewise.
        padding: Zeros around the image: a number for all sides; one for above and below, and one for left and right; a pair for each
            of these; "same": as many as give ceil(h / stride) rows and ceil(w / stride) columns, what is odd of them below and
            right; "valid": none. It becomes two pairs.
        groups: The channels of the image and of the result fall into so many groups; each of the result's sees its own group
            of the image's only. With as many groups as channels the convolution is called depthwise.
        w_packed: False. True: calls take w as ``kernel.pack("w", w)`` packed it. Images of "nhwc", one group.
        epilogue: What is done to each sum, as in `MatmulSpec`: operands have an element for each channel of the result ("n"), for
            each element of it ("mn"), or one for all ("").

    Raises:
        SpecError: A field is wrong, or asks for what this release does not do; the message says which.
    """

    operator: ClassVar[str] = "conv2d"

    n: int
    h: int
    w: int
    ic: int
    oc: int
    kh: int
    kw: int
    a: str = "f32"
    b: str | None = None
    c: str | None = None
    layout: str = "nhwc"
    filter: str | None = None
    stride: Any = 1
    dilation: Any = 1
    padding: Any = 0
    groups: int = 1
    w_packed: bool = False
    epilogue: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Checks and completes the fields."""
        for field in (*_EXTENTS, "groups"):
            _number(field, getattr(self, field))
        _choice("layout", self.layout, LAYOUTS)
        object.__setattr__(self, "filter", FILTERS[self.layout][0] if self.filter is None else self.filter)
        _choice("filter", self.filter, FILTERS[self.layout])
        for field in ("stride", "dilation"):
            object.__setattr__(self, field, _pair(field, getattr(self, field), least=1))
        object.__setattr__(self, "padding", self._sides())
        if self.oh < 1 or self.ow < 1:
            raise SpecError(
                f"the filter reaches over {self.reach[0]}x{self.reach[1]} elements of an image with its padding of "
                f"{self.h + sum(self.padding[0])}x{self.w + sum(self.padding[1])}",
                where="Conv2dSpec",
                expected="a result of one row and column at least",
                remedy="Pad more, or dilate less",
            )
        for field in ("ic", "oc"):
            if getattr(self, field) % self.groups:
                raise _wrong(field, getattr(self, field), f"a multiple of groups={self.groups}")
        if self.h * self.w * self.ic > MAX_EXTENT:
            raise SpecError(
                f"an image of {self.h}x{self.w}x{self.ic} elements",
                where="Conv2dSpec",
                expected=f"at most {MAX_EXTENT}",
                remedy="Cut it into parts that overlap",
            )
        if not isinstance(self.w_packed, bool):
            raise _wrong("w_packed", self.w_packed, "False or True")
        if self.w_packed and (self.groups > 1 or self.layout != "nhwc"):
            raise SpecError(
                f"w_packed with groups={self.groups} and layout {self.layout}",
                where="Conv2dSpec",
                expected='one group and layout "nhwc"',
                remedy="Let calls take w as it is stored",
            )
        for field in ("a", "b"):
            if getattr(self, field) is not None:
                _choice(field, getattr(self, field), TYPES)
        product = MatmulSpec(self.pixels, self.oc, self.depth, a=self.a, b=self.b, c=self.c, epilogue=self.epilogue)
        self._check_entries(product)
        for field in ("b", "c", "epilogue"):
            object.__setattr__(self, field, getattr(product, field))

    def _sides(self) -> Sides:
        """The zeros on each side."""
        extents, given = (self.h, self.w), self.padding
        if given == "same":
            reach = self.reach
            total = [
                max((-(-extent // step) - 1) * step + far - extent, 0)
                for extent, step, far in zip(extents, self.stride, reach, strict=True)
            ]
            return (total[0] // 2, total[0] - total[0] // 2), (total[1] // 2, total[1] - total[1] // 2)
        if given == "valid":
            given = 0
        if isinstance(given, int):
            given = (given, given)
        if not isinstance(given, tuple) or len(given) != 2:
            raise _wrong("padding", given, '"same", "valid", a number, a pair, or a pair of pairs')
        above, left = (_pair("padding", each, least=0) for each in given)
        return above, left

    @staticmethod
    def _check_entries(product: MatmulSpec) -> None:
        """Checks that each entry is one of those that this release fuses onto a convolution."""
        for typed in product.chain.entries:
            if typed.entry.form != "each" or any(each.axes == "m" or each.role for each in typed.operands):
                raise SpecError(
                    f"{typed.entry} is not supported after a convolution",
                    where="Conv2dSpec",
                    expected='entries of single elements, with operands of the axes "n", "mn" or ""',
                    remedy="Do it afterwards",
                )

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element of a filter on the image."""
        return (self.kh - 1) * self.dilation[0] + 1, (self.kw - 1) * self.dilation[1] + 1

    @property
    def oh(self) -> int:
        """Rows of the result."""
        return (self.h + sum(self.padding[0]) - self.reach[0]) // self.stride[0] + 1

    @property
    def ow(self) -> int:
        """Columns of the result."""
        return (self.w + sum(self.padding[1]) - self.reach[1]) // self.stride[1] + 1

    @property
    def pixels(self) -> int:
        """Elements of a channel of the result, of all images."""
        return self.n * self.oh * self.ow

    @property
    def depth(self) -> int:
        """Products that an element of the result is the sum of."""
        return self.kh * self.kw * (self.ic // self.groups)

    @property
    def is_pointwise(self) -> bool:
        """Whether each element of the result sees one pixel, and neighbors see neighbors: a product of matrices as it lies."""
        return (self.kh, self.kw, *self.stride) == (1, 1, 1, 1) and not any((*self.padding[0], *self.padding[1]))

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel sees one of its own, and vectors of channels lie side by side, for a small filter."""
        own = self.groups > 1 and self.groups == self.ic == self.oc
        return own and self.filter == "hwio" and self.kh * self.kw <= _UNROLLED

    @property
    def product(self) -> MatmulSpec:
        """The product of all patches and filters of one group, rows being pixels and columns channels."""
        return MatmulSpec(
            self.pixels, self.oc // self.groups, self.depth, a=self.a, b=self.b, c=self.c, epilogue=self.epilogue
        )

    def shaped(self, channels: int, rows: int, columns: int) -> tuple[int, int, int, int]:
        """The shape of images of so many channels, rows and columns, as they are stored."""
        if self.layout == "nhwc":
            return self.n, rows, columns, channels
        return self.n, channels, rows, columns

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """Images, filters, and those of the epilogue, in the order of the call."""
        product = self.product
        sizes = {"h": self.kh, "w": self.kw, "i": self.ic // self.groups, "o": self.oc}
        shapes = {"n": (self.oc,), "mn": self.result.shape, "": ()}
        return (
            OperandSpec("x", self.shaped(self.ic, self.h, self.w), product.a_stored),
            OperandSpec("w", tuple(sizes[axis] for axis in str(self.filter)), product.b_stored),
            *(replace(each, shape=shapes[each.axes]) for each in product.further),
        )

    @property
    def result(self) -> OperandSpec:
        """The result y, as an operand."""
        return OperandSpec("out", self.shaped(self.oc, self.oh, self.ow), self.product.c_type)

    @property
    def flops(self) -> int:
        """Operations: a multiply and an add for each product, those with zeros of the padding too."""
        return 2 * self.pixels * self.oc * self.depth

    def __str__(self) -> str:
        """Extents, element types and more: "1x56x56x64 * 3x3x64x64 f32 nhwc padding=1 [relu()]"."""
        types = f"{self.a},{self.b},{self.c}" if len({self.a, self.b, self.c}) > 1 else self.a
        image = "x".join(map(str, self.shaped(self.ic, self.h, self.w)))
        bank = "x".join(map(str, (self.kh, self.kw, self.ic // self.groups, self.oc)))
        said = [
            (f"stride={self.stride}", self.stride != (1, 1)),
            (f"dilation={self.dilation}", self.dilation != (1, 1)),
            (f"padding={self.padding}", self.padding != ((0, 0), (0, 0))),
            (f"groups={self.groups}", self.groups > 1),
            ("w_packed", self.w_packed),
            (f"[{', '.join(map(str, self.epilogue))}]", bool(self.epilogue)),
        ]
        return " ".join([f"{image} * {bank} {types} {self.layout}", *(text for text, holds in said if holds)])


def along_rows(entry: Epilogue) -> Epilogue:
    """The entry for a result that is stored transposed, with channels as rows."""
    turned = {"n": "m"}
    operands = tuple(replace(each, axes=turned.get(each.axes, each.axes)) for each in entry.operands)
    return replace(entry, operands=operands)


def _wrong(field: str, value: object, expected: str) -> SpecError:
    return SpecError(f"{field} is {value!r}", where="Conv2dSpec", expected=expected)


def _number(field: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_EXTENT:
        raise _wrong(field, value, f"an int from {least} to {MAX_EXTENT}")


def _choice(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise _wrong(field, value, f"one of {', '.join(known)}")


def _pair(field: str, value: object, least: int) -> tuple[int, int]:
    """One number for both, or a pair."""
    pair = (value, value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise _wrong(field, value, "a number or a pair of them")
    for each in pair:
        _number(field, each, least)
    return pair
