# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes that a strategy could have besides those of its model: what a printed schedule offers, and what a tuner searches.

Sizes come from the functions of the model itself (`blocking`): register tiles from the tiles that fit the registers, blocks from the
shares of the caches, doubled and halved. An axis is one size with its options while the sizes before it are fixed, so that constraints
between sizes are stated once: an axis offers only what fits those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import factorial
from typing import Any, Generic, TypeVar, cast

from tilewright.dims import Dim, Extent
from tilewright.schedules.models import (
    blocking,
    exchange,
    finishing,
    parts,
    prefetching,
    register_tiles,
    strips_of_a,
    tiles,
)
from tilewright.schedules.models.blocking import Blocking, ceil_div, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import AMX_ROWS

_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Times the model's share of a cache that a block may have."""
_MOST_KC = 4096
"""The deepest block that is offered where all of K is not one block: beyond it a panel of B is no longer in L2."""
_STREAMED_KC = (4, 8, 16, 32, 64, 128, 256, 512)
"""Rows of B that `streamed` may go through at once."""
_STEPS = (0, 2, 4, 8)
"""Steps over K that an iteration may take. LLVM itself seldom takes several at once."""


Problem = TypeVar("Problem")
Machine = TypeVar("Machine")
Sizes = TypeVar("Sizes")
Options = Sequence[tuple[int, ...]]
"""What sizes may be together, in the order of an axis's names."""


@dataclass(frozen=True, slots=True)
class Axis(Generic[Problem, Machine, Sizes]):
    """A size that may vary, or several that go together, as rows and columns of a register tile.

    Attributes:
        sizes: Their names, fields of the strategy's sizes: of `Blocking`, or an operator's or a GPU strategy's own.
        options: What they may be, for a spec on a target, with the sizes of the axes before it fixed.
        fitted: Makes sizes of the axes after it fit what it was set to.
        minor: Whether it changes little, so that a search tries it near good sizes only, and not with all others.
        ranked: Whether options that are next to each other are alike; otherwise each is next to all.
    """

    sizes: tuple[str, ...]
    options: Callable[[Problem, Machine, Sizes], Options]
    fitted: Callable[[Problem, Machine, Sizes], Sizes] = lambda spec, target, sizes: sizes
    minor: bool = False
    ranked: bool = True

    def of(self, sizes: Sizes) -> tuple[int, ...]:
        """The axis's sizes among others."""
        return tuple(getattr(sizes, name) for name in self.sizes)

    def at(self, spec: Problem, target: Machine, sizes: Sizes, option: tuple[int, ...]) -> Sizes:
        """Sizes with those of the axis replaced."""
        changed: Any = replace(sizes, **dict(zip(self.sizes, option, strict=True)))  # pyright: ignore[reportArgumentType]
        return self.fitted(spec, target, changed)

    def offered(self, spec: Problem, target: Machine, sizes: Sizes) -> list[tuple[int, ...]]:
        """The options in order, the present sizes among them."""
        return sorted({*self.options(spec, target, sizes), self.of(sizes)})


def points(
    axes: Sequence[Axis[Problem, Machine, Sizes]], spec: Problem, target: Machine, sizes: Sizes
) -> Iterator[Sizes]:
    """All sizes that some axes offer, from those of the model on; an axis is expanded after the axes that it depends on.

    Minor ones stay as they are.
    """
    major = [each for each in axes if not each.minor]
    if not major:
        yield sizes
        return
    first, *others = major
    for option in first.offered(spec, target, sizes):
        yield from points(others, spec, target, first.at(spec, target, sizes, option))


def around(
    axes: Sequence[Axis[Problem, Machine, Sizes]], spec: Problem, target: Machine, sizes: Sizes
) -> Iterator[Sizes]:
    """The sizes of which one is the next smaller or larger option, or any other one where options are not ranked."""
    for axis in axes:
        for name in axis.sizes:
            options = along(axis, name, spec, target, sizes)
            at = options.index(getattr(sizes, name))
            near = slice(max(at - 1, 0), at + 2) if axis.ranked else slice(None)
            for option in (each for each in options[near] if each != options[at]):
                others = tuple(option if each == name else getattr(sizes, each) for each in axis.sizes)
                yield axis.at(spec, target, sizes, others)


def along(axis: Axis[Problem, Machine, Sizes], name: str, spec: Problem, target: Machine, sizes: Sizes) -> list[int]:
    """What one size of an axis may be with all others as they are, in order."""
    at, now = axis.sizes.index(name), axis.of(sizes)
    fixed = [*now[:at], *now[at + 1 :]]
    return sorted({each[at] for each in axis.offered(spec, target, sizes) if [*each[:at], *each[at + 1 :]] == fixed})


def alone(
    axes: Sequence[Axis[Problem, Machine, Sizes]], spec: Problem, target: Machine, sizes: Sizes
) -> dict[str, list[int]]:
    """What each size may be while all others stay as they are, by name: the options of knobs of a decision.

    None where the present size is no option itself, as another one goes with it: of a depthwise convolution with 8 channels and one pixel,
    where more pixels are faster, other numbers of channels are none, though one pixel is what suits those.
    """

    def fits(axis: Axis[Problem, Machine, Sizes], name: str, option: int) -> bool:
        changed = replace(cast("Any", sizes), **{name: option})
        return axis.fitted(spec, target, changed) == changed

    options = {
        name: [each for each in along(axis, name, spec, target, sizes) if fits(axis, name, each)]
        for axis in axes
        for name in axis.sizes
    }
    return {name: found if getattr(sizes, name) in found else [] for name, found in options.items()}


def lanes(spec: MatmulSpec, target: Target, *, in_panels: bool) -> int:
    """Elements of a vector of a register tile's columns, of operands in panels or of those that lie as they are."""
    return (register_tiles.panel_lanes if in_panels else register_tiles.lanes_for)(spec, target)


def _packed_tiles(spec: MatmulSpec, target: Target) -> list[tuple[int, int]]:
    """The register tiles that `packed` can have."""
    dot = target.dot(*spec.multiplied)
    if dot.is_tile:
        found = [(down * AMX_ROWS, across * AMX_ROWS) for down, across in tiles.blocks()]
    else:
        found = list(
            register_tiles.register_tiles(target, lanes(spec, target, in_panels=True), fused=dot.adds, rows=dot.rows)
        )
    return [(mr, nr // spec.products) for mr, nr in found if nr % spec.products == 0]


def _is_fixed(spec: MatmulSpec) -> bool:
    """Whether panels of B have sizes that other kernels rely on: where B comes packed, or bits depend on nothing but the spec."""
    return spec.b_packed or spec.deterministic


def _packed_tile(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Tiles no wider and no taller than the result, or than the model's."""
    spec, sizes = parts.inside(spec, sizes)
    unit = lanes(spec, target, in_panels=True)
    rows, columns = max(int(spec.m), sizes.mr), max(ceil_div(max(int(spec.n), 1), unit) * unit, sizes.nr)
    found = [(mr, nr) for mr, nr in _packed_tiles(spec, target) if mr <= rows and nr <= columns]
    return [each for each in found if each[1] == sizes.nr] if _is_fixed(spec) else found


def _packed_kc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    spec, sizes = parts.inside(spec, sizes)
    k = max(int(spec.k), 1)
    if (spec.fused and not finishing.may(spec)) or _is_fixed(spec):
        return ()
    step = target.dot(*spec.multiplied).step
    of_panels = blocking.panel_bytes(spec, target)
    depth = blocking.depth(target, sizes.nr * of_panels, of_panels)
    depths = (min(int(depth * share), _MOST_KC) for share in _SHARES)
    whole = ceil_div(k, step) * step
    return [(min(ceil_div(even(k, each), step) * step, whole),) for each in depths if each > step]


def _packed_mc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    spec, sizes = parts.inside(spec, sizes)
    if spec.has_rows:
        return ()
    row_bytes = max(sizes.kc * blocking.panel_bytes(spec, target), 1)
    usual = blocking.rows_of_a(spec, target, row_bytes, sizes.mr)
    found = [(even(int(spec.m), max(int(usual * share), 1), sizes.mr),) for share in _SHARES]
    strips = strips_of_a.reads_ahead(spec, target) and sizes.mr < spec.m
    return [*found, (sizes.mr,)] if strips else found


def _packed_nc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    spec, sizes = parts.inside(spec, sizes)
    if spec.has_rows or _is_fixed(spec):
        return ()
    return [(even(int(spec.n), max(int(sizes.nc * share), 1), sizes.nr),) for share in _SHARES]


def _unpacked_tile(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Tiles on operands that are not packed."""
    unit = lanes(spec, target, in_panels=False)
    rows, columns = max(int(spec.m), sizes.mr), max(ceil_div(max(int(spec.n), 1), unit) * unit, sizes.nr)
    tiles_ = register_tiles.register_tiles(target, unit)
    return [(mr, nr) for mr, nr in tiles_ if mr <= rows and nr <= columns]


def _unpacked_kc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    spec, sizes = parts.inside(spec, sizes)
    if spec.fused or spec.deterministic:
        return ()
    k, step = max(int(spec.k), 1), target.dots(*spec.multiplied)[-1].step
    return [(each,) for each in (256, 512, 1024, 2048) if each < k and k % each == 0 and each % step == 0]


def _streamed_kc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    spec, sizes = parts.inside(spec, sizes)
    if spec.fused or spec.deterministic:
        return ()
    step = target.dots(*spec.multiplied)[-1].step
    return [
        (each,) for each in _STREAMED_KC if each <= spec.k and each % step == 0 and (step == 1 or spec.k % each == 0)
    ]


def _streamed_nc(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    return [(even(int(spec.n), max(int(sizes.nc * share), 1), sizes.nr),) for share in _SHARES]


def _along_k_tile(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Rows of partial sums along K, which leave registers for an element of each operand; columns follow how B lies."""
    rows = min(target.vector_registers // sizes.nr, int(spec.m))
    return [(mr,) for mr in range(1, rows + 1) if mr * sizes.nr + min(mr, sizes.nr) + 1 <= target.vector_registers]


def _unroll(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Steps of an iteration, of which a block of K has two iterations at least; tile instructions have no loop of vectors."""
    spec, sizes = parts.inside(spec, sizes)
    dot = target.dot(*spec.multiplied)
    if dot.is_tile:
        return ()
    steps = min(sizes.kc, max(int(spec.k), 1)) // dot.step
    return [(each,) for each in _STEPS if 2 * each <= steps]


def _unroll_along_k(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """The same of steps that are as long as a vector."""
    spec, sizes = parts.inside(spec, sizes)
    dot = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    step = target.lanes(spec.acc_type) * (1 if dot is None else dot.depth)
    return [(each,) for each in _STEPS if 2 * each * step <= int(spec.k)]


def _across(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Divisors of the threads."""
    if sizes.threads == 1:
        return ()
    return [(each,) for each in range(sizes.threads + 1) if each == 0 or sizes.threads % each == 0]


def _parts(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    return [(each,) for each in parts.options(spec, target)]


def _exchanged(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    return [(0,), (1,)] if sizes.parts == 1 and exchange.may(spec, target) else ()


def _exchanged_sizes(spec: MatmulSpec, target: Target, sizes: Blocking) -> Blocking:
    """The model's, of the product or of its transpose."""
    inner, _ = parts.inside(spec, sizes)
    return replace(blocking.packed_blocking(inner, target), exchanged=sizes.exchanged, threads=sizes.threads)


def both_loops(spec: MatmulSpec, sizes: Blocking) -> bool:
    """Whether there are loops over rows and over columns of register tiles, so that either can be the outer one."""
    if spec.dynamic:
        return False
    return sizes.mr < min(sizes.mc, spec.m) and sizes.nr < min(sizes.nc, spec.n)


def block_loops(spec: MatmulSpec, target: Target, sizes: Blocking) -> list[str]:
    """The loops over blocks that `packed` can have in any order: whatever it is, each element of C is summed from the first block of K on.

    A packed B that others share has the order of its panels in its format. Blocks of whole rows, and of a batch that shares its B, are
    around what they share, and slices are prefetched into tile registers' loops as they are.
    """
    spec, sizes = parts.inside(spec, sizes)
    shared = len(spec.b_axes) < len(spec.batch)
    if spec.dynamic or spec.has_rows or spec.b_packed or shared or target.dot(*spec.multiplied).is_tile:
        return []
    if finishing.is_apart(spec, sizes):
        return []
    loops = {"jc": sizes.nc < spec.n, "pc": sizes.kc < spec.k and not spec.fused, "ic": sizes.mc < spec.m}
    return [name for name, there in loops.items() if there]


def _packed_nest(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    orders = factorial(len(block_loops(spec, target, sizes)))
    return [(each,) for each in range(orders)] if orders > 1 else ()


def _strip_nest(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Either of the loops over strips of B and blocks of K."""
    spec, sizes = parts.inside(spec, sizes)
    return [(0,), (1,)] if sizes.nc < spec.n and sizes.kc < spec.k else ()


def _order(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    return [(0,), (1,)] if both_loops(spec, sizes) else ()


def _packed_order(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Slices of A and B are prefetched into tile registers' loops as they are."""
    return () if target.dot(*spec.multiplied).is_tile else _order(spec, target, sizes)


def _past_l1(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Which operand's tiles pass L1 by: neither's, B's, A's, or both."""
    return [(each,) for each in range(4)] if target.dot(*spec.multiplied).is_tile else ()


LOWERED = ("unroll", "ahead", "rows_ahead", "past_l1", "images", "across")
"""The sizes that the lowering of a function goes by."""
ORDERS = ("order", "nest")
"""The choices that are orders of loops, and no sizes."""
FIXED = (*ORDERS, "parts", "exchanged")
"""The choices that are no knobs: a schedule's text leaves orders open as alternatives, and which product is computed not at all."""
_UNROLL, _ORDER = Axis(("unroll",), _unroll, minor=True), Axis(("order",), _order, minor=True)
_ACROSS = Axis(("across",), _across, minor=True)
_PARTS = Axis(("parts",), _parts, lambda spec, target, sizes: parts.fitted(spec, sizes), minor=True)
_EXCHANGED = Axis(("exchanged",), _exchanged, _exchanged_sizes, minor=True, ranked=False)
_IN_PLACE = Axis(("ahead",), prefetching.in_place, minor=True)
_ROWS_AHEAD = Axis(("rows_ahead",), prefetching.rows_ahead, minor=True)
PACKED = (
    Axis(("mr", "nr"), _packed_tile),
    Axis(("kc",), _packed_kc),
    Axis(("mc",), _packed_mc),
    Axis(("nc",), _packed_nc),
    _UNROLL,
    Axis(("order",), _packed_order, minor=True),
    Axis(("nest",), _packed_nest, minor=True, ranked=False),
    Axis(("ahead",), prefetching.packed, minor=True),
    Axis(("rows_ahead",), prefetching.packed_rows_ahead, minor=True),
    Axis(("past_l1",), _past_l1, minor=True, ranked=False),
    Axis(("images",), lambda spec, target, sizes: (), minor=True, ranked=False),
    _ACROSS,
    _PARTS,
    _EXCHANGED,
)
"""The axes of `packed`. Where B comes packed, its panels are as the model has them: kernels of every M share them."""
_ROWS = Axis(("mr", "nr"), _unpacked_tile)
UNPACKED = (_ROWS, Axis(("kc",), _unpacked_kc), _UNROLL, _ORDER, _IN_PLACE, _ROWS_AHEAD, _ACROSS, _PARTS)
"""The axes of `unpacked`."""
STREAMED = (
    _ROWS,
    Axis(("kc",), _streamed_kc),
    Axis(("nc",), _streamed_nc),
    _UNROLL,
    _ORDER,
    Axis(("nest",), _strip_nest, minor=True),
    Axis(("ahead",), prefetching.streamed, minor=True),
    _ROWS_AHEAD,
    _ACROSS,
    _PARTS,
)
"""The axes of `streamed`."""
ALONG_K = (
    Axis(("mr",), _along_k_tile),
    Axis(("unroll",), _unroll_along_k, minor=True),
    _ORDER,
    _IN_PLACE,
    _ACROSS,
    _PARTS,
)
"""The axes of `inner_product`."""


def kept(options: Sequence[int], size: int, extent: Extent, *, padded: bool) -> list[int]:
    """Of some options for a size, those with which a schedule has the same loops over an extent.

    A printed schedule offers these: the loops stand in its text, and so does what becomes of a short last step, unless it is `padded`.
    """
    if isinstance(extent, Dim):
        return [size]

    def form(each: int) -> tuple[bool, bool]:
        return each < extent, padded or extent % each == 0

    return [each for each in options if form(each) == form(size)]
