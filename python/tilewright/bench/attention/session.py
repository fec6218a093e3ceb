# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures attention: ours, torch's and the machine's limit in turn, each result checked first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

import numpy as np

from tilewright import targets
from tilewright.bench.attention.cases import TYPES, Case, arrays
from tilewright.bench.attention.contender import Attender, AttenderProcess
from tilewright.bench.bandwidth import working_sets
from tilewright.bench.checks import CheckError
from tilewright.bench.machine import describe
from tilewright.bench.peak import Peak, Rate, StreamPeak
from tilewright.bench.peers import PEERS
from tilewright.bench.rows import Rates
from tilewright.bench.timing import cores
from tilewright.bench.turns import take_turns
from tilewright.errors import TilewrightError
from tilewright.payload.operators import reference
from tilewright.payload.reference import relative_error
from tilewright.runtime.compile import compile as compile_kernel
from tilewright.targets.base import Target

OURS = "tilewright"
LIBRARY = "torch"
_WORKER = "tilewright.bench.attention.worker"
_TOLERANCE: Mapping[str, float] = {"f32": 1e-5, "bf16": 1e-2}
"""Relative errors in the Frobenius norm that both stay below: a few roundings of the result."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of a case.

    Attributes:
        case: The case.
        asked: The type asked for.
        rates: Of ours, of torch and of the "limit": in 10⁹ operations a second, or 10⁹ bytes a second where the case decodes.
        absent: Why torch did not take part; empty where it did.
        version: Torch's.
        error: The relative error of ours.
        compile_seconds: Of ours, with nothing cached.
        scratch: Bytes of scratch memory of ours.
        date: When.
        machine: On what.
    """

    case: Case
    asked: str
    rates: Mapping[str, Rates]
    absent: str
    version: str
    error: float
    compile_seconds: float
    scratch: int
    date: str
    machine: str


def run(
    cases: Sequence[Case],
    asked: str,
    *,
    target: str = "host",
    libraries: Sequence[str] | None = None,
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.03,
    memory: int | None = None,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Measures cases; those that decode with keys and values that come from memory.

    Args:
        cases: Which.
        asked: "f32" or "bf16".
        target: What ours is compiled for.
        libraries: ("torch",) where it must take part, () where not; None: if it is installed.
        threads: Of each contender.
        rounds: Samples of each contender.
        min_seconds: What a sample lasts at least.
        memory: Bytes of keys and values that one query goes through in turn; None: twice what the caches hold.
        done: Told each result.

    Raises:
        TilewrightError: The type or a library is unknown, or torch must take part and is not there.
        CheckError: A result is wrong.
    """
    if asked not in TYPES:
        raise TilewrightError(f"no attention of {asked!r}", where="bench", expected=f"one of {', '.join(TYPES)}")
    if set(libraries or ()) - {LIBRARY}:
        raise TilewrightError(f"no attention of {', '.join(libraries or ())}", where="bench", expected=LIBRARY)
    absent = PEERS[LIBRARY].missing() or "" if libraries != () else "not asked for"
    if absent and libraries:
        raise TilewrightError(absent, where=f"peer {LIBRARY}")
    row, on = targets.resolve(target), cores(threads)
    found: list[Result] = []
    with ExitStack() as stack:
        beside = None if absent else AttenderProcess(PEERS[LIBRARY], threads, on, worker=_WORKER)
        if beside is not None:
            stack.callback(beside.close)
        size = working_sets(row, threads)["memory"] if memory is None else memory
        limits: dict[bool, Rate] = {}
        for case in cases:
            if case.decodes not in limits:
                limit = StreamPeak(row, size, on) if case.decodes else Peak(row, (asked, asked), on)
                limits[case.decodes] = limit
                stack.callback(limit.close)
            rates = partial(_rates, limit=limits[case.decodes], rounds=rounds, min_seconds=min_seconds, on=on)
            found.append(_measured(case, asked, row, beside, absent, rates, threads, size))
            done(found[-1])
    return found


def _rates(
    contenders: Mapping[str, Attender | AttenderProcess],
    work: int,
    *,
    limit: Rate,
    rounds: int,
    min_seconds: float,
    on: Sequence[int],
) -> Mapping[str, Rates]:
    return take_turns(
        contenders,  # type: ignore[arg-type] - whatever is calibrated and sampled
        {"limit": limit},
        flops=work,
        rounds=rounds,
        min_seconds=min_seconds,
        on_cores=on,
        after_round=lambda _: None,
    )


def _measured(
    case: Case,
    asked: str,
    target: Target,
    beside: AttenderProcess | None,
    absent: str,
    rates: Callable[[Mapping[str, Attender | AttenderProcess], int], Mapping[str, Rates]],
    threads: int,
    memory: int,
) -> Result:
    """One case."""
    kernel = compile_kernel(case.spec(asked), target=target, threads=threads, cache=False)
    ours = Attender(
        kernel.metadata.version,
        lambda _, each: partial(kernel, each.q, each.k, each.v, out=each.out),  # type: ignore[arg-type]
        lambda _, each: each.out,
    )
    contenders: dict[str, Attender | AttenderProcess] = {OURS: ours, **({LIBRARY: beside} if beside else {})}
    (given,) = arrays(case, asked, 0)
    expected = reference(case.spec(asked), given.q, given.k, given.v)
    errors = {}
    for name, each in contenders.items():
        each.load(case, asked, memory)
        errors[name] = _checked(name, case, asked, each.result(), expected)
    return Result(
        case=case,
        asked=asked,
        rates=rates(contenders, case.work(asked)),
        absent=absent,
        version="" if beside is None else beside.version,
        error=errors[OURS],
        compile_seconds=kernel.metadata.compile_seconds,
        scratch=kernel.metadata.workspace_bytes,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=describe(),
    )


def _checked(name: str, case: Case, asked: str, got: np.ndarray, expected: np.ndarray) -> float:
    """The relative error.

    Raises:
        CheckError: It is too large.
    """
    error = relative_error(got, expected)
    if not error <= _TOLERANCE[asked]:
        raise CheckError(f"{name} computes {case} in {asked} with a relative error of {error:.2g}")
    return error


def ratios(results: Sequence[Result]) -> Iterator[float]:
    """Ours over torch's, of the cases that it took part in."""
    for each in results:
        if LIBRARY in each.rates:
            yield each.rates[OURS].over(each.rates[LIBRARY])
