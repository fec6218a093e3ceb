# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What carries out the strategies for GPUs: sizes, schedules and the code of a thread, one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tilewright.codegen.gpu import decisions, grouped, matrix_cores, staging, tensor_memory, warpgroup
from tilewright.codegen.gpu.decisions import Decisions
from tilewright.codegen.gpu.fma import Fma
from tilewright.codegen.gpu.fragments import Multiplier
from tilewright.codegen.gpu.mma import MmaSync
from tilewright.codegen.gpu.mma_types import multiplied
from tilewright.codegen.gpu.stepping import Stepping
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.errors import ScheduleError
from tilewright.lowering.types import double_functions
from tilewright.mlir import ir
from tilewright.schedules.gpu import tensor_memory_sizes, warpgroup_sizes
from tilewright.schedules.gpu.matrix_cores import WaveTile
from tilewright.schedules.gpu.matrix_cores import matrix_cores as matrix_cores_schedule
from tilewright.schedules.gpu.mma_sync import WarpTile, mma_sync
from tilewright.schedules.gpu.simt import ThreadTile, simt
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.tensor_memory import tensor_memory as tensor_memory_schedule
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.schedules.gpu.warpgroup import warpgroup as warpgroup_schedule
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.schedules.steps.block_tile import with_sizes
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

Sizes = ThreadTile | WarpTile | WarpGroupTile | WaveTile | TensorMemoryTile
"""The sizes of a strategy."""
SIZES: tuple[type[Sizes], ...] = (ThreadTile, WarpTile, WarpGroupTile, WaveTile, TensorMemoryTile)
"""Those of each; no two have the same names."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """What carries out a strategy for GPUs.

    Attributes:
        sizes: Gives its sizes for a product, with some overridden by name.
        schedule: Makes its schedule of sizes, in which those with several options, which come last, are knobs.
        kind: How schedules call what it does (`decisions.OPS`).
        decided: Gives the sizes that a schedule has decided.
        check: Checks sizes for a product; raises `ScheduleError`.
        share: Makes the loop over blocks the code of a thread, for rows of A and B that are aligned to 16 bytes or not, and rows of C;
            returns the boxes in which operands are copied, if they are.
        lanes: Elements of the vectors that a thread computes with.
        does: Whether it does the types and layout of a product.
    """

    sizes: Callable[[MatmulSpec, GpuTarget, Mapping[str, int]], Sizes]
    schedule: Callable[[MatmulSpec, Any, Mapping[str, Sequence[int]]], ir.Module]
    kind: str
    decided: Callable[[Decisions, GpuTarget], Sizes]
    check: Callable[[MatmulSpec, GpuTarget, Any], None]
    share: Callable[[ir.Operation, MatmulSpec, GpuTarget, Any, bool, bool], Sequence[Box]]
    lanes: Callable[[Any], int]
    does: Callable[[MatmulSpec, GpuTarget], bool]


def _simt(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: ThreadTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    return _in_steps(loop, Fma(sizes, target.least_bits), spec, target, aligned)


def _mma_sync(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: WarpTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    types = multiplied(spec, target)
    assert types is not None, "the strategy does it"
    return _in_steps(loop, MmaSync(sizes, *types), spec, target, aligned)


def _matrix_cores(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: WaveTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    types = spec.a_type.name, spec.b_type.name
    instruction = matrix_cores.instructions(target)[types[0]]
    return _in_steps(loop, matrix_cores.MatrixCores(sizes, *types, instruction), spec, target, aligned)


def _in_steps(
    loop: ir.Operation, multiplier: Multiplier, spec: MatmulSpec, target: GpuTarget, aligned: bool
) -> Sequence[Box]:
    """Makes the loop the code of threads that are all alike; without boxes. Memory without bytes has no pieces of 16 of them."""
    Stepping(
        loop,
        multiplier,
        aligned=aligned and target.least_bits == 8,
        groups=grouped.of(spec),
        family=target.family,
        gathers=spec.gathers,
    ).run()
    return ()


def _simt_sizes(spec: MatmulSpec, target: GpuTarget, sizes: Mapping[str, int]) -> ThreadTile:
    """One slot for each tile where memory has no room for two."""
    made = with_sizes(ThreadTile, sizes)
    size = max(spec.acc_type.bits, 32)
    slot = staging.bytes_of((made.bm, made.bk), size) + spec.products * staging.bytes_of((made.bk, made.bn), size)
    fits = made.stages * slot <= target.shared_bytes
    return made if fits or "stages" in sizes else replace(made, stages=1)


def _check_simt(spec: MatmulSpec, target: GpuTarget, sizes: ThreadTile) -> None:
    """Vectors of shaders have no more than four elements."""
    if target.family == "vulkan" and sizes.columns > 4:
        raise ScheduleError(
            f"columns={sizes.columns} on {target.name}", where="schedule parameters", expected="at most 4"
        )


def _mma_sync_sizes(spec: MatmulSpec, target: GpuTarget, sizes: Mapping[str, int]) -> WarpTile:
    """Half as deep for f64: so that three stages fit into the shared memory of every chip.

    Half as large for several products, and for functions of f64: beside 64 sums their polynomials do not fit into registers.
    """
    usual = {"bk": 16 if spec.a_type.bits == 64 else 32}
    if spec.products > 1 or double_functions.of(spec):
        usual |= {"bn": 64, "wm": 32}
    made = with_sizes(WarpTile, {**usual, **sizes})
    _check_mma_sync(spec, target, made)
    return made


def _check_mma_sync(spec: MatmulSpec, target: GpuTarget, sizes: WarpTile) -> None:
    if sizes.bk % 32 and min(spec.a_stored.bits, spec.b_stored.bits) == 8:
        raise ScheduleError(f"bk={sizes.bk} for bytes", where="schedule parameters", expected="a multiple of 32")


CARRIERS: Mapping[str, Carrier] = MappingProxyType(
    {
        "simt": Carrier(
            sizes=_simt_sizes,
            schedule=simt,
            kind="threads",
            decided=lambda found, target: found.made(ThreadTile),
            check=_check_simt,
            share=_simt,
            lanes=lambda sizes: sizes.columns,
            does=lambda spec, target: True,
        ),
        "mma_sync": Carrier(
            sizes=_mma_sync_sizes,
            schedule=mma_sync,
            kind="mma_sync",
            decided=lambda found, target: found.made(WarpTile),
            check=_check_mma_sync,
            share=_mma_sync,
            lanes=lambda sizes: 2,
            does=lambda spec, target: multiplied(spec, target) is not None,
        ),
        "matrix_cores": Carrier(
            sizes=matrix_cores.sizes,
            schedule=matrix_cores_schedule,
            kind="matrix_cores",
            decided=lambda found, target: found.made(WaveTile, wave=target.warp),
            check=matrix_cores.check,
            share=_matrix_cores,
            lanes=lambda sizes: 4,
            does=matrix_cores.does,
        ),
        "warpgroup": Carrier(
            sizes=warpgroup_sizes.sizes,
            schedule=warpgroup_schedule,
            kind="warp_groups",
            decided=lambda found, target: found.made(WarpGroupTile, products=found.products),
            check=warpgroup_sizes.check,
            share=warpgroup.share,
            lanes=lambda sizes: 2,
            does=warpgroup.does,
        ),
        "tensor_memory": Carrier(
            sizes=tensor_memory_sizes.sizes,
            schedule=tensor_memory_schedule,
            kind="tensor_memory",
            decided=lambda found, target: found.made(TensorMemoryTile),
            check=tensor_memory_sizes.check,
            share=tensor_memory.share,
            lanes=lambda sizes: 2,
            does=tensor_memory.does,
        ),
    }
)
"""What carries out each of `GPU_STRATEGIES`."""


def able(spec: MatmulSpec, target: GpuTarget, *, scattered: str = "") -> list[str]:
    """The strategies that do a product on a target, the best one first; of an operand that is `scattered` so, those that get it."""
    return [
        name
        for name, row in GPU_STRATEGIES.items()
        if CARRIERS[name].does(spec, target) and (not row.needs or row.needs in target.instructions)
        if not scattered or row.scattered in ("pieces", scattered)
    ]


def decided(function: ir.Operation, spec: MatmulSpec, target: GpuTarget) -> tuple[Carrier, Sizes]:
    """The strategy that a schedule has decided on, and its sizes, from the loops of a bufferized function.

    Raises:
        ScheduleError: It has decided on none, or on one that does not do this product, or its sizes do not fit.
        LoweringError: There is no loop over blocks.
    """
    found = decisions.of(function, len(spec.batch_axes))
    names = able(spec, target, scattered=found.scattered)
    done = {CARRIERS[name].kind: CARRIERS[name] for name in names}
    if found.kind not in done:
        ops = [f"{decisions.OPS[kind]} ({kind})" for kind in done]
        raise ScheduleError(f"{found.kind} cannot do {spec} on {target.name}", expected=" or ".join(ops))
    row = done[found.kind]
    sizes = row.decided(found, target)
    # The code for tiles that are too large by far would take longer to write out than anyone waits for.
    held = (found.sizes["bm"] + found.sizes["bn"]) * found.sizes["bk"]
    least = held * min(spec.a_stored.bits, spec.b_stored.bits) // 8
    if least > target.shared_bytes:
        raise ScheduleError(
            f"the tiles of one step take at least {least} bytes of shared memory",
            expected=f"at most the {target.shared_bytes} of {target.name}",
            remedy="Make tiles smaller",
        )
    row.check(spec, target, sizes)
    return row, sizes
