# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks sizes of a GPU's strategy without a card: by a model, and by what the assembler says of their registers.

Nothing of it is measured, so nothing of it is recorded, and compilation does not look at it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

from tilewright.dims import most
from tilewright.dtypes import dtype
from tilewright.emit.gpu_problem import able, planned
from tilewright.errors import SpecError, TargetError, TilewrightError, UnverifiedWarning, WrongResultError
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.conv2d_products import of_launch
from tilewright.payload.spec_tables import Spec
from tilewright.runtime import gpu, verification
from tilewright.runtime.gpu import GpuKernel
from tilewright.schedules.gpu import warpgroup_sizes, warpgroup_time
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_VARIED = ("bm", "bn", "kc")
"""Sizes that the model, or the assembler's figures, tell apart where a strategy has no model of its own."""
_FACTORS = (0.5, 1.0, 2.0)
_CHECKED = 3
"""The numbers of sizes are tried, the likeliest first, until those of so many are not wrong."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Sizes of a strategy.

    Attributes:
        strategy: Its name.
        sizes: Those that differ from what compilation takes by itself; all of them where it chooses by the same model.
        cycles: What the model predicts, of the whole chip. It compares sizes of one product, and is no time.
        registers: 32-bit registers of a thread; None where there is no assembler.
        spills: Bytes of them in memory, likewise.
        shared_bytes: Bytes of shared memory of a block.
        right: Whether the numbers were right, in the emulator or on what runs the target here, at small extents; None where that was not
            tried.
    """

    strategy: str
    sizes: Mapping[str, int]
    cycles: float
    registers: int | None
    spills: int | None
    shared_bytes: int
    right: bool | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The sizes of a strategy in order.

    Attributes:
        found: The likeliest first; what spills registers, or is wrong, comes last.
        refused: Why others do not compile, the likeliest first.
    """

    found: list[Ranked]
    refused: list[str]


def rank(spec: Spec, target: GpuTarget, seconds: float, tell: Callable[[float], object] = lambda part: None) -> Ranking:
    """The sizes of the strategy that computes `spec` on a GPU.

    Args:
        spec: What to compute, of static extents.
        target: The GPU.
        seconds: How long it may take, about: the likeliest are compiled first.
        tell: Told which part of that is over.

    Raises:
        SpecError: `spec` has dynamic extents, or is not done on GPUs.
        TilewrightError: The usual sizes do not compile.
    """
    if spec.dynamic or spec.is_empty:
        raise SpecError(f"{spec} cannot be ranked", where="tune", expected="static extents above zero")
    assert isinstance(spec, MatmulSpec | Conv2dSpec | AttentionSpec), "all specs that there are"
    name, start = able(spec, target)[0], time.monotonic()
    refused: list[str] = []
    found = [_compiled(spec, target, name, {}, planned(spec, target, name, {})[0])]
    for made, given in _ordered(spec, target, name):
        if time.monotonic() - start > seconds:
            break
        try:
            found.append(_compiled(spec, target, name, given, made))
        except TilewrightError as error:  # Sizes that do not go with these types, or that do not fit.
            refused.append(str(error))
        tell(min((time.monotonic() - start) / seconds, 1.0))
    found.sort(key=_rank)
    tried: list[Ranked] = []
    while len(tried) < len(found) and sum(each.right is not False for each in tried) < _CHECKED:
        tried.append(_checked(spec, target, found[len(tried)]))
    return Ranking(sorted([*tried, *found[len(tried) :]], key=_rank), refused)


def _rank(each: Ranked) -> tuple[bool, bool, float]:
    """The key by which sizes are sorted: those of which the model predicts the same stay in order, the usual ones first."""
    return each.right is False, bool(each.spills), each.cycles


def _ordered(spec: Any, target: GpuTarget, name: str) -> Iterable[tuple[Any, dict[str, int]]]:  # noqa: ANN401 - of GPUs
    """Other sizes than the usual ones, and what to give for them, the likeliest first."""
    found: dict[Any, dict[str, int]] = {}
    usual = planned(spec, target, name, {})[0]
    for given in _given(spec, target, usual):
        try:
            made = planned(spec, target, name, given)[0]
        except TilewrightError:
            continue
        if made != usual:
            found.setdefault(made, given)
    return sorted(found.items(), key=lambda each: _cycles(spec, target, each[0]))


def _given(spec: Any, target: GpuTarget, usual: Any) -> Iterator[dict[str, int]]:  # noqa: ANN401 - as above
    """Sizes by name: those that a strategy's own model compares, or halves and doubles of the usual ones."""
    if isinstance(usual, WarpGroupTile):
        for each in warpgroup_sizes.ranked(spec if isinstance(spec, MatmulSpec) else of_launch(spec), target):
            yield {name: int(size) for name, size in asdict(each).items()}
        return
    sizes = {name: size for name, size in asdict(usual).items() if name in _VARIED}
    for factors in product(_FACTORS, repeat=len(sizes)):
        changed = {name: int(size * factor) for (name, size), factor in zip(sizes.items(), factors, strict=True)}
        yield {name: size for name, size in changed.items() if size != sizes[name]}


def _cycles(spec: Any, target: GpuTarget, made: Any) -> float:  # noqa: ANN401 - as above
    """What the model predicts: that of the strategy, or the bytes that come from the L2 cache, in rounds of blocks."""
    if isinstance(spec, AttentionSpec):
        blocks = prod(spec.batch) * spec.heads * -(-most(spec.queries) // made.bm)
        bytes_ = most(spec.keys) * (spec.head * dtype(spec.k).bytes + spec.value_head * dtype(spec.v).bytes)
        return (
            _rounds(target, blocks)
            * (bytes_ + made.bm * spec.head * dtype(spec.q).bytes)
            / warpgroup_time.L2_BYTES_EACH
        )
    inner = spec if isinstance(spec, MatmulSpec) else of_launch(spec)
    if isinstance(made, WarpGroupTile) and (known := warpgroup_sizes.predicted(inner, made)) is not None:
        return known
    m, n, k, *batch = (most(each) for each in (inner.m, inner.n, inner.k, *inner.batch))
    blocks = -(-m // made.bm) * -(-n // made.bn) * prod(batch)
    deep = -(-k // made.bk) * made.bk
    return (
        _rounds(target, blocks)
        * deep
        * (made.bm * inner.a_stored.bits + made.bn * inner.b_stored.bits)
        / 8
        / warpgroup_time.L2_BYTES_EACH
    )


def _rounds(target: GpuTarget, blocks: int) -> int:
    """How many blocks one multiprocessor has after another; all of them where it is not known how many there are."""
    return -(-blocks // max(target.processors, 1))


def _compiled(spec: Any, target: GpuTarget, name: str, given: Mapping[str, int], made: Any) -> Ranked:  # noqa: ANN401 - as above
    kernel = gpu.compile(spec, target, name if given else None, given, cache=True)
    registers, spills = _registers(kernel)
    return Ranked(name, dict(given), _cycles(spec, target, made), registers, spills, kernel.shared_bytes)


def _registers(kernel: GpuKernel) -> tuple[int | None, int | None]:
    """Registers and bytes of spills, where there is an assembler for the target."""
    try:
        made = kernel.assembled()
    except TargetError:
        return None, None
    return made.registers, made.spill_bytes


def _checked(spec: Any, target: GpuTarget, each: Ranked) -> Ranked:  # noqa: ANN401 - as above
    """The same, tried at small extents: of products."""
    if not isinstance(spec, MatmulSpec):
        return each
    compiled = partial(gpu.compile, spec, schedule=each.strategy, parameters=each.sizes, cache=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            verification.verify_gpu(compiled(target=target), lambda: compiled(target=target.emulated()))
            right = True
        except WrongResultError:
            right = False
    unverified = False
    for one in caught:
        if issubclass(one.category, UnverifiedWarning):
            unverified = True
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)
    return each if right and unverified else replace(each, right=right)
