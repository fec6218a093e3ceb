# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run: every shape is compiled, checked, and timed beside the peers and the measured peak, in turn, round by round."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.bench import machine
from tilewright.bench.bandwidth import by_level
from tilewright.bench.checks import Expected, check, expect
from tilewright.bench.contender import Contender, Local
from tilewright.bench.operands import Operands, operands
from tilewright.bench.peak import Peak, StreamPeak
from tilewright.bench.peers import choose, process_environment
from tilewright.bench.rows import PeerResult, Row
from tilewright.bench.settings import Settings
from tilewright.bench.suites import Shape
from tilewright.bench.team import Team
from tilewright.bench.timing import Cache, cores, pinned
from tilewright.bench.turns import take_turns
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.reference import relative_error
from tilewright.spec import MatmulSpec
from tilewright.targets import Target, require_runnable, resolve
from tilewright.targets.host import host

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel

OURS = "tilewright"
"""Our own name among the contenders."""

_STEPS_BEFORE = 3  # compile, check and calibrate; then one step a round


@dataclass(frozen=True, slots=True)
class Event:
    """Where a run is; told between samples.

    Attributes:
        shape: The shape that is being measured.
        stage: "compile", "check", "calibrate", "round", or "done" when the shape is finished.
        done: Steps of the whole run that are behind us.
        total: All steps of the run.
        row: The finished row when the stage is "done", else None.
    """

    shape: Shape
    stage: str
    done: int
    total: int
    row: Row | None = None


def run_suite(
    shapes: Iterable[Shape],
    dtype: str = "f32",
    *,
    threads: int = 1,
    target: str | Target = "host",
    peers: Iterable[str] | None = None,
    rounds: int = 7,
    schedule: Any = None,  # noqa: ANN401 (whatever tilewright.compile takes)
    parameters: Mapping[str, int] | None = None,
    cache: Cache = "hot",
    packed: bool = False,
    min_seconds: float = 0.03,
    on_cores: Iterable[int] | None = None,
    seed: int = 0,
    progress: Callable[[Event], None] | None = None,
) -> list[Row]:
    """Measures our kernels on `shapes` beside the peers and the peak.

    Args:
        shapes: What to multiply; without batches.
        dtype: One element type for A, B and C ("f32"), or the three separated by commas.
        threads: For us and for each peer alike.
        target: What our kernels and the peak loop are compiled for; this machine must be able to run it.
        peers: Those that must take part; None: all that are installed, and one that fails or computes wrong numbers is left
            out, with the reason in `Row.absent`.
        rounds: How often each contender is sampled, at least 1; publish nothing from fewer than 7.
        schedule: As for `tilewright.compile`.
        parameters: As for `tilewright.compile`.
        cache: "hot": the same operands in every call. "cold": operands rotate through twice the last-level cache.
        packed: Whether B is packed ahead of time, by us and by each peer; peers that cannot are left out.
        min_seconds: What a sample lasts at least.
        on_cores: Processors to pin everyone to, one a thread; None: chosen by `timing.cores`.
        seed: Of the operands' values.
        progress: Called between samples.

    Returns:
        A row for each shape, in order.

    Raises:
        SpecError: A shape, the element type or a number here cannot be.
        TargetError: This machine cannot run `target`, or has too few cores.
        CheckError: Ours, or a demanded peer, computed wrong numbers.
        TilewrightError: A demanded peer is absent, or its process failed.
    """
    settings = Settings(
        dtype=dtype,
        threads=threads,
        target=target,
        peers=None if peers is None else tuple(peers),
        rounds=rounds,
        schedule=schedule,
        parameters=parameters,
        cache=cache,
        min_seconds=min_seconds,
        on_cores=None if on_cores is None else tuple(on_cores),
        seed=seed,
    )
    every = [(shape, problem(shape, dtype, packed)) for shape in shapes]
    steps = _STEPS_BEFORE + rounds
    total = steps * len(every)
    tell = progress or (lambda event: None)
    rows: list[Row] = []
    with Session(settings) as session:
        for index, (shape, spec) in enumerate(every):
            rows.append(
                session.measure(
                    shape,
                    spec,
                    lambda stage, step, at=index * steps, of=shape: tell(Event(of, stage, at + step, total)),
                )
            )
            tell(Event(shape, "done", (index + 1) * steps, total, rows[-1]))
    return rows


class Session:
    """The contenders and limits of a run, started once, each pinned to the same cores; a context manager that ends them."""

    def __init__(self, settings: Settings) -> None:
        """Starts the peers' processes and compiles the peak loop; raises as `run_suite` does."""
        self._settings = settings
        self._target = resolve(settings.target)
        require_runnable(self._target)
        spec = problem(Shape(1, 1, 1), settings.dtype)
        self._dtype = types_text(spec)
        present, self._absent = choose(settings.peers, settings.dtype)
        self._cores = cores(settings.threads, settings.on_cores)
        self._rotating = 2 * _last_level_cache() if settings.cache == "cold" else 0
        self._machine = machine.describe()
        self._expected: tuple[Shape, Expected] | None = None
        if settings.threads > 1:
            _wait_like_the_peers(settings.threads)
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
        members, left_out = self._team.members(shape, settings.dtype, spec.b_packed)
        ours = Local(OURS, kernel.metadata.version, partial(_bind_packed if spec.b_packed else _bind, kernel))
        errors = {OURS: self._check(ours, shape, spec, types_text(spec, whole=True))}
        contenders: dict[str, Contender] = {OURS: ours}
        for name, (peer, types) in members.items():
            try:
                errors[name] = self._check(peer, shape, spec, types)
                contenders[name] = peer
            except TilewrightError as error:
                left_out[name] = self._team.fail(name, error)
        report("calibrate", 2)
        moved = sum(rows * columns * kind.bytes for (rows, columns), kind in _matrices(spec))
        with closing(StreamPeak(self._target, max(moved, self._rotating), self._cores)) as stream:
            rates = take_turns(
                contenders,
                {"peak": self._peak, "stream": stream},
                flops=shape.flops,
                rounds=settings.rounds,
                min_seconds=settings.min_seconds,
                on_cores=self._cores,
                after_round=lambda done: report("round", _STEPS_BEFORE + done),
            )
        peers: dict[str, PeerResult] = {}
        for name, each in contenders.items():
            each.unload()
            if name != OURS:
                peers[name] = PeerResult(rates[name], each.version, errors[name])
                self._team.remember(name, rates[name], rates[OURS])
        return Row(
            shape=shape,
            dtype=self._dtype,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            machine=self._machine,
            layout=spec.layout,
            threads=settings.threads,
            target=self._target.name,
            packed=spec.b_packed,
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
        if self._expected is None or self._expected[0] != shape:
            self._expected = (shape, expect(spec, operands(shape, types_text(spec, whole=True), settings.seed)))
        expected = self._expected[1]
        with pinned(self._cores):
            contender.load(shape, types, settings.seed, self._rotating, contender.name != OURS and spec.b_packed)
            got = contender.result()
        check(contender.name, got, expected.product, expected.bound(types.split(",")[2]))
        return relative_error(got, expected.product)


def problem(shape: Shape, dtype: str, packed: bool = False) -> MatmulSpec:
    """The spec of a shape, or why it cannot be measured.

    Raises:
        SpecError: It is batched or no work, or the element types do not go together.
    """
    if shape.batch:
        raise SpecError(f"{shape} is batched", where="bench", expected="one product; batches are not done yet")
    if shape.flops == 0:
        raise SpecError(f"{shape} is no work", where="bench", expected="extents of at least 1")
    return MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, dtype, b_packed=packed)


def types_text(spec: MatmulSpec, *, whole: bool = False) -> str:
    """The element types as the command line writes them: "bf16" where that says all, else (or when `whole`) "a,b,c"."""
    short = spec.b == spec.a and spec.c == spec.a_type.accumulator
    return spec.a if short and not whole else f"{spec.a},{spec.b},{spec.c}"


def _wait_like_the_peers(threads: int) -> None:
    """Lets our own OpenMP threads end their busy waiting as soon as those of the peers must; a user's setting stays."""
    name = "KMP_BLOCKTIME"
    os.environ.setdefault(name, process_environment(threads)[name])


def _matrices(spec: MatmulSpec) -> tuple[tuple[tuple[int, int], Any], ...]:
    return (spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type), (spec.c_shape, spec.c_type)


def _bind(kernel: Kernel, each: Operands) -> Callable[[], object]:
    return partial(kernel, each.a, each.b, out=each.c)


def _bind_packed(kernel: Kernel, each: Operands) -> Callable[[], object]:
    return partial(kernel, each.a, kernel.pack_b(each.b), out=each.c)


def _describe(kernel: Kernel) -> str:
    values = ", ".join(f"{name}={value}" for name, value in kernel.metadata.parameters.items())
    return f"{kernel.metadata.schedule}({values})" if values else str(kernel.metadata.schedule)


def _last_level_cache() -> int:
    machine = host()
    return (machine.l3 or machine.l2).bytes
