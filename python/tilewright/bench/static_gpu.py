# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The resources of GPU kernels, and whether they are right, without a card: a table of strategies by types.

Every cell is compiled in both of its forms, for operands whose rows start at multiples of 16 bytes and for others; assembled where
there is an assembler; and run, in the emulator or on a Vulkan device, at a shape that fills no tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.bench import in_processes
from tilewright.bench.suites import Shape
from tilewright.emit import gpu, gpu_code, gpu_cost
from tilewright.errors import TilewrightError
from tilewright.operand import OperandSpec
from tilewright.payload.reference import error_bound, reference, within_bound
from tilewright.payload.samples import values
from tilewright.processes.calls import Jobs
from tilewright.runtime.gpu import GpuKernel
from tilewright.runtime.gpu import compile as compile_gpu
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

SHAPE = Shape(130, 272, 112)
"""Several tiles, the last ones not filled, of rows that start at multiples of 16 bytes in every type."""
_SIZES: Mapping[str, Mapping[str, int]] = MappingProxyType({"warpgroup": {"bm": 128, "bn": 128}})
"""Sizes that are given: for so small a shape the model of this strategy would take one consumer, which is given no registers."""
TF32 = "tf32"
"""The name of f32 elements that may be truncated to TF32."""
_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """Kernels of a strategy for some types.

    Attributes:
        target: The target's name.
        strategy: The strategy's.
        types: Those of A, B and C, or "tf32".
        layout: How A and B are stored.
        shape: M, N and K of the run.
        code_bytes: Bytes of the code of the form for aligned rows; 0 when it was not made.
        registers: 32-bit registers of a thread, of the form that takes more; None without an assembler.
        spills: Registers, or bytes of them, kept in memory, of both forms; None likewise.
        shared_bytes: Bytes of shared memory of a block.
        mix: Instructions of the form for aligned rows that multiply or copy, by kind.
        runs: What ran it; empty when nothing did.
        right: Whether both results were within their bounds, and nothing was found wrong; None when nothing ran it.
        notes: Why something is missing.
    """

    target: str
    strategy: str
    types: str
    layout: str
    shape: str
    code_bytes: int = 0
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int = 0
    mix: Mapping[str, int] = field(default_factory=dict)
    runs: str = ""
    right: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether it was made, keeps its registers and is right as far as that is known."""
        return bool(self.code_bytes) and not self.spills and self.right is not False

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "mix": dict(self.mix), "notes": list(self.notes)}


def types() -> tuple[str, ...]:
    """The types of a table: every combination whose result is as wide as its sums, TF32, and the types that are widened."""
    whole = (f"{row.a},{row.b},{row.c}" for row in dtypes.COMBINATIONS if row.c == row.acc)
    stored = (name for name in dtypes.STORED if dtypes.dtype(name).multiplied is not None)
    return (*whole, TF32, *(f"{name},{name},{dtypes.dtype(name).accumulator}" for name in stored))


def cells(row: GpuTarget, types_: str, shape: Shape, schedule: str | None = None) -> list[Cell]:
    """The cells of a target and types, one for each strategy that does them, in layout nn, or, where only that is done, nt.

    With `schedule`, a strategy's name or a file, there is one.
    """
    found: dict[str, str] = {}
    for layout in ("nn", "nt"):
        for name in gpu.able(_spec(types_, layout, shape), row):
            found.setdefault(name, layout)
    if schedule is not None:
        return [Cell(row.name, schedule, types_, found.get(schedule, "nn"), str(shape))]
    order = list(GPU_STRATEGIES)
    return [
        Cell(row.name, name, types_, found[name], str(shape)) for name in sorted(found, key=order.index, reverse=True)
    ]


def survey(
    rows: Sequence[GpuTarget],
    types_: Sequence[str],
    shape: Shape = SHAPE,
    progress: Callable[[int, int], object] = lambda done, count: None,
    jobs: Jobs = None,
    schedule: str | None = None,
) -> list[Cell]:
    """The cells of some targets by some types, in that order; `jobs` processes work, by default one for each CPU.

    `jobs` may be an executor, whose workers do. `schedule` is as for `cells`.

    Raises:
        SpecError: A type is unknown.
    """
    wanted = [(row, each, shape) for row in rows for name in types_ for each in cells(row, name, shape, schedule)]
    return in_processes.each(examine, wanted, progress, jobs)


def examine(row: GpuTarget, cell: Cell, shape: Shape) -> Cell:
    """A cell, filled in."""
    spec = _spec(cell.types, cell.layout, shape)
    target = row if row.family == "vulkan" else row.emulated()
    notes: list[str] = []
    try:
        kernel = compile_gpu(spec, target, cell.strategy, _SIZES.get(cell.strategy))
    except TilewrightError as error:
        return replace(cell, notes=(str(error),))
    cell = replace(cell, code_bytes=kernel.metadata.object_bytes)
    for fill in (_assembled, _run):
        try:
            cell = fill(cell, kernel)
        except TilewrightError as error:
            notes.append(str(error))
    return replace(cell, notes=(*cell.notes, *notes))


def _spec(types_: str, layout: str, shape: Shape) -> MatmulSpec:
    fields = {"layout": layout, "batch": shape.batch, "tf32": types_ == TF32}
    return MatmulSpec.from_dtypes(shape.m, shape.n, shape.k, "f32" if types_ == TF32 else types_, **fields)


def _assembled(cell: Cell, kernel: GpuKernel) -> Cell:
    """Registers, spills, shared memory and instructions."""
    if kernel.target.family == "amd":
        return replace(cell, **asdict(gpu_cost.amd(kernel.asm["asm"])))
    if kernel.target.family != "nvidia":
        return cell
    fast, *others = (kernel.assembled(aligned=aligned) for aligned in kernel.alignments)
    return replace(
        cell,
        code_bytes=len(fast.cubin),
        registers=max(each.registers for each in (fast, *others)),
        spills=sum(each.spill_bytes for each in (fast, *others)),
        shared_bytes=kernel.shared_bytes,
        mix=gpu_cost.mix(gpu_code.disassembly(fast.cubin)),
    )


def _run(cell: Cell, kernel: GpuKernel) -> Cell:
    """The verdict on a run of each form."""
    random = np.random.default_rng(0)
    for aligned in kernel.alignments:
        operands = [_operand(each, random, aligned=aligned) for each in kernel.spec.operands]
        result = np.full(kernel.spec.c_shape, 99, dtypes.to_numpy(kernel.spec.c_type))
        try:
            kernel(*operands, out=result)
        except TilewrightError as error:
            return replace(cell, right=False, notes=(str(error),))
        expected, bound = reference(kernel.spec, *operands), error_bound(kernel.spec, *operands)
        if not within_bound(result, expected, bound).all():
            which = "aligned" if aligned else "other"
            return replace(cell, right=False, notes=(f"the result for {which} rows is beyond its bound",))
    return replace(cell, right=True, runs=kernel.metadata.emulator or "the Vulkan device")


def _operand(operand: OperandSpec, random: np.random.Generator, *, aligned: bool) -> np.ndarray:
    """Random numbers, of which rows start at multiples of 16 bytes, or one element off."""
    drawn = values(random, operand.shape, operand.type)
    *outer, columns = drawn.shape
    per = _ALIGNMENT // drawn.itemsize
    pitch = -(-columns // per) * per + (0 if aligned else 1)
    memory = np.zeros(drawn.size // max(columns, 1) * pitch + per, drawn.dtype)
    start = -memory.ctypes.data % _ALIGNMENT // drawn.itemsize
    placed = memory[start : start + drawn.size // max(columns, 1) * pitch].reshape(*outer, pitch)[..., :columns]
    placed[...] = drawn
    return placed
