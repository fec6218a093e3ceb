# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which strategy a product gets, and with which sizes: one row a strategy, of which the first that fits and pays is chosen.

`MatmulSpec.deterministic` asks that no sum's order depends on M, on the batch or on threads, nor on a dynamic N. Strategies that give each
lane of a vector a column of C add up the products of an element of C one by one, along K, and go on where a block of K ended. With elements
as wide as the sum all of these give the same bits, whatever their blocks, so the model may choose by M. With narrower ones the instruction
decides how many products are added at once: only those strategies agree that take the same one. Sums of integers are the same in any order.
Vectors along K and sums of codes are other orders (`Row.own_order`). Products of one column of a static N have the former for every M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from tilewright.dims import divided_by, most
from tilewright.errors import ScheduleError, warn_slow
from tilewright.schedules.models import (
    along_k,
    blocking,
    open_extents,
    outer_blocks,
    parts,
    pays,
    scalable_blocks,
    scaled_blocks,
    space,
    streamed_blocks,
)
from tilewright.schedules.models.blocking import Blocking, ceil_div
from tilewright.schedules.models.open_extents import Variant
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.mlir import ir

Maker = Callable[[MatmulSpec, Target, Blocking], "ir.Module"]
"""What makes a schedule; it runs inside an active `ir.Context`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy that can be asked for by name.

    Attributes:
        module: The module of this package that has a function of the strategy's name.
        sizes: The model that gives its sizes.
        purpose: What it is for, in a phrase.
        fits: Whether it fuses all that a spec asks for.
        pays: Whether it beats the rows after it.
        shared: What becomes of its sizes when threads share the work.
        threaded: Whether threads can share it.
        shares: Whether threads share it as well as what the rows after it compute.
        needs: The fact of a target without which it computes nothing, one of its attributes; empty for none.
        tile: What its register tile has vectors along N of: packed panels, or rows of B; empty where it has none.
        own_order: Whether it adds products up in an order that no other strategy has.
        own_vectors: Whether its vectors are as long as the machine says, so that it is for all that is large.
        takes: Of a dynamic spec, whether it takes a call, whose spec is the second one, and loses little by not knowing its extents.
        variants: Its code for dynamic extents.
        typical: The model that gives its sizes for a spec that stands for dynamic extents, where that is another one.
        opened: What becomes of these for the dynamic extents.
        axes: Which of its sizes may vary, and what they may be.
    """

    module: str
    sizes: Callable[[MatmulSpec, Target], Blocking]
    purpose: str
    fits: Callable[[MatmulSpec], bool] = pays.is_plain
    pays: Callable[[MatmulSpec, Target], bool] = lambda spec, target: True
    shared: Callable[[Blocking, MatmulSpec, Target, int], Blocking] = parts.for_threads
    threaded: bool = True
    shares: Callable[[MatmulSpec, Target], bool] = lambda spec, target: True
    needs: str = ""
    tile: Literal["panels", "rows", ""] = ""
    own_order: bool = False
    own_vectors: bool = False
    takes: Callable[[MatmulSpec, MatmulSpec, Target], bool] = lambda spec, call, target: True
    variants: Callable[[MatmulSpec, Target], Iterable[Variant]] = lambda spec, target: (Variant(),)
    typical: Callable[[MatmulSpec, Target], Blocking] | None = None
    opened: Callable[[Blocking, MatmulSpec, Target], Blocking] = lambda sizes, spec, target: sizes
    axes: tuple[space.Axis, ...] = ()

    def computes(self, spec: MatmulSpec) -> bool:
        """Whether it fuses all that a spec asks for: elements are split into pieces while they are packed."""
        return self.fits(spec) and not (spec.split and self.tile != "panels")


def _fuses_vectors(spec: MatmulSpec, *, along_k: bool) -> bool:
    """Whether vectors of a B are computed as they are read: along K where it is stored transposed, and otherwise along its rows."""
    if pays.is_plain(spec):
        return True
    alone = spec.products == 1 and not (spec.has_rows or spec.dynamic or spec.gathers or spec.b_packed)
    return alone and not (spec.prologue_a and spec.a_transposed) and (spec.b_transposed or spec.n == 1) == along_k


STRATEGIES: Mapping[str, Row] = {
    "outer_product": Row(
        "outer_product",
        outer_blocks.blocking,
        "products on targets with SME: sums in the tiles of ZA",
        pays=outer_blocks.pays,
        threaded=False,
        needs="streaming_bits",
        own_vectors=True,
    ),
    "scaled_sums": Row(
        "scaled_sums",
        scaled_blocks.blocking,
        "few rows by weights in few bits, stored row by row: sums of codes, which are scaled",
        fits=lambda spec: pays.is_plain(spec) or (not spec.gathers and scaled_blocks.fits(spec)),
        pays=scaled_blocks.pays,
        shared=scaled_blocks.in_strips,
        own_order=True,
        takes=lambda spec, call, target: False,
        axes=scaled_blocks.AXES,
    ),
    "inner_product": Row(
        "inner_product",
        along_k.inner_product_blocking,
        "few columns, or few rows and a transposed B: vectors along K",
        fits=lambda spec: _fuses_vectors(spec, along_k=True),
        pays=pays.along_k,
        own_order=True,
        takes=open_extents.takes_along_k,
        variants=open_extents.along_k,
        opened=open_extents.along_k_sizes,
        axes=space.ALONG_K,
    ),
    "streamed": Row(
        "streamed",
        streamed_blocks.streamed_blocking,
        "products with few rows and a B that no cache holds",
        fits=lambda spec: _fuses_vectors(spec, along_k=False),
        pays=pays.streaming,
        shared=streamed_blocks.in_strips,
        shares=streamed_blocks.shares,
        tile="rows",
        takes=open_extents.takes_streamed,
        variants=open_extents.streamed,
        opened=open_extents.streamed_sizes,
        axes=space.STREAMED,
    ),
    "scalable": Row(
        "scalable",
        scalable_blocks.blocking,
        "products that reuse packed panels, on vectors of any length (SVE, RVV)",
        pays=scalable_blocks.pays,
        needs="scalable_bits",
        own_vectors=True,
    ),
    "packed": Row(
        "packed",
        blocking.packed_blocking,
        "products that reuse packed panels of A and B",
        fits=lambda spec: True,
        pays=pays.packing,
        tile="panels",
        takes=open_extents.takes_packed,
        variants=open_extents.packed,
        typical=partial(blocking.packed_blocking, stands_for_open=True),
        opened=open_extents.packed_sizes,
        axes=space.PACKED,
    ),
    "unpacked": Row(
        "unpacked",
        blocking.unpacked_blocking,
        "products too small to earn packing back",
        tile="rows",
        takes=open_extents.takes_unpacked,
        variants=open_extents.unpacked,
        typical=partial(blocking.unpacked_blocking, stands_for_open=True),
        opened=open_extents.unpacked_sizes,
        axes=space.UNPACKED,
    ),
}
"""The strategies by name. A product gets the first one that fits and pays: with SME, what fills a tile of sums is for its outer products. A
product with one column and at least a vector of K has nothing to vectorize but K; with few columns, vectors along N would have empty lanes;
with few rows and a transposed B nothing else lies side by side. One with few rows and a B that comes from memory takes as long as B does.
Scalable vectors that are longer than fixed ones are for what would be packed or is too small for that. Packing, which reads and writes
each element of A and B once more than the product needs,
pays when each is then read often enough, and when the operands, unpacked, would not sit in L2 by themselves."""

_TYPICAL_ROWS = 1024
"""Rows for which the strategy is chosen where it has to be the same for all: enough that packing is repaid."""
PANELS = next(name for name, row in STRATEGIES.items() if row.tile == "panels")
"""The strategy that computes every spec."""
ALONG_K = "inner_product"
"""The strategy whose vectors are along K."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy with its sizes.

    Attributes:
        strategy: Its name, or the name of the user's function or file.
        parameters: Its sizes.
        threads: Most threads that a call uses.
    """

    strategy: str
    parameters: Blocking
    threads: int = 1


def available(target: Target) -> tuple[str, ...]:
    """The names of the strategies that a target has the features for."""
    return tuple(name for name, row in STRATEGIES.items() if not row.needs or getattr(target, row.needs))


def strategy(name: str) -> Maker:
    """The function that makes schedules of strategy `name`. It imports MLIR.

    Raises:
        ScheduleError: There is no such strategy.
    """
    return getattr(import_module(f"tilewright.schedules.cpu.{row(name).module}"), name)


def row(name: str) -> Row:
    """The row of strategy `name`.

    Raises:
        ScheduleError: There is no such strategy.
    """
    try:
        return STRATEGIES[name]
    except KeyError:
        raise ScheduleError(
            f"unknown strategy {name!r}",
            expected=f"one of {', '.join(STRATEGIES)}, a Python function, or a .py or .mlir file",
        ) from None


def is_in_panels(name: str) -> bool:
    """Whether a strategy, or whatever else is called so, packs panels for fixed vectors, as which B can come packed."""
    return name in STRATEGIES and STRATEGIES[name].tile == "panels"


def is_streaming(name: str) -> bool:
    """Whether a strategy, or whatever else is called so, computes in SME's streaming mode."""
    return name in STRATEGIES and STRATEGIES[name].needs == "streaming_bits"


def choose(spec: MatmulSpec, target: Target, overrides: Mapping[str, int] | None = None, threads: int = 1) -> Choice:
    """The strategy and sizes for `spec` on `threads` threads of `target`, the latter overridden by name.

    Raises:
        ScheduleError: An override is unknown or no int above zero.
    """
    typical = spec
    if spec.deterministic and not _agree(spec, target):
        typical = replace(spec, m=_TYPICAL_ROWS, batch=(), a_batch=(), b_batch=())
    name = first(typical, typical, target, threads)
    if spec.deterministic and STRATEGIES[name].own_order and spec.n != 1:
        name = PANELS
    return sized(name, spec, target, overrides, threads)


def first(spec: MatmulSpec, call: MatmulSpec, target: Target, threads: int = 1) -> str:
    """The name of the first strategy that fits and pays for a call of `spec`, whose spec is `call`: `spec` itself, if that is static.

    Of several `threads` it is one that they share well, but for a deterministic spec, whose sums are the same on any number of them.
    """
    in_order = spec.deterministic and spec is not call
    rows = [name for name, row in STRATEGIES.items() if not (in_order and row.own_order)]
    fitting = (name for name in rows if STRATEGIES[name].computes(spec) and STRATEGIES[name].pays(call, target))
    if threads > 1 and not spec.deterministic:
        fitting = (name for name in fitting if STRATEGIES[name].shares(call, target))
    found = next((name for name in fitting if spec is call or STRATEGIES[name].takes(spec, call, target)), PANELS)
    # Of dynamic extents no transpose is computed.
    return PANELS if found == ALONG_K and spec is call and pays.exchanging(spec, target) else found


def sized(
    name: str,
    spec: MatmulSpec,
    target: Target,
    overrides: Mapping[str, int] | None = None,
    threads: int = 1,
    *,
    typical: bool = False,
) -> Choice:
    """Strategy `name` with the sizes of its model, overridden by name; `typical` says that `spec` stands for dynamic extents.

    Raises:
        ScheduleError: The strategy or an override is unknown, or a size is no int above zero.
    """
    chosen = row(name)
    if not chosen.computes(spec):
        raise ScheduleError(
            f"strategy {name} does not fuse all that is done in {spec}",
            expected=f"strategy {' or '.join(name for name, row in STRATEGIES.items() if row.computes(spec))}",
            remedy="Leave the choice of a strategy to the model",
        )
    threads = threads if chosen.threaded else 1
    one = Blocking(mr=1, nr=1, mc=1, nc=1, kc=1).replaced(overrides or {})
    _check_lowered(name, overrides or {})
    exchanged = _exchanged(name, spec, target, overrides or {}, known=not typical)
    split = 1 if exchanged else _parts(name, spec, target, overrides or {}, whole=typical)
    how = {"parts": split, "exchanged": exchanged}
    each, _ = parts.inside(spec, replace(one, **how))
    model = (typical and chosen.typical) or chosen.sizes
    sizes = chosen.shared(model(each, target), each, target, parts.sharing(spec, split, threads))
    sizes = replace(sizes, **how)
    found = blocking.overridden(sizes, overrides or {}, spec)
    if found.threads != sizes.threads:
        raise ScheduleError(
            f"threads is {found.threads}",
            where="schedule parameters",
            expected=f"{sizes.threads}, as many as share the loops",
            remedy="Ask for other threads than by a size",
        )
    return Choice(name, found, threads)


def _parts(name: str, spec: MatmulSpec, target: Target, given: Mapping[str, int], *, whole: bool) -> int:
    """Into how many parts strategy `name` splits K, which `whole` says that it cannot.

    Raises:
        ScheduleError: Some are given that are not equal, or K cannot be split.
    """
    splits = not whole and any("parts" in axis.sizes for axis in row(name).axes)
    if "parts" not in given:
        return parts.count(spec, target) if splits else 1
    splits = splits and parts.can_split(spec)
    if given["parts"] != 1 and not (splits and parts.divides(spec, target, given["parts"])):
        raise ScheduleError(
            f"parts is {given['parts']!r}",
            where="schedule parameters",
            expected=f"what splits K = {spec.k} into equal parts of whole steps" if splits else "1",
            remedy="Leave parts to the model",
        )
    return given["parts"]


def _exchanged(name: str, spec: MatmulSpec, target: Target, given: Mapping[str, int], *, known: bool) -> int:
    """Whether strategy `name` computes the transpose: 1, or 0.

    Where a caller says sizes, but not that, they are of the product as it is. Extents have to be `known`.

    Raises:
        ScheduleError: It is asked to, and cannot.
    """
    exchanges = known and any("exchanged" in axis.sizes for axis in row(name).axes)
    if "exchanged" not in given:
        by_model = exchanges and not any(each in given for each in ("mr", "nr", "mc", "nc", "kc", "parts"))
        return int(by_model and parts.exchanges(spec, target))
    if given["exchanged"] and not (exchanges and given.get("parts", 1) == 1 and parts.can_exchange(spec, target)):
        raise ScheduleError(
            "exchanged is 1",
            where="schedule parameters",
            expected="0, or extents that are known, and a B that is stored transposed, for tile registers to read where it lies",
            remedy="Leave exchanged to the model",
        )
    rows = given.get("mr", space.AMX_ROWS)
    if given["exchanged"] and isinstance(rows, int) and rows % space.AMX_ROWS:
        raise ScheduleError(
            f"mr is {rows}",
            where="schedule parameters",
            expected=f"a multiple of {space.AMX_ROWS} with exchanged=1: sums are transposed in blocks of so many rows",
            remedy="Leave mr to the model",
        )
    return given["exchanged"]


def _agree(spec: MatmulSpec, target: Target) -> bool:
    """Whether all strategies without an order of their own add up products in the same order."""
    if spec.acc_type.kind != "float":
        return True
    if not spec.widens:
        return spec.n != 1
    dots = target.dots(*spec.multiplied)
    one = len(dots) == 1 and not target.scalable_bits and not target.streaming_bits
    # Without whole steps, `unpacked` and `streamed` widen the elements first.
    return spec.n != 1 and one and divided_by(spec.k, dots[0].step)


def check_order(name: str, spec: MatmulSpec, target: Target) -> None:
    """Checks that strategy `name`, asked for by name, keeps to what a deterministic spec promises.

    Raises:
        ScheduleError: With another M, another strategy would be chosen, and sum in another order.
    """
    if not spec.deterministic or (_agree(spec, target) and not row(name).own_order):
        return
    chosen = choose(spec, target).strategy
    if name != chosen:
        raise ScheduleError(
            f"strategy {name} adds products up in another order than {spec} does with other extents",
            where="deterministic=True",
            expected=f"strategy {chosen}",
            remedy="Leave the choice of a strategy to the model, or compile with deterministic=False",
        )


def check_sizes(name: str, spec: MatmulSpec, target: Target, given: Mapping[str, int] | None) -> None:
    """Checks sizes that a user gave: warns of a register tile that no instruction fits, which gives right numbers by slower code.

    Raises:
        ScheduleError: `kc` was given, and is no more than one step of a tile instruction, which leaves its registers no loop over k.
    """
    tile = row(name).tile
    if not tile or not given:
        return
    in_panels = tile == "panels"
    dot = target.dots(*spec.multiplied)[0 if in_panels else -1]
    if in_panels and dot.is_tile and "kc" in given and given["kc"] <= dot.step < most(spec.k):
        raise ScheduleError(
            f"kc is {given['kc']}",
            where="schedule parameters",
            expected=f"more than the {dot.step} of one tile instruction on {target.name}",
            remedy="Leave kc to the model",
        )
    units = {"mr": dot.rows, "nr": space.lanes(spec, target, in_panels=in_panels)}
    if dot.is_tile:
        # Rows are those of as few tiles as can be, each as long, and more than half full.
        rows = given.get("mr", 0)
        tiles = ceil_div(rows, space.AMX_ROWS)
        units = {"mr": tiles if 2 * rows > tiles * space.AMX_ROWS else space.AMX_ROWS, "nr": space.AMX_ROWS}
    for size, unit in units.items():
        if size in given and given[size] % unit:
            warn_slow(
                f"{size} is {given[size]}: {name} computes {spec.a_type} by {spec.b_type} on {target.name} in steps of {unit}, and"
                f" the rest by slower code; expected a multiple of {unit}. Leave {size} to the model"
            )


def whole(name: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes of strategy `name` as searches and records have them, with those that they leave out, which are the usual ones.

    A model may have others by now, or for this product, and those of a caller are filled up from it.
    """
    usual = asdict(Blocking(mr=1, nr=1, mc=1, nc=1, kc=1))
    axes = STRATEGIES[name].axes if name in STRATEGIES else ()
    return {**{each: usual[each] for axis in axes if axis.minor for each in axis.sizes}, **sizes}


def _check_lowered(name: str, given: Mapping[str, int]) -> None:
    """Checks that a strategy goes by what a user gave beside the sizes of blocks.

    Raises:
        ScheduleError: It does not.
    """
    known = sorted(each for axis in row(name).axes for each in axis.sizes if axis.minor)
    for size in (*space.LOWERED, "order", "nest"):
        if size in given and size not in known:
            raise ScheduleError(
                f"{size} is {given[size]}",
                where="schedule parameters",
                expected=f"what {name} goes by: the sizes of blocks{''.join(f', {each}' for each in known)}",
            )
