# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run: every shape is compiled, checked, and timed beside the peers and the measured peak, in turn, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.contender import Contender, Local
from tilewright.bench.operands import Operands, operands
from tilewright.bench.peak import FmaPeak, StreamPeak
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.peers import choose
from tilewright.bench.rows import PeerResult, Row
from tilewright.bench.settings import Settings
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Cache, cores, pinned
from tilewright.bench.turns import take_turns
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.reference import error_bound, reference, relative_error, within_bound
from tilewright.spec import MatmulSpec
from tilewright.targets import Target, require_runnable, resolve
from tilewright.targets.host import host

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel

OURS = "tilewright"
"""Our own name among the contenders."""

_STEPS_BEFORE = 3  # compile, check and calibrate; then one step a round


class CheckError(TilewrightError):
    """A contender's numbers are wrong, so nothing was timed."""


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
        peers: Those that must take part; None: all that are installed.
        rounds: How often each contender is sampled, at least 1; publish nothing from fewer than 7.
        schedule: As for `tilewright.compile`.
        parameters: As for `tilewright.compile`.
        cache: "hot": the same operands in every call. "cold": operands rotate through twice the last-level cache.
        min_seconds: What a sample lasts at least.
        on_cores: Processors to pin everyone to, one a thread; None: chosen by `timing.cores`.
        seed: Of the operands' values.
        progress: Called between samples.

    Returns:
        A row for each shape, in order.

    Raises:
        SpecError: A shape, the element type or a number here cannot be.
        TargetError: This machine cannot run `target`, or has too few cores.
        CheckError: A contender, ours or a peer, computed wrong numbers.
        TilewrightError: A demanded peer is absent, or a peer's process failed.
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
    every = [(shape, _spec(shape, dtype)) for shape in shapes]
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
        element = _spec(Shape(1, 1, 1), settings.dtype).a
        present, self._absent = choose(settings.peers, element)
        self._cores = cores(settings.threads, settings.on_cores)
        self._rotating = 2 * _last_level_cache() if settings.cache == "cold" else 0
        with ExitStack() as stack:
            self._peak = stack.enter_context(closing(FmaPeak(self._target, element, self._cores)))
            self._peers: list[Contender] = [
                stack.enter_context(PeerProcess(peer, settings.threads, self._cores)) for peer in present
            ]
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
        contenders: list[Contender] = [Local(OURS, kernel.metadata.version, partial(_bind, kernel)), *self._peers]
        errors = self._check(contenders, shape, spec)
        report("calibrate", 2)
        moved = sum(rows * columns * kind.bytes for (rows, columns), kind in _matrices(spec))
        with closing(StreamPeak(self._target, max(moved, self._rotating), self._cores)) as stream:
            rates = take_turns(
                {each.name: each for each in contenders},
                {"peak": self._peak, "stream": stream},
                flops=shape.flops,
                rounds=settings.rounds,
                min_seconds=settings.min_seconds,
                on_cores=self._cores,
                after_round=lambda done: report("round", _STEPS_BEFORE + done),
            )
        for each in contenders:
            each.unload()
        return Row(
            shape=shape,
            dtype=settings.dtype,
            layout=spec.layout,
            threads=settings.threads,
            target=self._target.name,
            cache=settings.cache,
            ours=rates[OURS],
            peak=rates["peak"],
            stream=rates["stream"],
            bytes_moved=moved,
            peers={each.name: PeerResult(rates[each.name], each.version, errors[each.name]) for each in self._peers},
            absent=self._absent,
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

    def _check(self, contenders: Sequence[Contender], shape: Shape, spec: MatmulSpec) -> dict[str, float]:
        """The relative error of each contender.

        Raises:
            CheckError: An element of one is further from float64 than measuring.md's bound.
        """
        settings = self._settings
        ours = operands(shape, spec.a, settings.seed)
        expected = reference(spec, ours.a, ours.b)
        bound = error_bound(spec, ours.a, ours.b)
        del ours
        errors: dict[str, float] = {}
        for each in contenders:
            with pinned(self._cores):
                each.load(shape, spec.a, settings.seed, self._rotating)
                got = each.result()
            check(each.name, got, expected, bound)
            errors[each.name] = relative_error(got, expected)
        return errors


def check(name: str, got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
    """Compares a product with its reference, element by element; all are M×N.

    Raises:
        CheckError: An element is not a number, or further off than `bound`; the message names the worst.
    """
    bad = ~within_bound(got, expected, bound)
    if not bad.any():
        return
    with np.errstate(all="ignore"):
        excess = np.where(bad, np.abs(got.astype(np.float64) - expected) - bound, -np.inf)
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    row, column = divmod(worst, got.shape[1])
    raise CheckError(
        f"{np.count_nonzero(bad)} of {bad.size} elements are wrong, the worst C[{row}, {column}] = {got[row, column]:.9g}",
        where=name,
        expected=f"{expected[row, column]:.9g} ± {bound[row, column]:.3g}",
        remedy="Nothing was timed",
    )


def _spec(shape: Shape, dtype: str) -> MatmulSpec:
    if shape.batch:
        raise SpecError(f"{shape} is batched", where="bench", expected="one product; batches are not done yet")
    if shape.flops == 0:
        raise SpecError(f"{shape} is no work", where="bench", expected="extents of at least 1")
    return MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, dtype)


def _matrices(spec: MatmulSpec) -> tuple[tuple[tuple[int, int], Any], ...]:
    return (spec.a_shape, spec.a_type), (spec.b_shape, spec.b_type), (spec.c_shape, spec.c_type)


def _bind(kernel: Kernel, each: Operands) -> Callable[[], object]:
    return partial(kernel, each.a, each.b, out=each.c)


def _describe(kernel: Kernel) -> str:
    values = ", ".join(f"{name}={value}" for name, value in kernel.metadata.parameters.items())
    return f"{kernel.metadata.schedule}({values})" if values else str(kernel.metadata.schedule)


def _last_level_cache() -> int:
    machine = host()
    return (machine.l3 or machine.l2).bytes
