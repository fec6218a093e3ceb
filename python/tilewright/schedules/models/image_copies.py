# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of its images a convolution copies, with zeros around them, to read patches there; otherwise it packs the patches.

Panels of patches have as many elements for each one of an image as a filter has, by steps: nine of a 3 x 3. Making and reading them
takes up to a fifth of the time. Measured on a virtual Granite Rapids in f32, one thread, in GFLOP/s, patches packed and read in copies
(rows and channels of the image, channels of the result, filter): 56 x 64 by 64, 3 x 3, 195 and 213; 28 x 128 by 128 195 and 220; 14 x
256 by 256 205 and 216; 7 x 512 by 512 155 and 175; with steps of 2, 56 x 128 by 128 188 and 197; 28 x 256 by 256 201 and 205; 224 x 3 by
64, 7 x 7, 183 and 210; without, 28 x 64 by 48, 5 x 5, 200 and 232; 57 x 64 by 16, 3 x 3, 103 and 135. Of one element with steps of 2 190
and 150: each pixel is read once then.

Tile registers (AMX) multiply so much faster that packing takes half of the time. Each reads pixels of one row of the result, which it has
a number of: 14 rows of 16, where there are 56, 28 or 14 columns. Measured there in bf16 and in u8 by i8: 56 x 64 by 64, 3 x 3, 936 and
1769, 2026 and 3592; 28 x 128 by 128 1275 and 2061, 3146 and 4400; 14 x 256 by 256 1119 and 1811, 2869 and 4247; with steps of 2, 28 x 256
by 256 1069 and 1483, 2799 and 3270; of ten rows of 16, 20 x 64 by 64 1060 and 1557, 2867 and 3620.
"""

from __future__ import annotations

from math import prod

from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.schedules.models import lone_panel
from tilewright.schedules.models.sizes import Blocking, ceil_div, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS

NONE, ALL, BLOCKS, PACKED = range(4)
"""What is copied: nothing; all images before all else; for each block of rows of the product what it reads; nothing, but patches are
packed even where rows of an A would be read where they lie."""
COPIED = (ALL, BLOCKS)

_LEAST = 1.9
"""Elements of patches for each one of the copies from which on copying takes less time."""
_FEW_COLUMNS = 128
"""Columns up to which reading images where they lie takes less time than packing patches of one element. Measured there, steps of 2: 57 x
64 by 64 190 and 218; 28 x 100 by 96 190 and 200; 28 x 512 by 1024 214 and 193, whose pixels are 4 KiB apart. In tile registers, bf16:
56 x 256 by 128 1149 and 1305; 56 x 256 by 512 1418 and 1339."""
_HELD = 1 / 2
"""The part of L2 up to which copies stay there."""
_BLOCK = 1 / 4
"""The part of L2 that the copy for a block of rows has at most."""
_OTHER = 1 / 10
"""The part of L2 that is left for the result."""
_MOST_BYTES = 16 << 20
"""Of copies that are made at once, which are scratch memory."""


def may_be(spec: Conv2dSpec, product: MatmulSpec, target: Target) -> bool:
    """Whether the product of a convolution can read patches in copies: single elements of rows, as the images have them."""
    dot = target.dot(*product.multiplied)
    plain = lone_panel.as_panels(product, target) and not (target.by_lane or dot.rows > 1)
    whole = spec.ic // spec.groups % dot.step == 0 and product.k > 2 * dot.step
    return spec.layout == "nhwc" and plain and whole and not (dot.is_tile and not _height(spec))


def pay(spec: Conv2dSpec) -> bool:
    """Whether copies are so much less than patches that they take less time, or are not needed."""
    patches, copies = spec.pixels * spec.kh * spec.kw, spec.n * prod(_copied(spec))
    return copies * _LEAST <= patches or (_lie(spec) and spec.oc // spec.groups <= _FEW_COLUMNS)


def fit(spec: Conv2dSpec, depth: int) -> bool:
    """Whether blocks of K of so many elements are whole rows of the filter."""
    return depth >= spec.depth or depth % row(spec) == 0


def fit_registers(spec: Conv2dSpec, sizes: Blocking) -> bool:
    """Whether each tile register of a register tile has pixels of one row of the result."""
    height = tile_rows(sizes.mr)
    return sizes.mc > sizes.mr and not any(each % height for each in (sizes.mr, spec.ow, min(sizes.mc, spec.pixels)))


def sizes(spec: Conv2dSpec, product: MatmulSpec, target: Target, typical: Blocking, threads: int) -> dict[str, int]:
    """The sizes with which patches are read in copies, by name, for the register tile and the depth that a product has otherwise.

    All images are copied at once where that leaves more of L2 for the filters, or takes less traffic beyond it: copies that are written and
    read again there, once for each panel of filters, or filters that are read again for each block. Threads copy all at once: for blocks
    they would wait for one another.
    """
    filters, l2 = product.k * product.n * product.b_type.bytes, target.l2.bytes
    mr, nr, depth = typical.mr, typical.nr, product.k
    tiles: dict[str, int] = {}
    if target.dot(*product.multiplied).is_tile:
        mr, nr = 2 * _height(spec), min(2, ceil_div(product.n, AMX_ROWS)) * AMX_ROWS
        # Pixels are read from L1 again, for each element of the filter; a long panel of filters is not.
        tiles["past_l1"] = int(product.k * nr * product.b_type.bytes > target.l1.bytes)
    if not product.fused and product.k * nr * product.b_type.bytes > l2:
        depth = even(product.k, typical.kc, row(spec))
    copies = 0 if _lie(spec) else spec.n * prod(_copied(spec)) * spec.ic // spec.groups * product.a_type.bytes
    images, mc = ALL, product.m
    if copies > _MOST_BYTES:
        images, mc = BLOCKS, _block(spec, product, _MOST_BYTES)
    if threads == 1 and copies > l2 * _HELD:
        block = _block(spec, product, int(l2 * _BLOCK))
        again = (ceil_div(product.m, block) - 1) * filters if filters > l2 * (1 - _BLOCK - _OTHER) else 0
        if again <= copies * (1 + ceil_div(product.n, nr)):
            images, mc = BLOCKS, block
    return tiles | {
        "mr": mr,
        "nr": nr,
        "mc": mc,
        "nc": ceil_div(product.n, nr) * nr,
        "kc": depth,
        "rows_ahead": typical.rows_ahead,
        "images": images,
    }


def reach(count: int, stride: int, size: int, dilation: int) -> int:
    """Rows or columns of an image that so many results read."""
    return (count - 1) * stride + (size - 1) * dilation + 1


def are_blocks(pixels: int, images: int, results: tuple[int, int]) -> bool:
    """Whether so many pixels of the result are whole images, or whole rows of which an image has a number."""
    rows, columns = results
    own = rows * columns
    return pixels % own == 0 or (pixels % columns == 0 and (images == 1 or own % pixels == 0))


def _height(spec: Conv2dSpec) -> int:
    """Pixels of a tile register, all of one row of the result, of which it has a number; 0 where registers would be half empty."""
    return next((each for each in range(AMX_ROWS, AMX_ROWS // 2, -1) if spec.ow % each == 0), 0)


def tile_rows(mr: int) -> int:
    """Rows of each tile register of a register tile, of which there are as few as can be."""
    return mr // ceil_div(mr, AMX_ROWS)


def row(spec: Conv2dSpec) -> int:
    """Elements of a row of the filter."""
    return spec.kw * spec.ic // spec.groups


def _lie(spec: Conv2dSpec) -> bool:
    """Whether images are read where they lie: nothing outside of them is read, and pixels are side by side."""
    return spec.groups == 1 and not any((*spec.padding[0], *spec.padding[1]))


def _copied(spec: Conv2dSpec) -> tuple[int, int]:
    """Rows and columns of the copy of an image."""
    down, right = (
        reach(*each) for each in zip((spec.oh, spec.ow), spec.stride, (spec.kh, spec.kw), spec.dilation, strict=True)
    )
    return down, right


def _block(spec: Conv2dSpec, product: MatmulSpec, most: int) -> int:
    """Rows of the product that read so many bytes at most: those of whole images, or of rows of the result, in equal blocks."""
    down, right = _copied(spec)
    each = right * spec.ic // spec.groups * product.a_type.bytes
    if down * each <= most:
        return even(spec.n, most // (down * each)) * spec.oh * spec.ow
    fitting = [
        rows for rows in range(1, spec.oh) if reach(rows, spec.stride[0], spec.kh, spec.dilation[0]) * each <= most
    ]
    rows = even(spec.oh, max(fitting, default=1))
    if spec.n > 1:  # Each block is of one image.
        rows = next(each for each in range(rows, 0, -1) if spec.oh % each == 0)
    return rows * spec.ow
