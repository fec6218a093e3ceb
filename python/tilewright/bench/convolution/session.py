# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures layers: ours, every library and the machine's peak in turn, each result checked first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

import numpy as np

from tilewright import targets
from tilewright.bench.checks import CheckError
from tilewright.bench.convolution.contender import Convolver, ConvolverProcess
from tilewright.bench.convolution.layers import TYPES, ZERO_POINT, Arrays, Layer, arrays
from tilewright.bench.machine import describe
from tilewright.bench.peak import Peak
from tilewright.bench.peers import PEERS
from tilewright.bench.rows import Rates
from tilewright.bench.timing import cores
from tilewright.bench.turns import take_turns
from tilewright.errors import TilewrightError
from tilewright.operator_specs import Conv2dSpec
from tilewright.payload.epilogues import quantize
from tilewright.payload.operators import reference
from tilewright.payload.reference import relative_error
from tilewright.runtime.compile import compile as compile_kernel
from tilewright.targets import Target

OURS = "tilewright"
LIBRARIES = ("onednn", "onnxruntime")
"""Those of `libraries.LIBRARIES`, which loads what is asked for."""
_WORKER = "tilewright.bench.convolution.worker"
_TOLERANCE: Mapping[str, float] = {"f32": 1e-5, "bf16": 1e-2, "i8": 1e-2}
"""Relative errors in the Frobenius norm that every contender stays below: a few roundings of the result."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of a layer.

    Attributes:
        layer: The layer.
        asked: The type asked for.
        rates: By contender, and of the peak, in 10⁹ operations a second.
        versions: By library, what was measured.
        absent: By library, why it was not.
        error: The relative error of ours.
        compile_seconds: Of ours, with nothing cached.
        date: When.
        machine: On what.
    """

    layer: Layer
    asked: str
    rates: Mapping[str, Rates]
    versions: Mapping[str, str]
    absent: Mapping[str, str]
    error: float
    compile_seconds: float
    date: str
    machine: str


def run(
    layers: Sequence[Layer],
    asked: str,
    *,
    target: str = "host",
    libraries: Sequence[str] | None = None,
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.03,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Measures layers, all filters packed ahead of time.

    Args:
        layers: Which.
        asked: "f32", "bf16" or "i8".
        target: What ours is compiled for.
        libraries: Those that must take part; None: all that are installed.
        threads: Of each contender.
        rounds: Samples of each contender.
        min_seconds: What a sample lasts at least.
        done: Told each result.

    Raises:
        TilewrightError: The type or a library is unknown, or a library that must take part is not there.
        CheckError: A result is wrong.
    """
    if asked not in TYPES:
        raise TilewrightError(f"no layers of {asked!r}", where="bench", expected=f"one of {', '.join(TYPES)}")
    row, on = targets.resolve(target), cores(threads)
    found: list[Result] = []
    with ExitStack() as stack:
        members, absent = _members(libraries, threads, on, stack)
        a, b, _ = TYPES[asked]
        peak = Peak(row, (a, b), on)
        stack.callback(peak.close)
        for layer in layers:
            found.append(_measured(layer, asked, row, members, dict(absent), peak, threads, rounds, min_seconds, on))
            done(found[-1])
    return found


def _members(
    libraries: Sequence[str] | None, threads: int, on: Sequence[int], stack: ExitStack
) -> tuple[dict[str, ConvolverProcess], dict[str, str]]:
    """The libraries' processes, and why others are absent."""
    members, absent = {}, {}
    for name in LIBRARIES if libraries is None else libraries:
        if name not in LIBRARIES:
            raise TilewrightError(
                f"no convolutions of {name!r}", where="bench", expected=f"some of {', '.join(LIBRARIES)}"
            )
        missing = PEERS[name].missing()
        if missing and libraries is not None:
            raise TilewrightError(missing, where=f"peer {name}")
        if missing:
            absent[name] = missing
        else:
            members[name] = stack.enter_context(ConvolverProcess(PEERS[name], threads, on, worker=_WORKER))
    return members, absent


def _measured(
    layer: Layer,
    asked: str,
    target: Target,
    members: Mapping[str, ConvolverProcess],
    absent: dict[str, str],
    peak: Peak,
    threads: int,
    rounds: int,
    min_seconds: float,
    on: Sequence[int],
) -> Result:
    """One layer."""
    spec = spec_of(layer, asked)
    kernel = compile_kernel(spec, target=target, threads=threads, cache=False)
    ours = Convolver(kernel.metadata.version, partial(_bind, kernel), lambda _, operands: operands.y)
    given = arrays(layer, asked)
    expected = reference(spec, given.x, given.w)
    contenders: dict[str, Convolver | ConvolverProcess] = {OURS: ours}
    errors = {}
    for name, each in {**contenders, **members}.items():
        try:
            each.load(layer, asked)
        except TilewrightError as error:
            if name == OURS:
                raise
            absent[name] = str(error)
            continue
        contenders[name] = each
        errors[name] = _checked(name, layer, asked, each.result(), expected)
    rates = take_turns(
        contenders,  # type: ignore[arg-type] - whatever is calibrated and sampled
        {"peak": peak},
        flops=layer.flops,
        rounds=rounds,
        min_seconds=min_seconds,
        on_cores=on,
        after_round=lambda _: None,
    )
    return Result(
        layer=layer,
        asked=asked,
        rates=rates,
        versions={name: each.version for name, each in contenders.items()},
        absent=absent,
        error=errors[OURS],
        compile_seconds=kernel.metadata.compile_seconds,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=describe(),
    )


def spec_of(layer: Layer, asked: str) -> Conv2dSpec:
    """What a layer is to us."""
    a, b, c = TYPES[asked]
    entries = (quantize(layer.scale, ZERO_POINT, "u8"),) if asked == "i8" else ()
    return Conv2dSpec(
        1,
        layer.size,
        layer.size,
        layer.channels,
        layer.filters,
        layer.reach,
        layer.reach,
        a=a,
        b=b,
        c=c,
        stride=layer.stride,
        padding=layer.padding,
        w_packed=True,
        epilogue=entries,
    )


def _bind(kernel: object, layer: Layer, asked: str, operands: Arrays) -> Callable[[], object]:
    w = kernel.pack("w", operands.w)  # type: ignore[attr-defined] - a kernel of an operator
    return partial(kernel, operands.x, w, out=operands.y)  # type: ignore[arg-type]


def _checked(name: str, layer: Layer, asked: str, got: np.ndarray, expected: np.ndarray) -> float:
    """The relative error.

    Raises:
        CheckError: It is too large.
    """
    error = relative_error(got, expected)
    if not error <= _TOLERANCE[asked]:
        raise CheckError(f"{name} computes {layer} in {asked} with a relative error of {error:.2g}")
    return error


def ratios(results: Sequence[Result], name: str) -> Iterator[float]:
    """Ours over a library's, of the layers that it took part in."""
    for each in results:
        if name in each.rates:
            yield each.rates[OURS].over(each.rates[name])
