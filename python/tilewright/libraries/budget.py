# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits a library into a size: some products share the code of one for all extents, those that lose least by it for what they take.

Products that differ in their extents alone can share. Both codes of each are timed here, on the best of the targets that this machine
runs. The loss, the regret, is the time that all products then take more, of that with their own code.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright import targets as rows
from tilewright.dtypes import stored_numpy
from tilewright.errors import SpecError, TargetError
from tilewright.libraries.kernels import Source
from tilewright.libraries.objects import Compiled
from tilewright.runtime import compile as products
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

_ROUNDS = 5
_LEAST_SECONDS = 2e-4
"""Of a sample: some hundred calls of the smallest kernels."""
_SIZE = re.compile(r"([0-9]{1,12})([KM]?)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2}


def size(given: object) -> int:
    """A size in bytes: an int, or a text such as "256K" or "2M".

    Raises:
        SpecError: It is none.
    """
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if found is not None:
        given = int(found[1]) * _UNITS[found[2]]
    if not isinstance(given, int) or isinstance(given, bool) or given <= 0:
        raise SpecError(
            f"max_size is {given!r}", where="library", expected='bytes above zero, or a text such as "256K"'
        )
    return given


@dataclass(frozen=True, slots=True)
class Point:
    """A choice of the products that share code.

    Attributes:
        bytes: What all code takes, that of the architecture that takes most.
        regret: The time that the products take more than with their own code, of that time.
        shares: By the names of those that share, the product whose code serves.
    """

    bytes: int = 0
    regret: float = 0.0
    shares: Mapping[str, MatmulSpec] = field(default_factory=dict)


def forms(sources: Mapping[str, Source]) -> list[dict[str, MatmulSpec]]:
    """By name, the products whose code can serve others: first those of any M, where two differ in M alone, then of any extents.

    Only products of known extents whose entry takes three matrices share code.
    """
    found = {name: source for name, source in sources.items() if isinstance(source, MatmulSpec) and _can_share(source)}
    rows_ = {name: replace(spec, m=None) for name, spec in found.items()}
    several = Counter(rows_.values())
    return [
        {name: form for name, form in rows_.items() if several[form] > 1},
        {name: replace(spec, m=None, n=None, k=None) for name, spec in found.items()},
    ]


def _can_share(spec: MatmulSpec) -> bool:
    return not (spec.b_packed or spec.dynamic or spec.takes_tensors or spec.scalars)


def curve(
    sources: Mapping[str, Source],
    targets: Mapping[str, Sequence[Target]],
    compiled: Mapping[tuple[Source, Target], Compiled],
    calls: Mapping[str, int],
) -> list[Point]:
    """Choices, each smaller than the one before, and slower: in the first one every product has its own code.

    They come of letting one product after the other share code, those first that lose least time for the bytes of their own.

    Args:
        sources: All kernels.
        targets: By architecture.
        compiled: All kernels and all their forms for all targets.
        calls: How often a program calls kernels, by name; empty where nothing is known, so that each counts alike.

    Raises:
        TargetError: This machine runs none of the targets.
    """
    stages = forms(sources)
    target, every = _measured_on(targets), [target for own in targets.values() for target in own]
    times = {
        name: _times(sources[name], [each[name] for each in stages if name in each], target) for name in stages[-1]
    }
    weights = {name: calls.get(name, 0) if calls else 1 / own for name, (own, *_) in times.items()}
    whole = sum(weights[name] * own for name, (own, *_) in times.items()) or 1.0
    sizes = {name: sum(len(compiled[sources[name], each].object) for each in every) for name in times}
    shares: dict[str, MatmulSpec] = {}
    losses = dict.fromkeys(times, 0.0)
    points: list[Point] = []

    def add() -> None:
        taken = {name: shares.get(name, source) for name, source in sources.items()}
        most = max(_bytes(taken, own, compiled) for own in targets.values())
        if not points or most < points[-1].bytes:
            points.append(Point(most, sum(losses.values()), dict(shares)))

    add()
    for stage in stages:
        now = {
            name: weights[name] * max(times[name][-1 if stage is stages[-1] else 1] - times[name][0], 0.0) / whole
            for name in stage
        }
        for name in sorted(stage, key=lambda each: (now[each] / sizes[each], each)):
            shares[name], losses[name] = stage[name], now[name]
            add()
    return points


def _bytes(
    taken: Mapping[str, Source], targets: Sequence[Target], compiled: Mapping[tuple[Source, Target], Compiled]
) -> int:
    """The bytes of the different objects of an architecture."""
    different = {compiled[source, target].object for source in set(taken.values()) for target in targets}
    return sum(map(len, different))


def _measured_on(targets: Mapping[str, Sequence[Target]]) -> Target:
    """The best target that this machine runs.

    Raises:
        TargetError: There is none.
    """
    for own in targets.values():
        for target in own:
            if not rows.runnable(target):
                return target
    remedy = "Build the library on a machine that runs one of the targets, or without a largest size"
    raise TargetError("this machine runs none of the targets, and cannot measure", where="max_size", remedy=remedy)


def _times(spec: Source, others: Sequence[MatmulSpec], target: Target) -> tuple[float, ...]:
    """The seconds of a call of a product with its own code, and with that of others, in turn, the best of some rounds."""
    assert isinstance(spec, MatmulSpec)
    shapes = ((spec.a_shape, spec.a_stored), (spec.b_shape, spec.b_stored), (spec.c_shape, spec.c_type))
    a, b, c = (np.ones(shape, stored_numpy(kind)) for shape, kind in shapes)
    calls = [_caller(products.compile(each, target), a, b, c) for each in (spec, *others)]
    return tuple(map(min, zip(*([_sample(call) for call in calls] for _ in range(_ROUNDS)), strict=True)))


def _caller(kernel: Kernel, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Callable[[], object]:
    return lambda: kernel(a, b, out=c)


def _sample(call: Callable[[], object]) -> float:
    """The seconds of one call."""
    count, passed = 0, 0.0
    start = time.perf_counter()
    while passed < _LEAST_SECONDS:
        call()
        count += 1
        passed = time.perf_counter() - start
    return passed / count
