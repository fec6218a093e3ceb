# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plan: the schedule of one compilation, whoever wrote it, and how to get its transform module."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError, SpecError
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules import calls, python_file, select
from tilewright.schedules.calls import Calls, Share, Test
from tilewright.schedules.models.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from tilewright.mlir import ir

_PACKAGE = Path(__file__).resolve().parent.parent

Schedule = str | Path | Callable[..., "ir.Module"] | None
"""What a user may give: nothing, a strategy's name, a function, a .py or .mlir file."""


@dataclass(frozen=True, slots=True)
class Case:
    """How calls of some extents are computed by a kernel of a dynamic spec.

    Attributes:
        spec: What is computed, with all that is known of the extents then.
        plan: The schedule of that.
        tests: What the extents have to be; those of the cases before did not fit.
    """

    spec: MatmulSpec
    plan: Plan
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedule of one compilation.

    Attributes:
        name: The strategy's name, or the user's function or file.
        parameters: The sizes that the strategy gets, on a GPU those of the strategy that would be chosen, or, by name, those
            that override a strategy's own; None for a product without arithmetic, and for a text, which has its own.
        strategy: The user's function that makes the module; None for one of ours, which is found by name when it is needed.
        text: The text of a .mlir schedule; otherwise None.
        source: The text of a .py schedule; otherwise None.
        trusted: Whether it is ours, so that it may run inside this process.
        threads: Most threads that a call uses.
        share: What they share.
        cases: Of a dynamic spec the ways that it is computed, of which each call takes the first one that fits; the last one
            fits always. Otherwise empty.
        sized_by_user: Whether some of the sizes are the user's, and not the model's.
    """

    name: str
    parameters: Blocking | Any | None
    strategy: Callable[..., ir.Module] | None = None
    text: str | None = None
    trusted: bool = True
    threads: int = 1
    share: Share = "loops"
    cases: tuple[Case, ...] = ()
    sized_by_user: bool = False
    source: str | None = None

    def module(
        self, spec: MatmulSpec | OperatorSpec, target: Target | GpuTarget, context: ir.Context
    ) -> ir.Module | None:
        """Makes the transform module in `context`; None when there is nothing to schedule. A child process does, of a user's.

        Raises:
            ScheduleError: The text does not parse, or the user's function failed or returned something else.
        """
        from tilewright.mlir import ir

        if self.text is not None:
            return _parsed(self.text, self.name, context)
        if self.parameters is None:
            return None
        strategy: Callable[..., ir.Module] | None = self.strategy
        if self.source is not None:
            strategy = python_file.function(self.source, self.name)
        strategy = strategy or select.strategy(self.name)
        try:
            with context:
                module = strategy(spec, target, self.parameters)
        except (ScheduleError, MemoryError):
            raise
        except (Exception, SystemExit) as e:  # whatever a user's function raises
            if self.trusted:
                raise
            file, line = _users_line(e, strategy)
            where = None if file else self.name
            said = f"{type(e).__name__}: {e}"
            raise ScheduleError(said, where=where, file=file, line=line, remedy=python_file.remedy(e)) from e
        if not isinstance(module, ir.Module):
            raise ScheduleError(
                f"the strategy returned {type(module).__name__}",
                where=self.name,
                expected="a transform module (ir.Module)",
            )
        if self.trusted:
            calls.record(module, Calls(self.threads))
        return module

    def read(self, spec: MatmulSpec | OperatorSpec, context: ir.Context) -> Plan:
        """The plan that the text of a schedule makes for `spec`: its threads, and the cases of a dynamic kernel.

        A plan without a text is what it is.

        Raises:
            ScheduleError: The text does not parse, is for more threads than were asked for, or is one of a dynamic kernel of which
                cases are missing, or for an operator.
        """
        if self.text is None:
            return self
        cases: list[tuple[int, Case]] = []
        threads = []
        texts = calls.parts(self.text)
        for text in texts:
            said = calls.read(_parsed(text, self.name, context))
            if said is None:
                continue
            threads.append(said.threads)
            if said.threads > self.threads:
                raise ScheduleError(
                    f"the schedule is for {said.threads} threads",
                    where=self.name,
                    expected=f"one for at most {self.threads}, as many as are asked for",
                    remedy=f"Ask for threads={said.threads}",
                )
            if isinstance(spec, OperatorSpec):
                if said.extents or said.cases:
                    expected = f"one of {spec.operator}, for all extents"
                    raise ScheduleError("the schedule is one of a dynamic product", where=self.name, expected=expected)
                continue
            part = replace(self, text=text, threads=said.threads, share=said.share)
            narrow = replace(spec, **said.extents)
            cases += [(number, Case(narrow, part, tests)) for number, tests in said.cases]
        if not cases and len(texts) == 1:
            return replace(self, threads=threads[0]) if threads else self
        cases.sort(key=lambda each: each[0])
        if [number for number, _ in cases] != list(range(len(cases))) or len(threads) < len(texts):
            raise ScheduleError(
                f"{len(texts)} schedules with cases {[number for number, _ in cases]}",
                where=self.name,
                expected="each case of a dynamic kernel once, from 0 on, as `--emit schedule` writes them",
            )
        return replace(self, threads=max(threads), cases=tuple(case for _, case in cases))

    def among(self, kernel: int) -> Sequence[tuple[int, tuple[Test, ...]]]:
        """The cases, by number and with their tests, that kernel number `kernel` of `kernels` computes."""
        wanted = self.kernels[kernel]
        return [(at, case.tests) for at, case in enumerate(self.cases) if (case.spec, case.plan) == wanted]

    def __repr__(self) -> str:
        """The name, the sizes and how many cases there are."""
        sizes = "".join(f" {name}={size}" for name, size in self.sizes.items())
        cases = f", {len(self.cases)} cases" if self.cases else ""
        return f"<tilewright.Plan {self.name}{sizes}{cases}>"

    @property
    def kernels(self) -> list[tuple[MatmulSpec, Plan]]:
        """What is compiled, each with its plan: the cases, those that are computed alike once."""
        return list(dict.fromkeys((case.spec, case.plan) for case in self.cases))

    @property
    def sizes(self) -> dict[str, int]:
        """The parameters by name; empty when there are none."""
        if isinstance(self.parameters, Blocking):
            return self.parameters.by_name
        return asdict(self.parameters) if self.parameters else {}


def _parsed(text: str, name: str, context: ir.Context) -> ir.Module:
    """The module of a schedule's text. Raises `ScheduleError`."""
    from tilewright.payload.text import parse

    try:
        return parse(text, name, context)
    except SpecError as e:
        raise ScheduleError(e.what, where=e.where, expected="a transform module") from None


def _users_line(error: BaseException, strategy: Callable[..., ir.Module]) -> tuple[str | None, int | None]:
    """The innermost line that is not ours among those that led to `error`; otherwise where `strategy` is defined."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if _PACKAGE not in Path(frame.filename).parents:
            return frame.filename, frame.lineno
    code = getattr(strategy, "__code__", None)
    return (None, None) if code is None else (code.co_filename, code.co_firstlineno)


def is_trivial(spec: MatmulSpec) -> bool:
    """Whether the result is empty or, for want of products, zero (or unchanged), so that there is nothing to schedule."""
    return spec.is_empty
