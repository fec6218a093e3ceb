# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one command line asks to be compiled: a shape or a file, for a target, under a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click

from tilewright import text_files
from tilewright.cli import gpu_problem
from tilewright.cli.gpu_problem import GpuProblem
from tilewright.cli.module_problem import ModuleProblem
from tilewright.cli.options import Extents, require_for_shapes_only
from tilewright.emit import isolated_import
from tilewright.entries import Epilogue
from tilewright.errors import SpecError, TilewrightError
from tilewright.schedules import make
from tilewright.schedules.plan import Plan
from tilewright.schedules.threads import check
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target, gpu, resolve

if TYPE_CHECKING:
    from tilewright.emit.stages import Stages
    from tilewright.runtime.linkable import Linkable


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to compile.

    Attributes:
        spec: What is computed.
        target: For which target; this machine need not be able to run it.
        plan: Under which schedule.
        symbol: The name of the C entry: that of the function in the file, when there is one.
    """

    spec: MatmulSpec
    target: Target
    plan: Plan
    symbol: str = "matmul"

    @property
    def threads(self) -> int:
        """Most threads that a call uses."""
        return self.plan.threads

    @property
    def title(self) -> str:
        """What is computed."""
        return str(self.spec)

    @property
    def flops(self) -> int:
        """Additions and multiplications; 0 where an extent is dynamic."""
        return 0 if self.spec.open else self.spec.flops

    @property
    def schedule(self) -> str:
        """The schedule's name."""
        return self.plan.name

    @property
    def sizes(self) -> Mapping[str, int]:
        """The schedule's sizes."""
        return self.plan.sizes

    def facts(self) -> dict[str, object]:
        """What is computed, for programs."""
        return {"spec": asdict(self.spec)}

    @property
    def linkable(self) -> Linkable:
        """How it is made as a file."""
        from tilewright.runtime.compile import linkable

        return linkable(self.spec, self.target, self.plan, self.symbol)

    def build(self, until: str, *, for_linking: bool = False) -> Stages:
        """Compiles up to the stage `until`; see `tilewright.runtime.compile.build`."""
        from tilewright.emit import spills
        from tilewright.runtime.compile import build

        built = build(self.spec, self.target, self.plan, until=until, for_linking=for_linking, symbol=self.symbol)
        spills.warn(spills.count(built), self.plan, self.target)
        return built

    def __str__(self) -> str:
        """What is computed, for which target, under which schedule and sizes."""
        from tilewright.cli.output import sizes_text

        sizes = sizes_text(self.plan.sizes, given=not self.plan.trusted)
        threads = f", {self.plan.threads} threads" if self.plan.threads > 1 else ""
        return f"{self.spec} for {self.target.name}, {self.plan.name}{f' ({sizes})' if sizes else ''}{threads}"


def given(
    file: str | None,
    shapes: Sequence[Extents],
    *,
    dtype: str,
    layout: str,
    batch: tuple[int, ...],
    beta: int,
    b_packed: bool,
    epilogue: tuple[Epilogue, ...],
    prologue_a: tuple[Epilogue, ...],
    prologue_b: tuple[Epilogue, ...],
    deterministic: bool,
    target: str | Target | GpuTarget,
    threads: int,
    schedule: str | None,
    parameters: Mapping[str, int],
    tf32: bool = False,
) -> Problem | ModuleProblem | GpuProblem:
    """The problem that the arguments of a verb which compiles one thing describe.

    Raises:
        click.UsageError: There is not exactly one of a file and a shape.
        TilewrightError: A value is wrong, or the file cannot be read, or is no module with one linalg.matmul where an option
            is given that only such a one takes.
    """
    if file is not None and shapes:
        raise click.UsageError("both FILE.mlir and --shape given; expected one of them")
    if file is None and len(shapes) != 1:
        found = "neither FILE.mlir nor --shape" if not shapes else f"{len(shapes)} shapes"
        raise click.UsageError(f"{found} given; expected one --shape MxNxK or one FILE.mlir")
    if gpu(target) is None:
        resolve(target)  # that it is unknown is said before anything about the rest
    if file is None:
        fields = {"layout": layout, "beta": beta, "b_packed": b_packed, "epilogue": epilogue}
        fields |= {"prologue_a": prologue_a, "prologue_b": prologue_b}
        fields |= {"batch": batch, "b_batch": () if b_packed else None, "deterministic": deterministic}
        spec = MatmulSpec.from_dtypes(*shapes[0], dtype, tf32=tf32, **fields)
        return _product(spec, target, threads, schedule, parameters)
    require_for_shapes_only("dtype", "layout", "batch", "beta", "epilogue", "prologue_a", "prologue_b")
    text = read_text(file)
    try:
        imported, function = isolated_import.load(text, file)
    except SpecError as error:
        given = {"--schedule": schedule, "--set": parameters, "--b-packed": b_packed}
        given |= {"--deterministic": deterministic, "--tf32": tf32}
        options = [option for option, value in given.items() if value]
        if options:
            remedy = f"Leave out {', '.join(options)}, which is for one product: each product of a module has its own schedule"
            raise SpecError(error.what, where=error.where, expected=error.expected, remedy=remedy) from None
        return ModuleProblem(text, file, resolve(target), check(threads, "--threads"))
    spec = replace(imported, b_packed=b_packed, deterministic=deterministic, tf32=tf32)
    return _product(spec, target, threads, schedule, parameters, function)


def _product(
    spec: MatmulSpec,
    target: str | Target | GpuTarget,
    threads: int,
    schedule: str | None,
    parameters: Mapping[str, int],
    symbol: str = "matmul",
) -> Problem | GpuProblem:
    """The problem of one product, on a GPU or a processor."""
    card = gpu(target)
    if card is not None:
        return gpu_problem.given(spec, card, schedule, parameters, threads)
    row = resolve(target)
    return Problem(spec, row, make.make(spec, row, schedule, parameters, threads), symbol=symbol)


def read_text(file: str) -> str:
    """The text of a file that the user named; ``-`` is standard input.

    Raises:
        TilewrightError: It cannot be read, or is no text.
    """
    try:
        return text_files.read(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read it: {reason}", where=file, expected="a .mlir file") from None
