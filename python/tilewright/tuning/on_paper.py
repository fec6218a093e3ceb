# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks sizes of a GPU's strategy without a card: by a model, and by what the assembler says of their registers.

Nothing of it is measured, so nothing of it is recorded, and compilation does not look at it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from tilewright.codegen.gpu import open_sizes
from tilewright.emit.gpu_problem import able, planned
from tilewright.errors import SpecError, TargetError, TilewrightError, UnverifiedWarning, WrongResultError
from tilewright.operator_specs import AttentionSpec, Conv2dSpec
from tilewright.payload.spec_tables import Spec
from tilewright.runtime import gpu, verification
from tilewright.runtime.gpu import GpuKernel
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget
from tilewright.tuning import gpu_cost

_VARIED = ("bm", "kc")
"""Sizes of attention that the model, or the assembler's figures, tell apart."""
_FACTORS = (0.5, 1.0, 2.0)
_CHECKED = 3
"""The numbers of sizes are tried, the likeliest first, until those of so many are not wrong."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Sizes of a strategy.

    Attributes:
        strategy: Its name.
        sizes: Those that differ from what compilation takes by itself; all of them where it would choose others then. Of a schedule of the
            user's, what its knobs and alternatives are.
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
    require_static(spec)
    assert isinstance(spec, MatmulSpec | Conv2dSpec | AttentionSpec), "all specs that there are"
    name, start = able(spec, target)[0], time.monotonic()
    refused: list[str] = []
    found = [_compiled(spec, target, name, {}, planned(spec, target, name, {})[0])]
    for made in _ordered(spec, target, name):
        if time.monotonic() - start > seconds:
            break
        given = _given(spec, target, name, made)
        try:
            found.append(_compiled(spec, target, name, given, made))
        except TilewrightError as error:  # Sizes that do not go with these types, or that do not fit.
            refused.append(str(error))
        tell(min((time.monotonic() - start) / seconds, 1.0))
    return tried(found, refused, lambda each: _checked(spec, target, each))


def require_static(spec: Spec) -> None:
    """Raises `SpecError` for what has dynamic extents, or is empty."""
    if spec.dynamic or spec.is_empty:
        raise SpecError(f"{spec} cannot be ranked", where="tune", expected="static extents above zero")


def tried(found: list[Ranked], refused: list[str], check: Callable[[Ranked], Ranked]) -> Ranking:
    """Sizes in order, of which `check` has tried the likeliest."""
    found = sorted(found, key=_rank)
    some: list[Ranked] = []
    while len(some) < len(found) and sum(each.right is not False for each in some) < _CHECKED:
        some.append(check(found[len(some)]))
    return Ranking(sorted([*some, *found[len(some) :]], key=_rank), refused)


def _rank(each: Ranked) -> tuple[bool, bool, float]:
    """The key by which sizes are sorted: those of which the model predicts the same stay in order, the usual ones first."""
    return each.right is False, bool(each.spills), each.cycles


def _ordered(spec: Any, target: GpuTarget, name: str) -> list[Any]:  # noqa: ANN401 - of GPUs
    """Other sizes than the usual ones, the likeliest first."""
    usual = planned(spec, target, name, {})[0]
    found = dict.fromkeys(each for each in _others(spec, target, name, usual) if each != usual)
    return sorted(found, key=lambda each: gpu_cost.cycles(spec, target, each))


def _others(spec: Any, target: GpuTarget, name: str, usual: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """What the axes of a product's strategy offer; of attention, halves and doubles of the usual sizes."""
    if not isinstance(spec, AttentionSpec):
        yield from open_sizes.every(name, gpu_cost.product(spec), target, usual)
        return
    sizes = {each: getattr(usual, each) for each in _VARIED}
    for factors in product(_FACTORS, repeat=len(sizes)):
        changed = {each: int(size * factor) for (each, size), factor in zip(sizes.items(), factors, strict=True)}
        with suppress(TilewrightError):
            yield planned(spec, target, name, changed)[0]


def _given(spec: Any, target: GpuTarget, name: str, made: Any) -> dict[str, int]:  # noqa: ANN401 - as above
    """What to give by name for sizes: what differs from the usual ones, or all of them where the others would be chosen otherwise."""
    usual = planned(spec, target, name, {})[0]
    every = {each: size for each, size in asdict(made).items() if isinstance(size, int)}
    differing = {each: int(size) for each, size in every.items() if size != getattr(usual, each)}
    with suppress(TilewrightError):
        if planned(spec, target, name, differing)[0] == made:
            return differing
    return {each: int(size) for each, size in every.items()}


def _compiled(spec: Any, target: GpuTarget, name: str, given: Mapping[str, int], made: Any) -> Ranked:  # noqa: ANN401 - as above
    kernel = gpu.compile(spec, target, name if given else None, given, cache=True)
    return ranked(kernel, name, given, gpu_cost.cycles(spec, target, made))


def ranked(kernel: GpuKernel, name: str, given: Mapping[str, int], predicted: float) -> Ranked:
    """What is known of a kernel; of its registers, where there is an assembler for the target."""
    registers = spills = None
    with suppress(TargetError):
        made = kernel.assembled()
        registers, spills = made.registers, made.spill_bytes
    return Ranked(name, dict(given), predicted, registers, spills, kernel.shared_bytes)


def _checked(spec: Any, target: GpuTarget, each: Ranked) -> Ranked:  # noqa: ANN401 - as above
    compiled = partial(gpu.compile, spec, schedule=each.strategy, parameters=each.sizes, cache=True)
    return checked(spec, each, lambda emulated: compiled(target=target.emulated() if emulated else target))


def checked(spec: Any, each: Ranked, compiled: Callable[[bool], GpuKernel]) -> Ranked:  # noqa: ANN401 - as above
    """The same, tried at small extents: of products. `compiled` compiles it, for the emulator (True) or for what runs the target here."""
    if not isinstance(spec, MatmulSpec):
        return each
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            verification.verify_gpu(compiled(False), lambda: compiled(True))
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
