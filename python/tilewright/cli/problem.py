# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one command line asks to be compiled: a shape or a file, for a target, under a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from tilewright import text_files
from tilewright.cli.module_problem import ModuleProblem
from tilewright.cli.options import Extents, require_for_shapes_only
from tilewright.emit import isolated_import
from tilewright.errors import SpecError, TilewrightError
from tilewright.runtime import products
from tilewright.schedules import make
from tilewright.schedules.models import emulated
from tilewright.schedules.models.threads import check
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target, gpu, resolve

if TYPE_CHECKING:
    from tilewright.emit.gpu import GpuStages
    from tilewright.emit.stages import Stages
    from tilewright.runtime.linkable import Linkable

_OF_ONE = ("b_packed", "deterministic", "tf32", "precision")
"""Options that a file with one product takes, and a whole module does not."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product to compile.

    Attributes:
        spec: What is computed.
    """

    spec: MatmulSpec

    @property
    def title(self) -> str:
        """What is computed."""
        return str(self.spec)

    @property
    def flops(self) -> int:
        """Additions and multiplications; 0 where an extent is dynamic."""
        return 0 if self.spec.open else self.spec.flops

    def facts(self) -> dict[str, object]:
        """What is computed, for programs."""
        return {"spec": asdict(self.spec)}


@dataclass(frozen=True, slots=True)
class Problem(_Product):
    """A product to compile for a processor.

    Attributes:
        target: For which target; this machine need not be able to run it.
        plan: Under which schedule.
        symbol: The name of the C entry: that of the function in the file, when there is one.
    """

    target: Target
    plan: make.Plan
    symbol: str = "matmul"

    @property
    def schedule(self) -> str:
        """The schedule's name."""
        return self.plan.name

    @property
    def sizes(self) -> Mapping[str, int]:
        """The schedule's sizes."""
        return self.plan.sizes

    @property
    def linkable(self) -> Linkable:
        """How it is made as a file."""
        from tilewright.runtime.product_files import linkable

        return linkable(self.spec, self.target, self.plan, self.symbol)

    @property
    def threads(self) -> int:
        """Most threads that a call uses."""
        return self.plan.threads

    def facts(self) -> dict[str, object]:
        """What is computed, and, from pieces, how fast that is predicted to be beside f32 as it is."""
        speed = {"predicted_times_f32": emulated.speed(self.spec, self.target)} if self.spec.split else {}
        return _Product.facts(self) | speed

    def build(self, until: str, *, for_linking: bool = False) -> Stages:
        """Compiles up to the stage `until`; see `tilewright.runtime.product_files.build`."""
        from tilewright.emit import spills
        from tilewright.runtime.product_files import build

        built = build(self.spec, self.target, self.plan, until=until, for_linking=for_linking, symbol=self.symbol)
        spills.warn(spills.count(built), self.plan, self.target)
        return built

    def __str__(self) -> str:
        """What is computed, for which target, under which schedule and sizes."""
        from tilewright.cli.output import sizes_text

        sizes = sizes_text(self.plan.sizes, given=not self.plan.trusted)
        threads = f", {self.plan.threads} threads" if self.plan.threads > 1 else ""
        return f"{self.spec} for {self.target.name}, {self.plan.name}{f' ({sizes})' if sizes else ''}{threads}"


@dataclass(frozen=True, slots=True)
class GpuProblem(_Product):
    """A product to compile for a GPU, for operands whose rows start at multiples of 16 bytes.

    Attributes:
        target: The GPU.
        strategy: The strategy's name; None to have one chosen; or the file of a schedule.
        parameters: Sizes that override its own.
        decided: The sizes that a file's schedule has decided, when that is known.
    """

    target: GpuTarget
    strategy: str | None
    parameters: Mapping[str, int]
    decided: Mapping[str, int] = field(default_factory=dict)

    @property
    def schedule(self) -> str:
        """The strategy's name, or the file."""
        from tilewright.emit import gpu

        return gpu.able(self.spec, self.target)[0] if self.strategy is None else self.strategy

    @property
    def sizes(self) -> Mapping[str, int]:
        """The strategy's sizes; of a file's schedule those that it has decided."""
        if make.is_file(self.strategy):
            return self.decided
        from tilewright.emit import gpu

        row = gpu.CARRIERS[self.schedule]
        return asdict(row.sizes(self.spec, self.target, self.parameters))

    def build(self) -> GpuStages:
        """Compiles it; see `tilewright.emit.gpu.build`."""
        from tilewright.emit import gpu

        gpu.check(self.spec, self.target)
        schedule = make.own(self.strategy, self.parameters) if make.is_file(self.strategy) else self.schedule
        return gpu.build(self.spec, self.target, schedule, self.parameters, aligned=True)

    def __str__(self) -> str:
        """What is computed, for which target, under which strategy and sizes."""
        from tilewright.cli.output import sizes_text

        sizes = sizes_text(self.sizes)
        return f"{self.spec} for {self.target.name}, {self.schedule}{f' ({sizes})' if sizes else ''}"


def specs(shapes: Sequence[Extents], dtype: str, **fields: Any) -> list[MatmulSpec]:  # noqa: ANN401 - of `options.product`
    """The products of some shapes, of which the options of `options.product` say the rest."""
    # A B that comes packed is one for all.
    b_batch = () if fields["b_packed"] else None
    return [MatmulSpec.from_dtypes(*shape, dtype, b_batch=b_batch, **fields) for shape in shapes]


def given(
    file: str | None,
    shapes: Sequence[Extents],
    *,
    target: str | Target | GpuTarget,
    threads: int,
    schedule: str | None,
    parameters: Mapping[str, int],
    **product: Any,  # noqa: ANN401 - of `options.product`
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
        (spec,) = specs(shapes, **product)
        return _product(spec, target, threads, schedule, parameters)
    require_for_shapes_only("dtype", "layout", "batch", "alpha", "beta", "epilogue", "prologue_a", "prologue_b")
    text = read_text(file)
    try:
        imported, function = isolated_import.load(text, file)
    except SpecError as error:
        given = {"--schedule": schedule, "--set": parameters}
        given |= {f"--{name.replace('_', '-')}": product[name] for name in _OF_ONE}
        options = [option for option, value in given.items() if value]
        if options:
            remedy = f"Leave out {', '.join(options)}, which is for one product: each product of a module has its own schedule"
            raise SpecError(error.what, where=error.where, expected=error.expected, remedy=remedy) from None
        return ModuleProblem(text, file, resolve(target), check(threads, "--threads"))
    spec = replace(imported, **{name: product[name] for name in _OF_ONE})
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
        if check(threads, "--threads") > 1:
            raise SpecError(f"{threads} threads for {card.name}", where="--threads", expected="1: a GPU has its own")
        return GpuProblem(spec, card, schedule, parameters)
    row = resolve(target)
    emulated.warn(spec, row)
    return Problem(spec, row, products.plan(spec, row, schedule, parameters, threads), symbol=symbol)


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
