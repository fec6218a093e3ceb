# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses sizes and dimensions in a schedule that mean nothing, before MLIR divides by them, or makes loops that never run.

Upstream's verifiers leave most sizes alone. ``tile_using_forall tile_sizes [-1, 1, 0]`` makes a loop of no iterations, and with it
wrong numbers; ``pad_to_multiple_of [0]`` divides by zero; ``reduction_dims = [9]`` reads beyond an array. Sizes that stand in the
schedule are read there. Those that a transform parameter brings, and how many dimensions an op has, are known only when the
schedule runs, so `guarded` puts upstream's comparisons before each op that takes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.build.usedef import named
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import match
from tilewright.schedules.models.threads import MOST as MOST_THREADS

_MOST = 2**31 - 1
"""The largest size: the position after a tile of it fits the 64 bits of an index, wherever the tile starts."""
_SPELLED = {"static_sizes": "tile_sizes"}
"""Attributes that MLIR's text calls something else than their name without ``static_``."""
_ABSENT = -(2**63)
"""What stands in an array of static sizes where an operand of the op brings the size."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the sizes of an op may be.

    Attributes:
        attributes: The attributes that hold sizes, each an integer or an array of them.
        least: The least size: 0 where it means that the dimension is left alone.
        counts: Those of `attributes` that count threads, and not elements.
        some: Whether one size at least has to be above zero.
        dimensions: An attribute with dimensions of the op that it is applied to.
    """

    attributes: tuple[str, ...]
    least: int = 0
    counts: tuple[str, ...] = ()
    some: bool = False
    dimensions: str = ""

    def most(self, attribute: str) -> int:
        """The largest size in an attribute."""
        return MOST_THREADS if attribute in self.counts else _MOST


RULES = {
    "transform.structured.tile_using_for": Rule(("static_sizes",)),
    "transform.structured.tile_using_forall": Rule(
        ("static_tile_sizes", "static_num_threads"), counts=("static_num_threads",), some=True
    ),
    "transform.structured.fuse": Rule(("static_tile_sizes",)),
    "transform.structured.tile_reduction_using_for": Rule(("tile_sizes",), some=True, dimensions="reduction_dims"),
    "transform.structured.tile_reduction_using_forall": Rule(
        ("num_threads", "tile_sizes"), counts=("num_threads",), some=True, dimensions="reduction_dims"
    ),
    "transform.structured.split": Rule(("static_chunk_sizes",), least=1),
    "transform.structured.split_reduction": Rule(("split_factor",), least=1),
    "transform.structured.multitile_sizes": Rule(("target_size", "divisor"), least=1, dimensions="dimension"),
    "transform.structured.continuous_tile_sizes": Rule(("target_size",), least=1, dimensions="dimension"),
    "transform.structured.pad": Rule(("static_pad_to_multiple_of",), least=1, dimensions="padding_dimensions"),
    "transform.structured.pad_tiling_interface": Rule(("static_padding_sizes",)),
    "transform.structured.pack": Rule(("static_packed_sizes",)),
    "transform.structured.pack_greedily": Rule(("static_matmul_packed_sizes", "matmul_padded_sizes_next_multiple_of")),
    "transform.structured.vectorize": Rule(("static_vector_sizes",), least=1),
    "transform.loop.pipeline": Rule(("iteration_interval", "read_latency"), least=1),
}
"""Upstream's transform ops that take sizes, and what they may be."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A size that means nothing.

    Attributes:
        op: The transform op that takes it.
        what: What is wrong, with the size in it.
        remedy: What to do about it.
    """

    op: ir.Operation
    what: str
    remedy: str


def refusal(schedule: ir.Operation) -> Refusal | None:
    """The first size in the text of a transform module that means nothing; None when there is none."""
    for op, rule in _ruled(schedule):
        wrong = next((each for each in _dimensions(op, rule) if each < 0), None)
        if wrong is not None:
            return Refusal(op, f"{rule.dimensions} has {wrong}", "Name a dimension that the op has, counted from 0")
        for attribute in rule.attributes:
            if attribute not in op.attributes:
                continue
            sizes = _integers(op.attributes[attribute])
            if sizes.count(_ABSENT) >= len(op.operands):  # the first operand is what is tiled
                return _refused(op, rule, _ABSENT, attribute)
            for size in sizes:
                if not rule.least <= size <= rule.most(attribute) and size != _ABSENT:
                    return _refused(op, rule, size, attribute)
        if rule.some and not _sizes_above_zero(op, rule):
            return Refusal(op, "all of its sizes are 0, so that it tiles nothing", "Give one dimension a size above 0")
    return None


def _ruled(schedule: ir.Operation) -> Iterator[tuple[ir.Operation, Rule]]:
    """The ops of a transform module that take sizes, in order."""
    return ((op, RULES[op.name]) for op in named(schedule, *RULES))


def _integers(attribute: ir.Attribute) -> list[int]:
    """The integers of an attribute: itself, or those in it."""
    if isinstance(attribute, ir.IntegerAttr):
        return [attribute.value]
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    return [ir.IntegerAttr(each).value for each in ir.ArrayAttr(attribute)]


def _sizes_above_zero(op: ir.Operation, rule: Rule) -> bool:
    """Whether one of the sizes of an op is not zero, or unknown."""
    return len(op.operands) > 1 or any(any(_integers(op.attributes[a])) for a in rule.attributes if a in op.attributes)


def _refused(op: ir.Operation, rule: Rule, size: int | str, attribute: str | None = None) -> Refusal:
    most = _most_of_parameters(op, rule) if attribute is None else rule.most(attribute)
    spelled = "" if attribute is None else _SPELLED.get(attribute, attribute.removeprefix("static_"))
    where = f" in {spelled}" if spelled else ""
    alone = ", where 0 leaves a dimension alone" if rule.least == 0 else ""
    return Refusal(op, f"a size{where} is {size}", f"Give one from {rule.least} to {most}{alone}")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A transform module that fails where a size or a dimension turns out to mean nothing when it runs.

    Attributes:
        module: The module: a changed copy, or the original where nothing has to wait until it runs.
        guards: What the failure of a guard says, by its location; "{}" stands for what MLIR found.
    """

    module: ir.Operation
    guards: dict[str, Refusal]

    def refusal(self, location: str, message: str) -> Refusal | None:
        """What an error of MLIR's at a location means; None when no guard failed there."""
        guard = self.guards.get(location)
        if guard is None:
            return None
        got = re.search(r"got (-?\d+)", message)
        return replace(guard, what=guard.what.format(got[1] if got else "no integer of the right type"))


def guarded(schedule: ir.Operation) -> Guarded:
    """Lets a transform module fail where a parameter brings a size, or an op has a dimension, that means nothing.

    Before: ``tile_using_for %op tile_sizes [%size]``. After::

        foreach %size { ^bb(%each): match.param.cmpi ge %each, 0; match.param.cmpi le %each, 2147483647 }
        tile_using_for %op tile_sizes [%size]

    Before: ``multitile_sizes %op {dimension = 2}``. After::

        foreach %op { ^bb(%each): match.param.cmpi ge (match.structured.rank %each), 3 }
        multitile_sizes %op {dimension = 2}
    """
    if not any(_parameters(op) or _dimensions(op, rule) for op, rule in _ruled(schedule)):
        return Guarded(schedule, {})
    copy = schedule.clone().operation
    guards: dict[str, Refusal] = {}

    def place() -> ir.Location:
        return ir.Location.name(f"guard {len(guards)}", op.location, op.context)

    for (original, rule), (op, _) in zip(_ruled(schedule), _ruled(copy), strict=True):
        for parameter in _parameters(op):
            with place() as location, ir.InsertionPoint(op):
                _guard_sizes(parameter, rule.least, _most_of_parameters(op, rule))
            guards[str(location)] = _refused(original, rule, "{}")
        for dimension in _dimensions(op, rule):
            with place() as location, ir.InsertionPoint(op):
                _guard_dimension(op.operands[0], dimension)
            what = f"{rule.dimensions} has {dimension}, and the op has {{}} dimensions"
            guards[str(location)] = Refusal(original, what, "Name a dimension that it has, counted from 0")
    return Guarded(copy, guards)


def _parameters(op: ir.Operation) -> list[ir.Value]:
    """The operands of an op that are transform parameters."""
    return [value for value in op.operands if str(value.type).startswith(("!transform.param<", "!transform.any_param"))]


def _dimensions(op: ir.Operation, rule: Rule) -> list[int]:
    """The dimensions that an op names of the op that it is applied to."""
    return _integers(op.attributes[rule.dimensions]) if rule.dimensions in op.attributes else []


def _most_of_parameters(op: ir.Operation, rule: Rule) -> int:
    """The largest size that a parameter may bring to an op, which takes either counts or others by parameters."""
    attributes = [each for each in rule.attributes if each in op.attributes and _integers(op.attributes[each])]
    packed = getattr(op.opview, "packed_num_threads", None) is not None
    return MOST_THREADS if packed or set(attributes) & set(rule.counts) else _MOST


def _guard_sizes(parameter: ir.Value, least: int, most: int) -> None:
    """Builds the comparison of each value of a parameter with a least and a most one."""
    kind = re.fullmatch(r"!transform\.param<\w*?(\d+)>", str(parameter.type))
    bits = int(kind[1]) if kind else 64
    body = transform.ForeachOp([], [parameter]).regions[0].blocks[0]
    with ir.InsertionPoint(body):
        _compare(body.arguments[0], transform.MatchCmpIPredicate.ge, least, bits)
        _compare(body.arguments[0], transform.MatchCmpIPredicate.le, min(most, 2 ** (bits - 1) - 1), bits)
        transform.YieldOp([])


def _guard_dimension(handle: ir.Value, dimension: int) -> None:
    """Builds the comparison of how many dimensions each op of a handle has with one of them."""
    rank = transform.ParamType.get(ir.IntegerType.get_signless(64))
    body = transform.ForeachOp([], [handle]).regions[0].blocks[0]
    with ir.InsertionPoint(body):
        matched = match.MatchStructuredOp([rank], body.arguments[0])
        matcher = matched.regions[0].blocks.append(handle.type)
        with ir.InsertionPoint(matcher):
            match.MatchStructuredYieldOp([match.MatchStructuredRankOp(rank, matcher.arguments[0])])
        _compare(matched.results[0], transform.MatchCmpIPredicate.ge, dimension + 1, 64)
        transform.YieldOp([])


def _compare(value: ir.Value, predicate: transform.MatchCmpIPredicate, bound: int, bits: int) -> None:
    """Builds the comparison of a parameter with a bound; of any type, it has to be as wide as that."""
    integer = ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), bound)
    transform.MatchParamCmpIOp(value, transform.ParamConstantOp(value.type, integer), predicate)
