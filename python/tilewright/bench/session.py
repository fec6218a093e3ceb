# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A session: starts all contenders once, and then measures them on one shape after another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from tilewright.bench import machine
from tilewright.bench.bandwidth import by_level
from tilewright.bench.checks import Expected, check, expect
from tilewright.bench.contender import Contender, Local
from tilewright.bench.operands import Operands, operands
from tilewright.bench.peak import Peak, StreamPeak
from tilewright.bench.peers import choose, process_environment
from tilewright.bench.rows import OURS, PLAIN, PeerResult, Rates, Row
from tilewright.bench.settings import Settings
from tilewright.bench.suites import Shape
from tilewright.bench.team import Team
from tilewright.bench.timing import cores, pinned
from tilewright.bench.turns import take_turns
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.epilogues import parse
from tilewright.schedules.select import STRATEGIES
from tilewright.spec import MatmulSpec
from tilewright.targets import require_runnable, resolve
from tilewright.targets.host import host

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel

STEPS_BEFORE = 3
"""Of a shape: compile, check and calibrate; then comes one step a round."""
_BUSY = "KMP_BLOCKTIME"


class Session:
    """The contenders and limits of a run, started once, each pinned to the same cores; a context manager that ends them."""

    def __init__(self, settings: Settings) -> None:
        """Starts the peers' processes and compiles the peak loop; raises as `run_suite` does."""
        self._settings = settings
        self._target = resolve(settings.target)
        require_runnable(self._target)
        spec = problem(Shape(1, 1, 1), settings.dtype)
        self._dtype = types_text(spec)
        present, self._absent = choose(settings.peers, settings.dtype, settings.epilogue)
        self._cores = cores(settings.threads, settings.on_cores)
        self._rotating = 2 * _last_level_cache() if settings.cache == "cold" else 0
        self._machine = machine.describe()
        self._expected: tuple[tuple[Shape, MatmulSpec, str], Expected] | None = None
        if settings.threads > 1:
            # Our own OpenMP threads end their busy waiting as soon as those of the peers must; a user's setting stays.
            os.environ.setdefault(_BUSY, process_environment(settings.threads)[_BUSY])
        with ExitStack() as stack:
            self._peak = stack.enter_context(closing(Peak(self._target, (spec.a, spec.b or spec.a), self._cores)))
            self._bandwidth = by_level(self._target, self._cores)
            team = Team(present, settings.threads, self._cores, demanded=settings.peers is not None)
            self._team = stack.enter_context(closing(team))
            self._resources = stack.pop_all()

    def __enter__(self) -> Session:
        """The session itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the peers' processes and the threads."""
        self._resources.close()

    def measure(self, shape: Shape, spec: MatmulSpec, report: Callable[[str, int], None]) -> Row:
        """One shape's row; `report` is told each stage and how many steps of the shape lie behind."""
        settings = self._settings
        report("compile", 0)
        kernel, cached_seconds = self._compile(spec)
        report("check", 1)
        members, left_out = self._team.members(shape, settings.dtype, spec.b_packed, spec.layout)
        ours = _local(OURS, kernel)
        errors = {OURS: self._check(ours, shape, spec, types_text(spec, whole=True))}
        contenders: dict[str, Contender] = {OURS: ours}
        if spec.epilogue:
            contenders[PLAIN], errors[PLAIN] = self._plain(shape, replace(spec, c=None, epilogue=()))
        for name, (peer, types) in members.items():
            try:
                errors[name] = self._check(peer, shape, spec, types)
                contenders[name] = peer
            except TilewrightError as error:
                left_out[name] = self._team.fail(name, error)
        report("calibrate", 2)
        matrices = [*((each.shape, each.type) for each in spec.operands), (spec.c_shape, spec.c_type)]
        moved = sum(prod(extents) * kind.bytes for extents, kind in matrices)
        with closing(StreamPeak(self._target, max(moved, self._rotating), self._cores)) as stream:
            rates = measured_again_if_impossible(
                lambda: take_turns(
                    contenders,
                    {"peak": self._peak, "stream": stream},
                    flops=shape.flops,
                    rounds=settings.rounds,
                    min_seconds=settings.min_seconds,
                    on_cores=self._cores,
                    after_round=lambda done: report("round", STEPS_BEFORE + done),
                )
            )
        peers: dict[str, PeerResult] = {}
        for name, each in contenders.items():
            each.unload()
            if name != OURS:
                peers[name] = PeerResult(rates[name], each.version, errors[name])
            if name in members:
                self._team.remember(name, rates[name], rates[OURS])
        return Row(
            shape=shape,
            dtype=self._dtype,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            machine=self._machine,
            version=machine.version(),
            layout=spec.layout,
            threads=settings.threads,
            target=self._target.name,
            packed=spec.b_packed,
            epilogue=settings.epilogue,
            cache=settings.cache,
            ours=rates[OURS],
            peak=rates["peak"],
            stream=rates["stream"],
            bytes_moved=moved,
            bandwidth=self._bandwidth,
            peers=peers,
            absent={**self._absent, **left_out},
            rel_error=errors[OURS],
            compile_seconds=kernel.metadata.compile_seconds,
            cached_seconds=cached_seconds,
            object_bytes=kernel.metadata.object_bytes,
            schedule=_describe(kernel),
        )

    def _plain(self, shape: Shape, spec: MatmulSpec) -> tuple[Local, float]:
        """Our product without an epilogue, and its relative error."""
        kernel, _ = self._compile(spec)
        plain = _local(PLAIN, kernel)
        return plain, self._check(plain, shape, spec, types_text(spec, whole=True))

    def _compile(self, spec: MatmulSpec) -> tuple[Kernel, float | None]:
        """The kernel, compiled anew, and the seconds that a second compilation takes which finds it in the cache."""
        from tilewright.runtime.compile import compile as compile_kernel

        settings = self._settings
        again = partial(
            compile_kernel,
            spec,
            target=self._target,
            threads=settings.threads,
            schedule=settings.schedule,
            parameters=settings.parameters,
        )
        kernel = again(cache=False)
        again(cache=True)
        start = time.perf_counter()
        cached = again(cache=True)
        return kernel, time.perf_counter() - start if cached.metadata.cached else None

    def _check(self, contender: Contender, shape: Shape, spec: MatmulSpec, types: str) -> float:
        """Loads a contender and returns the relative error of its product.

        Raises:
            CheckError: An element is further from the reference than measuring.md's bound.
        """
        settings = self._settings
        epilogue = settings.epilogue if spec.epilogue else ""
        narrow = types.split(",")[2] if contender.name not in (OURS, PLAIN) and spec.epilogue else ""
        product = narrow if narrow != spec.acc else ""
        if self._expected is None or self._expected[0] != (shape, spec, product):
            given = operands(shape, types_text(spec, whole=True), settings.seed, epilogue, spec.layout)
            self._expected = ((shape, spec, product), expect(spec, given, product))
        expected = self._expected[1]
        with pinned(self._cores):
            packs = contender.name not in (OURS, PLAIN) and spec.b_packed
            contender.load(shape, types, settings.seed, self._rotating, packs, epilogue, spec.layout)
            got = contender.result()
        return check(contender.name, got, expected.product, expected.bound(types.split(",")[2]))


def measured_again_if_impossible(measure: Callable[[], Mapping[str, Rates]]) -> Mapping[str, Rates]:
    """Calls `measure`, and again if our rate is above the peak, because one of the two was disturbed. The second result counts."""
    rates = measure()
    return measure() if rates[OURS].over(rates["peak"]) > 1 else rates


def problem(shape: Shape, dtype: str, packed: bool = False, epilogue: str = "", layout: str = "nn") -> MatmulSpec:
    """The spec of a shape.

    Raises:
        SpecError: It is no work, or the element types do not go together.
    """
    if shape.flops == 0:
        raise SpecError(f"{shape} is no work", where="bench", expected="extents of at least 1")
    entries = parse(epilogue) if epilogue else ()
    how = {"b_packed": packed, "epilogue": entries, "layout": layout, "batch": shape.batch}
    return MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, dtype, **how)


def types_text(spec: MatmulSpec, *, whole: bool = False) -> str:
    """The element types as the command line writes them: "bf16" where that says all, else (or when `whole`) "a,b,c"."""
    short = spec.b == spec.a and spec.c == spec.a_type.accumulator
    return spec.a if short and not whole else f"{spec.a},{spec.b},{spec.c}"


def _local(name: str, kernel: Kernel) -> Local:
    """Our kernel as a contender."""
    return Local(name, kernel.metadata.version, lambda each: _bind(kernel, each))


def _bind(kernel: Kernel, each: Operands) -> Callable[[], object]:
    """A call; operands are stored as it takes them."""
    a, b = (
        array.swapaxes(-1, -2) if stored == "t" else array
        for stored, array in zip(kernel.spec.layout, (each.a, each.b), strict=True)
    )
    return partial(kernel, a, kernel.pack_b(b) if kernel.spec.b_packed else b, *each.further, out=each.c)


def _describe(kernel: Kernel) -> str:
    facts = kernel.metadata
    values = ", ".join(f"{name}={value}" for name, value in facts.parameters.items())
    given = "" if facts.schedule in STRATEGIES else "given "  # A user's function may ignore them.
    return f"{facts.schedule}({given}{values})" if values else facts.schedule


def _last_level_cache() -> int:
    machine = host()
    return (machine.l3 or machine.l2).bytes
