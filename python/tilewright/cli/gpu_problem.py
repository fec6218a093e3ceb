# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one command line asks to be compiled for a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tilewright.errors import SpecError
from tilewright.schedules import make
from tilewright.schedules.threads import check
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from tilewright.emit.gpu import GpuStages


@dataclass(frozen=True, slots=True)
class GpuProblem:
    """A product to compile for a GPU, for operands whose rows start at multiples of 16 bytes.

    Attributes:
        spec: What is computed.
        target: The GPU.
        strategy: The strategy's name; None to have one chosen; or the file of a schedule.
        parameters: Sizes that override its own.
        decided: The sizes that a file's schedule has decided, when that is known.
    """

    spec: MatmulSpec
    target: GpuTarget
    strategy: str | None
    parameters: Mapping[str, int]
    decided: Mapping[str, int] = field(default_factory=dict)

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

    def facts(self) -> dict[str, object]:
        """What is computed, for programs."""
        return {"spec": asdict(self.spec)}

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


def given(
    spec: MatmulSpec, target: GpuTarget, strategy: str | None, parameters: Mapping[str, int], threads: int
) -> GpuProblem:
    """The problem of a command line.

    Raises:
        SpecError: Several threads are asked for.
    """
    if check(threads, "--threads") > 1:
        raise SpecError(f"{threads} threads for {target.name}", where="--threads", expected="1: a GPU has its own")
    return GpuProblem(spec, target, strategy, parameters)
