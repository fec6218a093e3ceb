# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users call: `tilewright.tune`, and `tilewright.compile`, which tunes first when it is asked to."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import knobs, targets
from tilewright.errors import SpecError, TilewrightError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.spec_tables import Spec
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.runtime import compile as without_search
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models.threads import check
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target


def tune(spec: Spec, seconds: float = 60.0, *, threads: int = 1, schedule: Schedule = None) -> Trial:
    """Searches for a faster strategy and sizes for `spec` on this machine; `tilewright.compile` takes what wins from then on.

    Of a schedule of your own it searches the knobs and alternatives, and what wins is in `sizes` of the result.

    Candidates are timed in turn with the model's choice, each once its numbers are right. Every trial is kept in the database that
    ``TILEWRIGHT_RECORDS`` names, so that a search that was ended goes on the next time.

    Args:
        spec: What to compute: a product, or an operator built on it (`Conv2dSpec`, `AttentionSpec`).
        seconds: How long it may take, about; it ends before where nothing is gained any more.
        threads: Most threads of a call.
        schedule: A function or a .py or .mlir file, as `tilewright.compile` takes it, with knobs or alternatives.

    Returns:
        The last comparison with the model's choice, or with the schedule's own: its `verdict`, "won", "tied" or "lost", `gain`,
        `strategy` and `sizes`.

    Raises:
        SpecError: The spec cannot be tuned: it has dynamic extents, is deterministic, or has Python functions in it, or nothing of its
            schedule varies; or it is no spec; or `seconds` is no number above zero.
        ScheduleError: The schedule does not fit, or leaves nothing open.
        TargetError: This machine has too few cores.
        TilewrightError: There is no place for a database, or it is damaged, or it is not to be used.
    """
    from tilewright.tuning import product

    if not isinstance(spec, MatmulSpec | OperatorSpec):
        raise SpecError(
            f"spec is a {type(spec).__name__}", where="tune", expected="a tilewright.MatmulSpec, or an operator's"
        )
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise SpecError(f"seconds is {seconds!r}", where="tune", expected="a number above zero")
    settings = knobs.load()
    if settings.records is None or settings.no_records:
        raise TilewrightError(
            "there is no database for what is found",
            where="tune",
            remedy="Unset TILEWRIGHT_NO_RECORDS, and name a file with TILEWRIGHT_RECORDS where there is no home folder",
        )
    with Database(settings.records) as database:
        threads = check(threads, "tune")
        return product.tune(
            spec, targets.resolve("host"), database, threads=threads, seconds=seconds, schedule=schedule
        )


def compile(
    spec: MatmulSpec | OperatorSpec,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    schedule: Schedule = None,
    *,
    parameters: Mapping[str, int] | None = None,
    cache: bool = True,
    verify: bool = False,
    tune: float | None = None,
) -> Kernel:
    """Compiles `spec` for a target, or takes it from the disk cache.

    Where neither this machine nor an emulator runs the target's code, calls of the kernel raise `NotRunnableError`, a TargetError; all
    else, such as `Kernel.write`, is as ever.

    Args:
        spec: What to compute: a product, or an operator built on it (`Conv2dSpec`, `AttentionSpec`).
        target: "host", a row's name, a Target, or a GpuTarget. `target.emulated` has an emulator run the kernel.
        threads: Most threads that a call uses, through LLVM's OpenMP runtime. A small product uses fewer, as
            `Kernel.metadata` says; and a call no more than OpenMP then grants its caller.
        schedule: None to have a strategy chosen: as the last measurement on this machine found it (`tilewright.tune`), or by the
            model; a strategy's name; a function ``(spec, target, sizes)`` that returns a transform module; or a .py or .mlir file.
            What a user gives is compiled in a child process.
        parameters: Sizes of the schedule that override the model's, by name ("mr", "nr", "mc", "nc", "kc"; a GPU's strategies have others).
        cache: Whether the disk cache is read and written.
        verify: Whether the kernel of a product is tried once on random operands before it is returned, in a child process, and
            compared with the reference: for schedules that may be wrong. Dynamic extents are then small; those of a GPU's kernel
            always are. What nothing here can run is not verified, as an `UnverifiedWarning` says.
        tune: Seconds for a search first, as `tilewright.tune` does it; None for none.

    Raises:
        SpecError: `spec` is no spec, or an operator that is to be verified, or `threads` is no int from 1 to 1024; or it is to be tuned
            and cannot be, or for another target than "host", or with a schedule or parameters.
        TilewrightError: Several threads are asked for, and there is no OpenMP runtime.
        TargetError: The target is unknown, or cannot be emulated.
        ScheduleError: The schedule is unknown or does not fit.
        WrongResultError: The kernel is verified, and computes wrong numbers, crashes, or does not end.
        LoweringError: A later stage failed.
    """
    if tune is not None:
        if target != "host" or schedule is not None or parameters:
            raise SpecError(
                "tune with a target, a schedule or parameters",
                where="compile",
                expected="the host, and the choice left to the search",
                remedy="Leave tune out: what you choose is not searched for",
            )
        _tune(spec, tune, threads)
    return without_search.compile(spec, target, threads, schedule, parameters=parameters, cache=cache, verify=verify)


def _tune(spec: Spec, seconds: float, threads: int) -> None:
    """As `tune`, where its name is a parameter's."""
    tune(spec, seconds, threads=threads)
