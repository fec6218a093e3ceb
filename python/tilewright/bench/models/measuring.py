# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures a whole model by several compilers in turn, each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

from tilewright import targets
from tilewright.bench import environments
from tilewright.bench.machine import describe, version
from tilewright.bench.models.cases import MODELS
from tilewright.bench.operators.results import LIMIT
from tilewright.bench.operators.results import Result as Record
from tilewright.bench.peak import Peak
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.peers import Peer
from tilewright.bench.rows import OURS as RECORDED
from tilewright.bench.rows import Rates
from tilewright.bench.timing import cores
from tilewright.bench.turns import take_turns
from tilewright.errors import TilewrightError

NAME = "models"
"""What results call the operator."""
CONTENDERS: Mapping[str, str] = MappingProxyType(
    {
        "tilewright": 'torch.compile(backend="tilewright")',
        "tilewright-frozen": "the same with frozen parameters",
        "eager": "torch as it is",
        "inductor": "torch.compile",
        "inductor-frozen": "the same with frozen parameters",
        "max-autotune": 'torch.compile(mode="max-autotune-no-cudagraphs")',
        "onnxruntime": "the model exported to ONNX",
        "onnxruntime-tilewright": "the same with kernels of ours",
    }
)
"""By name, what each is; those of `worker.COMPILERS`."""
OURS = ("tilewright", "tilewright-frozen", "onnxruntime-tilewright")
TYPES: Mapping[str, str] = MappingProxyType({"f32": "f32", "bf16": "bf16", "f16": "f16", "i4": "f32"})
"""By what is asked for, the type of activations, to whose peak rates are compared; "i4": that of weights of linear layers."""
_WORKER = "tilewright.bench.models.worker"
_SECONDS = 1800.0
"""After which a process that compiles a model counts as hung."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A model by one compiler.

    Attributes:
        name: The compiler.
        version: Its version.
        milliseconds: Of a call, the median.
        percent_of_peak: What its products take of the measured peak, the median of all rounds.
        error: Relative to eager in double precision, in the Frobenius norm.
        compile_seconds: Of the first call.
        parts: The time of a call by op: its name, milliseconds and calls.
    """

    name: str
    version: str
    milliseconds: float
    percent_of_peak: float
    error: float
    compile_seconds: float
    parts: tuple[tuple[str, float, int], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A model, measured.

    Attributes:
        model: Its name.
        size: How many tokens; 0 for images.
        dtype: The element type.
        threads: Of each contender.
        contenders: Everyone, ours first.
        absent: By contender, why it was not measured.
        rates: The samples of each, and of the measured peak, in 10⁹ operations a second.
        date: When, ISO 8601 with seconds, in UTC.
    """

    model: str
    size: int
    dtype: str
    threads: int
    contenders: tuple[Measured, ...]
    absent: Mapping[str, str]
    rates: Mapping[str, Rates]
    date: str

    @property
    def title(self) -> str:
        """What tables call it."""
        return f"{case(self.model, self.size)}, {self.dtype}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the fastest of the others the fastest of ours is; None without both."""
        ours = [each.milliseconds for each in self.contenders if each.name in OURS]
        others = [each.milliseconds for each in self.contenders if each.name not in OURS]
        return min(others) / min(ours) if ours and others else None

    @property
    def record(self) -> Record:
        """What is kept of it: rates of the fastest of ours, and of everyone else.

        Raises:
            TilewrightError: None of ours was measured.
        """
        ours = [each for each in self.contenders if each.name in OURS]
        if not ours:
            raise TilewrightError(
                f"{self.title} was measured without {', '.join(OURS[:-1])} or {OURS[-1]}", where="bench model"
            )
        best = min(ours, key=lambda each: each.milliseconds)
        others = [each for each in self.contenders if each.name not in OURS]
        shown = (*(each.name for each in others), LIMIT)
        return Record(
            operator=NAME,
            case=case(self.model, self.size),
            asked=self.dtype,
            threads=self.threads,
            target=targets.resolve("host").name,
            streams=False,
            rates={RECORDED: self.rates[best.name]} | {name: self.rates[name] for name in shown},
            versions={RECORDED: f"{version()}, {best.name}"} | {each.name: each.version for each in others},
            absent=self.absent,
            error=best.error,
            compile_seconds=best.compile_seconds,
            scratch=0,
            date=self.date,
            machine=describe(),
        )


def case(model: str, size: int) -> str:
    """What results call a model."""
    return f"{model}, {size} tokens" if size else model


class _Process(PeerProcess):
    """A contender's process."""

    def compiled(self, model: str, size: int, dtype: str) -> tuple[float, float]:
        """See `worker.Contender.load`."""
        return self._ask("load", model, size, dtype)

    def parts(self) -> list[tuple[str, float, int]]:
        """See `worker.Contender.parts`."""
        return self._ask("parts")

    def flops(self) -> int:
        """See `worker.Contender.flops`."""
        return self._ask("flops")


def _peer(name: str) -> Peer:
    def missing() -> str:
        return "no environment with models of torch"

    return Peer(name, CONTENDERS[name], environments.MODELS, lambda: None, missing, MappingProxyType({}))  # pyright: ignore[reportArgumentType]


def run(
    model: str,
    size: int,
    dtype: str,
    *,
    contenders: Sequence[str] | None = None,
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.2,
    tell: Callable[..., object] = lambda *_: None,
) -> Result:
    """Measures a model.

    Args:
        model: A name in `MODELS`.
        size: How many tokens; 0 for images.
        dtype: One of `TYPES`.
        contenders: Names in `CONTENDERS`; None: all. Eager is always there, as it counts the operations.
        threads: Of each.
        rounds: Samples of each.
        min_seconds: What a sample lasts at least.
        tell: Told how many steps are done, how many there are, and what goes on.

    Raises:
        TilewrightError: A name is unknown, or torch and the models are not installed.
    """
    _known("model", model, MODELS)
    _known("type", dtype, TYPES)
    for each in contenders or ():
        _known("contender", each, CONTENDERS)
    if environments.python(environments.MODELS) is None:
        raise TilewrightError(
            "torch and its models are not installed",
            where="bench model",
            remedy="Run `tilewright bench setup --peers models`",
        )
    names = [each for each in CONTENDERS if contenders is None or each in contenders or each == "eager"]
    on, total = cores(threads), len(names) * 2 + rounds
    absent: dict[str, str] = {}

    def after_round(done: int) -> None:
        tell(len(names) + done, total, f"round {done}")

    with ExitStack() as stack:
        members: dict[str, _Process] = {}
        firsts: dict[str, tuple[float, float]] = {}
        for done, name in enumerate(names):
            tell(done, total, f"{name} compiles")
            try:
                member = stack.enter_context(
                    closing(_Process(_peer(name), threads, on, worker=_WORKER, timeout=_SECONDS))
                )
                firsts[name] = member.compiled(model, size, dtype)
            except TilewrightError as error:
                absent[name] = str(error)
            else:
                members[name] = member
        if "eager" in absent:
            raise TilewrightError(absent["eager"], where="bench model")
        flops = members["eager"].flops()
        # As contenders take it.
        clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        peak = stack.enter_context(closing(Peak(targets.resolve("host"), (TYPES[dtype], TYPES[dtype]), on, clock)))
        rates = take_turns(
            members,
            {LIMIT: peak},
            flops=flops,
            rounds=rounds,
            min_seconds=min_seconds,
            on_cores=on,
            after_round=after_round,
        )
        measured = []
        for done, (name, member) in enumerate(members.items()):
            tell(len(names) + rounds + done, total, f"{name}: the time by op")
            own = rates[name]
            measured.append(
                Measured(
                    name,
                    member.version,
                    flops * 1e-6 / own.median,
                    100 * own.over(rates[LIMIT]),
                    firsts[name][1],
                    firsts[name][0],
                    tuple(member.parts()),
                )
            )
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Result(model, size, dtype, threads, tuple(measured), absent, rates, date)


def _known(what: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    if name not in known:
        raise TilewrightError(f"no {what} {name!r}", where="bench model", expected=f"one of {', '.join(known)}")
