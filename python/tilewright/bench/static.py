# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels cost, and whether they are right, without their machines: a table of targets by types.

Every cell is compiled. Where this machine or an emulator can, it is run and checked. llvm-mca analyzes its hot loop, and the emulator
counts the instructions of a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright import dtypes
from tilewright.bench import emulated_openblas, in_processes
from tilewright.bench.suites import Shape
from tilewright.emit import code, hotloop, mca
from tilewright.emit.hotloop import HotLoop
from tilewright.errors import TargetError, TilewrightError
from tilewright.processes.calls import Jobs
from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Trial
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

SHAPE = Shape(240, 240, 256)
"""Whole tiles of every target, several of them, and an emulated call takes half a second."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A product of some types on a target.

    Attributes:
        target: The target's name.
        types: Those of A, B and C.
        shape: M, N and K.
        schedule: The strategy.
        object_bytes: Bytes of the assembled object; 0 when it was not made.
        runs: What ran it: "here", or the emulator's name; empty when nothing did.
        right: Whether its result was within its bound; None when nothing ran it.
        instruction: What multiplies in the hot loop.
        mix: Instructions of an iteration of the hot loop by category.
        spills: Those that access the stack.
        cycles: Cycles of an iteration by llvm-mca; None without.
        percent: Percent of what the multiply-add units allow; None without.
        model: LLVM's scheduling model that says so.
        instructions: Executed in one call; None when they were not counted.
        openblas: The same of OpenBLAS for AArch64.
        notes: Why something is missing.
    """

    target: str
    types: str
    shape: str
    schedule: str = ""
    object_bytes: int = 0
    runs: str = ""
    right: bool | None = None
    instruction: str = ""
    mix: Mapping[str, int] = field(default_factory=dict)
    spills: int = 0
    cycles: float | None = None
    percent: float | None = None
    model: str = ""
    instructions: int | None = None
    openblas: int | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "mix": dict(self.mix), "notes": list(self.notes)}


def types() -> tuple[str, ...]:
    """The types of a table: every combination whose result is as wide as its sums."""
    return tuple(f"{row.a},{row.b},{row.c}" for row in dtypes.COMBINATIONS if row.c == row.acc)


def survey(
    rows: Sequence[Target],
    dtypes_: Sequence[str],
    shape: Shape = SHAPE,
    progress: Callable[[int, int], object] = lambda done, count: None,
    jobs: Jobs = None,
) -> list[Cell]:
    """The cells of some targets by some types, in that order.

    Args:
        rows: The targets.
        dtypes_: The types, each as for `MatmulSpec.from_dtypes`.
        shape: The extents of all products.
        progress: Told after each cell how many are done, and how many there are.
        jobs: How many processes work; by default as many as this process may use CPUs. With 1 this process does. Or
            any `concurrent.futures.Executor`, whose workers do.
    """
    wanted = [(row, each, shape) for row in rows for each in dtypes_]
    return in_processes.each(examine, wanted, progress, jobs)


def examine(target: Target, types_: str, shape: Shape = SHAPE) -> Cell:
    """The cell of one target and types."""
    spec = MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, types_)
    found: dict[str, Any] = {"notes": []}
    try:
        asm = _assembled(spec, target, found)
        loop = hotloop.hottest(asm, target.architecture)
        if loop is None:
            found["notes"].append("no loop of it multiplies")
        else:
            _analyzed(loop, target, found)
    except TilewrightError as error:
        found["notes"].append(str(error))
    return Cell(target.name, types_, str(shape), **{**found, "notes": tuple(found["notes"])})


def _assembled(spec: MatmulSpec, target: Target, found: dict[str, Any]) -> str:
    """The assembly; compiles, runs and checks."""
    kernel = compile(spec, target, cache=False)
    facts = kernel.metadata
    if kernel.refusal is not None:
        found["notes"].append(kernel.refusal.what)
        found |= {"schedule": facts.schedule, "object_bytes": facts.object_bytes}
        return code.assembly(kernel.asm["llvmir"], target)
    found |= {"schedule": facts.schedule, "object_bytes": facts.object_bytes, "runs": facts.emulator or "here"}
    _checked(kernel, target, found)
    return code.assembly(kernel.asm["llvmir"], target)


def _checked(kernel: Kernel, target: Target, found: dict[str, Any]) -> None:
    """Runs a kernel, and counts its instructions where it is emulated."""
    spec = kernel.spec
    trial = Trial.random(kernel, spec, 0)
    trial()
    difference = trial.difference()
    found["right"] = difference.right
    if not difference.right:
        found["notes"].append(f"{target.name}: {difference}")
    if not kernel.metadata.emulator:
        return
    try:
        found["instructions"] = kernel.count_instructions(*trial.given)
        if target.family == "arm" and emulated_openblas.computes(spec):
            found["openblas"] = emulated_openblas.count(spec)
    except TilewrightError as error:
        found["notes"].append(f"not counted: {error}")


def _analyzed(loop: HotLoop, target: Target, found: dict[str, Any]) -> None:
    """Reads the hot loop."""
    multiplying = Counter(
        each.mnemonic for each in loop.instructions if each.fma or each.tile_product or (not loop.fma and each.multiply)
    )
    found |= {"instruction": multiplying.most_common(1)[0][0], "mix": dict(loop.mix), "spills": loop.stack_accesses}
    try:
        analysis = mca.analyze(loop, target)
    except TargetError as error:
        found["notes"].append(f"not analyzed: {error.what}")
        return
    found |= {"cycles": analysis.cycles, "percent": analysis.percent_of_bound, "model": analysis.cpu}
    found["notes"] += analysis.notes
