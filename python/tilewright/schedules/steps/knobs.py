# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps that say what of a schedule may vary: upstream's `transform.tune` ops, each with its options and the present choice.

A tuner changes the choice in the schedule's text, and so can anybody; MLIR refuses a choice that is none of the options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.mlir.dialects.transform import tune
from tilewright.schedules import steps
from tilewright.schedules.decisions import Decision, mnemonic, written
from tilewright.schedules.models import space
from tilewright.schedules.models.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

Options = Mapping[str, Sequence[int]]
"""What sizes may be, by name."""
NONE: Options = MappingProxyType({})
"""Nothing may vary."""


def knob(name: str, options: Sequence[int], selected: int, *, place: ir.Location | None = None) -> steps.Handle:
    """A size that may vary, for `steps.tile` and other steps that take sizes.

    In the text: ``%kc = transform.tune.knob<"kc"> = 256 : i64 from options = [128, 256, 512] -> !transform.param<i64>``.

    Args:
        name: What the tuner and its records call it.
        options: What it may be.
        selected: What it is, one of the options.
        place: Where it is said; None: where this is called.

    Raises:
        ValueError: `selected` is no option.
    """
    if selected not in options:
        raise ValueError(f"knob {name}: {selected} selected; expected one of {', '.join(map(str, options))}")
    kind = ir.IntegerType.get_signless(64)
    # Attributes, because the binding takes a selected 0 for none.
    choices = [ir.IntegerAttr.get(kind, each) for each in options]
    chosen = ir.IntegerAttr.get(kind, selected)
    return tune.knob(transform.ParamType.get(kind), name, ir.ArrayAttr.get(choices), selected=chosen, loc=place).result


def alternatives(
    name: str, choices: Sequence[Callable[[], object]], selected: int = 0, *, handles: int = 0
) -> list[steps.Handle]:
    """Steps of which one or another is taken: `choices` are functions that build them, `selected` is the number of the one taken.

    With `handles`, each returns so many handles to ops, for steps after it, and the function those of what is taken.

    In the text: ``transform.tune.alternatives<"order"> selected_region = 0 { ... }, { ... }``.

    Raises:
        ValueError: There is no alternative of that number.
    """
    if not 0 <= selected < len(choices):
        raise ValueError(f"alternatives {name}: {selected} selected; expected one from 0 to {len(choices) - 1}")
    kinds = [transform.AnyOpType.get()] * handles
    op = tune.alternatives(kinds, name, len(choices), selected_region=selected)
    for region, build in zip(op.regions, choices, strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            built: Any = build()
            transform.YieldOp(built if handles else [])
    return list(op.results)


def ordered(spec: MatmulSpec, now: Blocking, nest: Callable[[bool], steps.Handle], *, both: bool) -> steps.Handle:
    """Two loops, either of which may be the outer one: `nest` builds them, the other way round if it is told so, and returns a handle.

    With `both` loops there, and extents that are known, their order is left open, as `now` has it. Of dynamic extents it is fixed.
    """
    if spec.dynamic or not both:
        return nest(bool(spec.dynamic and now.order))
    [found] = alternatives("order", [lambda: [nest(False)], lambda: [nest(True)]], now.order, handles=1)
    return found


def permuted(
    loops: Sequence[str], build: Callable[[Sequence[str]], list[steps.Handle]], number: int, *, handles: int = 0
) -> list[steps.Handle]:
    """Steps for each order of some loops over blocks, of which order `number` is taken: `build` makes them, and returns so many handles.

    Orders are counted as `itertools.permutations` does: 0 is that of `loops`. Steps of several places that depend on it are one choice.

    Raises:
        ScheduleError: There is no order of that number.
    """
    orders = list(itertools.permutations(loops))
    if number >= len(orders):
        raise ScheduleError(
            f"nest is {number}",
            where="schedule parameters",
            expected=f"at most {len(orders) - 1}: the loops over blocks are {', '.join(loops) or 'as they have to be'}",
        )
    if len(orders) == 1:
        return build(loops)
    return alternatives("nest", [partial(build, each) for each in orders], number, handles=handles)


def lower_by(functions: steps.Handle, name: str, size: steps.Size) -> None:
    """Gives the lowering of functions a number: what ``unroll``, ``ahead`` and ``across`` of a strategy's sizes say.

    Before: ``func.func @matmul(...)``. After ``lower_by(functions, "unroll", 2)``::

        func.func @matmul(...) attributes {tilewright.unroll = 2 : i64}
    """
    if isinstance(size, int):
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size)
        size = transform.ParamConstantOp(transform.ParamType.get(number.type), number).result
    transform.annotate(functions, f"tilewright.{name}", param=size)


def sizes(
    axes: Sequence[space.Axis],
    spec: MatmulSpec,
    target: Target,
    now: Blocking,
    functions: steps.Handle,
    *,
    padded: bool = False,
    unit_of_k: int = 1,
    fixed: bool = False,
) -> dict[str, int | steps.Handle]:
    """The sizes of a strategy by name: a knob for each that may vary while the schedule's loops stay as they are, others as they are.

    In the text, beside the knobs, a constraint between two: ``transform.match.param.cmpi lt %mr, %mc``. Sizes that the lowering of
    `functions` goes by are recorded there. Orders of loops are for the strategy to leave open (`ordered`, `permuted`).

    Args:
        axes: What the strategy's sizes may be.
        spec: What is computed.
        target: For which target.
        now: The sizes.
        functions: The payload's functions.
        padded: Whether short tiles are padded, so that it does not matter what divides an extent.
        unit_of_k: What divides every kc.
        fixed: Whether none may vary, as steps take several ops at once, of which a parameter would have to be several too.
    """
    found: dict[str, int | steps.Handle] = {**asdict(now)}
    if not (spec.dynamic or fixed):
        _open(found, axes, spec, target, now, padded=padded, unit_of_k=unit_of_k)
    own = {name for axis in axes for name in axis.sizes}  # Sizes that were made for another strategy may have more.
    for name in space.LOWERED:
        if name in own and (not isinstance(found[name], int) or name in now.by_name):
            lower_by(functions, name, found[name])
    return found


def of_options(
    sizes: Any,  # noqa: ANN401 - a strategy's sizes, a dataclass of ints and flags
    options: Options,
    parts: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The sizes of a strategy for GPUs by name: a knob for each that has several options, others as they are. Flags are knobs of 0 and 1.

    In the text, beside the knobs, that a part is no larger than what it is of: ``transform.match.param.cmpi le %wm, %bm``. `parts` names
    such pairs. A part's knob alone offers only what fits the other size.
    """
    found: dict[str, Any] = asdict(sizes)
    place: ir.Location | None = None  # That of the first one: finding it out takes longer than all else.
    for name in [each for each in found if len(options.get(each, ())) > 1]:
        found[name] = knob(name, [int(each) for each in options[name]], int(found[name]), place=place)
        place = place or found[name].owner.location
    for part, whole in parts:
        inner, outer = found[part], found[whole]
        if not isinstance(inner, int) and not isinstance(outer, int):
            transform.MatchParamCmpIOp(inner, outer, transform.MatchCmpIPredicate.le, loc=place)
    return found


def decide(op: steps.Handle, decision: Decision, options: Options = NONE) -> None:
    """Records a decision on the ops of a handle, as `steps.decide` does, with a knob for each size that has several options.

    Before: ``linalg.softmax ...``. After ``decide(softmax, OnlineSoftmax(kc=96, mr=6), {"kc": [48, 96]})``::

        linalg.softmax {tilewright.softmax = #tilewright.online_softmax<kc = 96, mr = 6, ...>} ...

    In the text, ``transform.tilewright.decide online_softmax(kc = %kc, mr = 6, ...) on %softmax``. Which sizes go together, the attribute
    and what carries it out check.

    Raises:
        ValueError: A size of the decision is none of its options.
    """
    found = of_options(decision, options)
    open_ = {name: size for name, size in found.items() if isinstance(size, ir.Value)}
    if not open_:
        steps.decide(op, decision)
        return
    names = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in open_])
    others = written({name: size for name, size in found.items() if name not in open_})
    ours.tilewright_decide(op, mnemonic(type(decision)), [*open_.values()], names, ir.Attribute.parse(f"{{{others}}}"))


def _open(
    found: dict[str, int | steps.Handle],
    axes: Sequence[space.Axis],
    spec: MatmulSpec,
    target: Target,
    now: Blocking,
    *,
    padded: bool,
    unit_of_k: int,
) -> None:
    """Makes knobs of the sizes of `found` that may vary; all as `sizes` has them."""
    extents: dict[str, Any] = {"mr": spec.m, "mc": spec.m, "nr": spec.n, "nc": spec.n, "kc": spec.k}
    around: dict[str, Any] = {"mr": now.mc, "nr": now.nc}
    inside = {"mc": now.mr, "nc": now.nr, "kc": unit_of_k}
    for axis in axes:
        for name in axis.sizes:
            size, unit = getattr(now, name), inside.get(name, 1)
            options = space.along(axis, name, spec, target, now)
            if name in extents:
                options = space.kept(options, size, extents[name], padded=padded)
                options = space.kept(options, size, around.get(name, extents[name]), padded=padded)
                options = [each for each in options if (each % unit == 0) == (size % unit == 0)]
            if len(options) > 1 and name not in space.FIXED:
                found[name] = knob(name, options, size)
    predicates = transform.MatchCmpIPredicate
    for small, large in (("mr", "mc"), ("nr", "nc")):
        # One knob alone offers only what fits the other size. Two together have this constraint, on which the loops depend.
        inner, outer, less = found[small], found[large], getattr(now, small) < getattr(now, large)
        if not isinstance(inner, int) and not isinstance(outer, int):
            transform.MatchParamCmpIOp(inner, outer, predicates.lt if less else predicates.ge)
