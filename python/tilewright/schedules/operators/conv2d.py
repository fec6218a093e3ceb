# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the products of a convolution are scheduled: packed, in blocks of K that are whole rows and columns of the filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import gcd

from tilewright.errors import ScheduleError
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.schedules import make, select
from tilewright.schedules.models import image_copies
from tilewright.schedules.models.blocking import Blocking, ceil_div, even, rows_in_l1
from tilewright.schedules.models.lone_panel import reads_a
from tilewright.schedules.models.register_tiles import register_tiles, tile_cycles
from tilewright.schedules.models.space import Axis, Options
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS

_UNIT = 64
"""Channels that are read together: as many bytes as the widest vectors have."""
_FILLED = 0.75
"""The part of the registers that accumulators of a good tile take at least."""
_HELD, _BLOCK = 1 / 2, 1 / 16
"""The part of L2 beyond which an A that is read where it lies meets several panels of B in blocks, and the part that a block has.
Measured on a virtual Granite Rapids in f32, from beyond L2, in microseconds, in one block and in blocks of 98, 196 and 392 rows: 3136
x 64 x 256 750, 619, 627 and 648; 3136 x 128 x 256 1147, 1120, 1139 and 1233; 784 x 128 x 512 573, 552, 562 and 612; 3136 x 256 x 64,
which L2 holds, 644, 658, 658 and 648."""
_BOUND = 1.2
"""How much longer than its multiply-adds a good tile takes at most."""


def plan(
    spec: Conv2dSpec, product: MatmulSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> make.Plan:
    """The plan of the product of one group.

    That of one row and column of the filter is a product as any other. Others read patches in copies of the images (`image_copies`), or
    are always packed: it is packing that reads their patches then. K, of which a patch is made in every part, is one.

    Raises:
        ScheduleError: A parameter is unknown, or wrong.
    """
    if parameters.get("parts", 1) != 1:
        raise ScheduleError(
            f"parts is {parameters['parts']!r}", where="schedule parameters", expected="1, of a convolution"
        )
    made = _plan(spec, product, target, {**parameters, "parts": 1}, threads)
    return replace(made, sized_by_user=bool(parameters))


def _plan(
    spec: Conv2dSpec, product: MatmulSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> make.Plan:
    """The plan with parameters that say at least that K is one part."""
    if spec.is_pointwise:
        chosen = make.make(product, target, None, parameters, threads)
        sizes = {**_dividing(product, target, chosen), **parameters}
        return make.make(product, target, chosen.name, sizes, threads)
    sizes = dict(parameters)
    sized = partial(select.sized, select.PANELS, product, target, parameters, threads)
    blocking = sized().parameters
    if product.fused:  # Blocks have all of K, whatever was asked for.
        blocking = replace(blocking, kc=max(blocking.kc, product.k))
    typical = sized(typical=True).parameters
    may_copy = product.m > typical.mr and image_copies.may_be(spec, product, target)
    is_tile = target.dot(*product.multiplied).is_tile
    # Of tile registers, own sizes of these and of blocks would put pixels of two rows in one.
    is_own = is_tile and any(name in parameters for name in ("mr", "nr", "mc"))
    wanted = not is_own and _copies_pay(spec, parameters)
    if may_copy and parameters.get("images", wanted) not in (image_copies.NONE, image_copies.PACKED):
        own = image_copies.sizes(spec, product, target, typical, threads)
        if "mc" in parameters:  # It need not be whole rows of the result.
            own["images"] = image_copies.ALL
        return make.make(product, target, select.PANELS, own | sizes, threads)
    # Patches are packed: computing where an element is takes longer than moving it, and tile registers take rows that lie in memory.
    if is_tile and sizes.get("images", image_copies.NONE) not in image_copies.COPIED:
        whole = {} if "mr" in sizes else _whole_registers(blocking)
        sizes = {**whole, **sizes, "images": image_copies.PACKED}
    elif "kc" not in sizes and reads_a(product, target, blocking) and product.m > blocking.mr:
        blocking = typical
        half = ceil_div(ceil_div(product.m, 2), blocking.mr) * blocking.mr
        sizes = {"mr": blocking.mr, "mc": min(blocking.mc, half), **sizes}
    if "kc" not in sizes and blocking.kc < product.k:
        # Blocks begin where a vector of channels does.
        sizes["kc"] = ceil_div(blocking.kc, unit := _together(spec)) * unit
    return make.make(product, target, select.PANELS, sizes, threads)


def _whole_registers(blocking: Blocking) -> dict[str, int]:
    """The rows of a register tile of full registers, and of a strip of them: a model may have left some empty, so that M is whole tiles."""
    mr = ceil_div(blocking.mr, AMX_ROWS) * AMX_ROWS
    if mr == blocking.mr:
        return {}
    return {"mr": mr, "mc": ceil_div(blocking.mc, blocking.mr) * mr}


def _copies_pay(spec: Conv2dSpec, parameters: Mapping[str, int]) -> bool:
    """Whether patches are read in copies of the images, where parameters say nothing of that."""
    return image_copies.pay(spec) and image_copies.fit(spec, parameters.get("kc", spec.depth))


def axes(spec: Conv2dSpec, strategy: str) -> tuple[Axis[MatmulSpec, Target, Blocking], ...]:
    """Which sizes of a convolution's product may vary: those of its strategy, in blocks of K that begin where a vector of channels does."""
    found = tuple(each for each in select.row(strategy).axes if each.sizes != ("parts",))
    if spec.is_pointwise:
        return found
    own: Mapping[str, Callable[..., Options]] = {"mr": _registers, "kc": _depths, "mc": _rows, "images": _images}
    return tuple(
        replace(each, options=partial(own[each.sizes[0]], spec, each)) if each.sizes[0] in own else each
        for each in found
    )


def _together(spec: Conv2dSpec) -> int:
    """Channels that are read together: so many divide those of a group."""
    return gcd(spec.ic // spec.groups, _UNIT)


_Axis = Axis[MatmulSpec, Target, Blocking]


def _registers(spec: Conv2dSpec, axis: _Axis, product: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Of tile registers that read copies, tiles that these have rows for."""
    found = axis.options(product, target, sizes)
    if sizes.images not in image_copies.COPIED or not target.dot(*product.multiplied).is_tile:
        return found
    return [each for each in found if image_copies.fit_registers(spec, replace(sizes, mr=each[0]))]


def _depths(spec: Conv2dSpec, axis: _Axis, product: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Of whole channels, or of whole rows of the filter."""
    unit = image_copies.row(spec) if sizes.images in image_copies.COPIED else _together(spec)
    return [(ceil_div(each, unit) * unit,) for (each,) in axis.options(product, target, sizes)]


def _rows(spec: Conv2dSpec, axis: _Axis, product: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Where blocks of rows are copied, whole rows of the result."""
    rows = [each for (each,) in axis.options(product, target, sizes)]
    if sizes.images == image_copies.BLOCKS:
        rows = [ceil_div(each, spec.ow) * spec.ow for each in rows]
        rows = [each for each in rows if image_copies.are_blocks(each, spec.n, (spec.oh, spec.ow))]
    tiles = sizes.images in image_copies.COPIED and target.dot(*product.multiplied).is_tile
    return [(each,) for each in rows if not tiles or image_copies.fit_registers(spec, replace(sizes, mc=each))]


def _images(spec: Conv2dSpec, axis: _Axis, product: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """What of the images may be copied."""
    is_tile = target.dot(*product.multiplied).is_tile
    fitting = not is_tile or image_copies.fit_registers(spec, sizes)
    if not (fitting and image_copies.may_be(spec, product, target) and image_copies.fit(spec, sizes.kc)):
        return axis.options(product, target, sizes)
    packed = image_copies.PACKED if is_tile else image_copies.NONE
    blocks = image_copies.are_blocks(sizes.mc, spec.n, (spec.oh, spec.ow))
    return [(packed,), (image_copies.ALL,), *([(image_copies.BLOCKS,)] if blocks else [])]


def _dividing(product: MatmulSpec, target: Target, chosen: make.Plan) -> dict[str, int]:
    """A register tile of which whole numbers cover M and N, so that A can be read where it lies; none where none is good.

    Packing reads and writes every element of A for N products with it: of 64 columns it takes a tenth of the time. Of tiles that
    multiply-adds bound and that fill the registers one is as good as another, as long as L1 holds a line of each row: bf16,
    196x256x2304 on Zen 4, 6 x 64 and 14 x 32 sums: 232 and 234 GFLOP/s.
    """
    dot, blocking = target.dot(product.a_type.name, product.b_type.name), chosen.parameters
    kept = blocking is not None and blocking.kc >= product.k and product.k % dot.step == 0
    if (
        not select.is_in_panels(chosen.name)
        or blocking is None
        or not kept
        or dot.rows > 1
        or dot.is_tile
        or target.by_lane
    ):
        return {}
    lanes, most = target.lanes(product.acc_type), rows_in_l1(target, product.k * product.a_type.bytes)
    tiles = [
        (mr, nr)
        for mr, nr in register_tiles(target, lanes, fused=dot.adds)
        if product.m % mr == product.n % nr == 0 and mr <= most
        if mr * (nr // lanes) >= target.vector_registers * _FILLED
        if tile_cycles(target, mr, nr // lanes) <= mr * (nr // lanes) / target.fma_per_cycle * _BOUND
    ]
    if not tiles:
        return {}
    mr, nr = max(tiles, key=lambda tile: tile[0] * tile[1])
    most, row = blocking.mc, product.k * product.a_type.bytes
    if product.m * row > target.l2.bytes * _HELD:
        most = min(most, int(target.l2.bytes * _BLOCK) // row)
    return {"mr": mr, "nr": nr, "mc": even(product.m, most, mr), "nc": even(product.n, blocking.nc, nr)}
