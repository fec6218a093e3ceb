# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warp_group_softmax`: attention on Hopper, keys and values by TMA, products by wgmma, and the choice of its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from math import prod
from types import MappingProxyType
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.schedules import steps
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu import axes
from tilewright.schedules.models import warp_group_softmax as model
from tilewright.schedules.steps import knobs
from tilewright.targets.gpu import GpuTarget

_ROWS = 64
"""Queries of a warp group."""
_UNIT = 16
"""Keys of a tile are a multiple of so many."""
_MOST_KEYS = 176
_OPEN: Mapping[str, int] = MappingProxyType({"bm": _ROWS, "kc": _UNIT, "stages": 1, "overlap": 1, "pingpong": 1})
"""The sizes that the schedule leaves open, and what divides them."""
_MOST_PARTS, _LEAST_STEPS = 8, 2
"""Parts of the keys, and blocks of keys in each, at least."""
_MANY_KEYS = 8192
"""As many keys are expected where their number is open."""
_PROCESSORS = 132
"""Multiprocessors of an H100."""
_MANY_QUERIES = 192
"""Of a block, where results leave registers for so many."""


def warp_group_softmax(spec: AttentionSpec, target: GpuTarget, sizes: WarpGroupSoftmax) -> ir.Module:
    """Builds the schedule. The sizes are all that it decides; `codegen.gpu_attention` carries it out.

    Before: ``S = Q * K^T``, ``P = softmax(scale * S + mask)``, ``O = P * V`` (decided). After, in each warp group that multiplies, of
    `bm` / 64 in a block::

        S = Q * K[0:kc]^T; P = exp(S - max(S))                  # tiles of K and V come to shared memory by another warp group
        for j in kc..keys step kc:
            begin S = Q * K[j:j+kc]^T; begin O += P * V[j-kc:j]
            P = exp(S - max(S)), O and the sums of P scaled to the new maximum
        O = (O + P * V[the last kc]) / the sums of P
    """
    with steps.script() as script:
        options = axes.near(sizes, _OPEN, lambda made: model.check(made, spec, len(spec.batch) + 1, target))
        knobs.decide(steps.match(script.functions, "linalg.softmax"), sizes, options)
    return script.module


def does(spec: AttentionSpec, target: GpuTarget) -> bool:
    """Whether the strategy computes it on a target."""
    return model.does(spec, len(spec.batch) + 1, target)


def sizes(spec: AttentionSpec, target: GpuTarget, parameters: Mapping[str, Any]) -> WarpGroupSoftmax:
    """The sizes for `spec` on a target, of which `parameters` override some.

    Raises:
        ScheduleError: A parameter is unknown, or they do not fit together, or into registers or shared memory.
    """
    known = {each.name: type(each.default) for each in fields(WarpGroupSoftmax)}
    for name, size in parameters.items():
        kind = known.get(name)
        # The command line's 0 and 1 stand for bools; the other way round, a bool is no size.
        if type(size) is not kind and not (kind is bool and type(size) is int and size in (0, 1)):
            expected = ", ".join(f"{each} ({kind.__name__})" for each, kind in known.items())
            raise ScheduleError(f"{name}={size!r}", where="schedule parameters", expected=expected)
    given = {name: known[name](size) for name, size in parameters.items()}
    made = next(_candidates(spec, target, given))
    model.check(made, spec, len(spec.batch) + 1, target)
    return made


def _candidates(spec: AttentionSpec, target: GpuTarget, given: Mapping[str, Any]) -> Iterator[WarpGroupSoftmax]:
    """Sizes that fit, those with most queries and then most keys first; behind them some that do not.

    Every key that comes to shared memory is multiplied by all queries of the block there; a block of keys that is masked in part costs
    as much as another one, so under a causal mask there are no more keys than two groups' queries.
    """
    most = min(_MOST_KEYS, 2 * _ROWS) if spec.causal else _MOST_KEYS
    if isinstance(spec.keys, int):
        most = max(_UNIT, min(most, -(-spec.keys // _UNIT) * _UNIT))
    if isinstance(spec.page, int):  # Whole pages, where they fit.
        most = max(_UNIT, most // spec.page * spec.page if spec.page <= most else most)
    least = -(-spec.queries // _ROWS) * _ROWS if isinstance(spec.queries, int) else _MANY_QUERIES
    usual = WarpGroupSoftmax(multiplied=spec.q)
    if not {"bm", "merged"} & set(given):
        usual = replace(usual, **_few(spec, most))
    for rows in (each for each in (_MANY_QUERIES, 2 * _ROWS, _ROWS) if each <= max(least, _ROWS)):
        if rows == _MANY_QUERIES and model.columns(spec) > _ROWS:
            continue  # Too few keys at a time would be left room for.
        for kc in range(most // _UNIT * _UNIT, 0, -_UNIT):
            sizes = {"bm": rows // usual.places, "kc": kc, "pingpong": rows > _ROWS, **given}
            made = replace(usual, **sizes)
            if made.pingpong and "pingpong" not in given:
                made = replace(made, pingpong=made.consumers > 1 and made.overlap)
            with suppress(ScheduleError):
                model.check(made, spec, len(spec.batch) + 1, target)
                yield made
    yield replace(usual, **given)


def _few(spec: AttentionSpec, kc: int) -> dict[str, int]:
    """For few queries, heads that share keys as rows of one tile, and parts of the keys for as many blocks as the chip has room for."""
    if not isinstance(spec.queries, int) or spec.queries > _ROWS // 2 or spec.packed:
        return {}
    fits = (
        each
        for each in range(spec.group, 0, -1)
        if spec.group % each == 0 and WarpGroupSoftmax(merged=each).places * max(spec.queries, 1) <= _ROWS
    )
    merged = 1 if spec.mask is not None else next(fits, 1)
    blocks, split = prod(spec.batch) * spec.heads // merged, 1
    keys = spec.keys if isinstance(spec.keys, int) else _MANY_KEYS
    while split < _MOST_PARTS and 2 * split * blocks <= _PROCESSORS and keys >= 2 * split * _LEAST_STEPS * kc:
        split *= 2
    return {"merged": merged, "split": split}
