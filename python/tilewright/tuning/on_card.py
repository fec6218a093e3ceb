# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the likeliest sizes of a kernel for a GPU on the card that is here, in turn with the usual ones.

Nothing of it is recorded: compilation chooses the sizes of kernels for GPUs by the model. What is fastest can be asked for by name.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from tilewright.errors import TargetError
from tilewright.payload.operators import known
from tilewright.payload.samples import of_operator
from tilewright.payload.spec_tables import Spec
from tilewright.runtime import card_calls, cards, gpu, runners
from tilewright.runtime.gpu import GpuKernel
from tilewright.runtime.trial import Difference, Trial
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget
from tilewright.tuning import on_paper
from tilewright.tuning.on_paper import Ranked, Ranking
from tilewright.tuning.race import Times

_TIMED = 10
"""The likeliest sizes that are timed."""
_ROUNDS = 15
_SAMPLE_SECONDS = 0.004
"""What a sample takes at least, so that an event's half microsecond is negligible."""
_MOST_CALLS = 1000
_SEED = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """Sizes that were timed.

    Attributes:
        ranked: The sizes, and what is known of them.
        seconds: Of a call, the median.
        times: Its samples, and those of the first sizes beside each.
    """

    ranked: Ranked
    seconds: float
    times: Times


def has_card(target: GpuTarget) -> bool:
    """Whether a card of this machine runs the target's kernels."""
    try:
        return runners.of(target).kind == "card" and bool(cards.find(target))
    except TargetError:
        return False


def measure(
    spec: Spec, target: GpuTarget, ranking: Ranking, tell: Callable[[float], object] = lambda part: None
) -> list[Measured]:
    """The likeliest sizes of a strategy's ranking, the fastest first, timed on the card in turn with the usual ones.

    Args:
        spec: What to compute.
        target: The GPU, of which there is a card.
        ranking: Sizes in order; those that are wrong, or spill registers, are left out.
        tell: Told which part is over.

    Raises:
        TargetError: The driver reports an error.
    """
    problem: Any = spec

    def compiled(each: Ranked, emulated: bool = False) -> GpuKernel:
        on = target.emulated() if emulated else target
        return gpu.compile(problem, on, each.strategy if each.sizes else None, each.sizes, cache=True)

    return compare(spec, next(each for each in ranking.found if not each.sizes), ranking, compiled, tell)


def compare(
    spec: Spec,
    first: Ranked,
    ranking: Ranking,
    compiled: Callable[[Ranked, bool], GpuKernel],
    tell: Callable[[float], object] = lambda part: None,
) -> list[Measured]:
    """The likeliest sizes of a ranking, the fastest first, timed in turn with those that come `first`, on the same operands.

    Numbers are checked before a time counts: those of products at small extents, as in a ranking, those of operators as they are timed.

    `compiled` gives the kernel of sizes, for the emulator (True) or not. Raises `TargetError` as `measure` does.
    """
    likely = (each for each in ranking.found if each != first and each.right is not False and not each.spills)
    operands, out = _operands(spec, compiled(first, False))
    tried = (_checked(spec, each, compiled, operands) for each in likely)
    wanted = [first, *islice((each for each in tried if each.right), _TIMED)]
    kernels = [compiled(each, False) for each in wanted]
    with ExitStack() as held:
        samples = [held.enter_context(card_calls.samples(each, operands, out)) for each in kernels]
        found = _in_turn([partial(each, _calls(each(1))) for each in samples], tell)
    measured = [
        Measured(each, statistics.median(own), Times(tuple(own), tuple(found[0]), 0.0))
        for each, own in zip(wanted, found, strict=True)
    ]
    return sorted(measured, key=lambda each: each.seconds)


def _checked(
    spec: Spec, each: Ranked, compiled: Callable[[Ranked, bool], GpuKernel], operands: Sequence[Any]
) -> Ranked:
    """Sizes that were tried; what cannot be verified stays untried."""
    if each.right is not None:
        return each
    if isinstance(spec, MatmulSpec):
        return on_paper.checked(spec, each, partial(compiled, each))
    result = compiled(each, False)(*operands)
    return replace(each, right=Difference.of(result, *known(spec, *operands)).right)


def _operands(spec: Spec, kernel: GpuKernel) -> tuple[Sequence[Any], Any]:
    """Random operands, and what is there where the result goes; None where nothing has to be."""
    if isinstance(spec, MatmulSpec):
        given = Trial.random(kernel, spec, _SEED)
        return given.inputs, given.former
    return of_operator(np.random.default_rng(_SEED), spec), None


def _calls(seconds: float) -> int:
    """The calls of a sample, of a kernel that takes so long."""
    return min(_MOST_CALLS, max(1, math.ceil(_SAMPLE_SECONDS / max(seconds, 1e-7))))


def _in_turn(samples: Sequence[Callable[[], float]], tell: Callable[[float], object]) -> list[list[float]]:
    """Seconds of each, one sample of all of them a round."""
    found: list[list[float]] = [[] for _ in samples]
    for number in range(_ROUNDS):
        for own, sample in zip(found, samples, strict=True):
            own.append(sample())
        tell((number + 1) / _ROUNDS)
    return found
