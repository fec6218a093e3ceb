# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a schedule has decided for a GPU, read from the loops that carry it: how a block's tile is shared, and its pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from tilewright.build.constants import bits_of
from tilewright.build.usedef import body, in_block, operations
from tilewright.codegen.gpu import patches, threads
from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import culprit, run
from tilewright.mlir import ir
from tilewright.schedules.decisions import said

_SHARING, _PIPELINE = "tilewright.sharing", "tilewright.pipeline"
"""The attributes of the loop over blocks, and of that over K."""
OPS: Mapping[str, str] = MappingProxyType(
    {
        "threads": "transform.tilewright.share_among_threads",
        "mma_sync": "transform.tilewright.share_among_warps",
        "matrix_cores": "transform.tilewright.share_among_warps",
        "warp_groups": "transform.tilewright.specialize_warp_groups",
        "tensor_memory": "transform.tilewright.specialize_warps",
    }
)
"""By kind of sharing, the transform op that decides it."""
_PIPELINE_OP = "transform.tilewright.pipeline"
_MOST_STAGES = 128
"""More take longer to write out than anyone waits for, and hide no more of what memory takes."""
_KNOBS = ("transform.tune.knob", "transform.match.param.cmpi", "transform.param.constant")
_HARMLESS = frozenset({*OPS.values(), _PIPELINE_OP, *_KNOBS, "transform.structured.match", "transform.print"})
"""What may follow a decision in a schedule: it has checked what it was applied to, which nothing changes then."""
_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"mma_sync": {"rows": "wm", "columns": "wn"}, "matrix_cores": {"rows": "wm", "columns": "wn"}}
)
"""By kind of sharing, what a strategy's sizes call a clause, where that is not its name."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the schedule of a kernel has decided.

    Attributes:
        kind: How a block's tile is shared: a key of `OPS`.
        sizes: Of the tile ("bm", "bn", "bk"), of its parts, and whatever else the schedule said of them, by name.
        stages: Those of the pipeline.
        products: Matrices like B that A is multiplied by.
        scattered: Where an operand's matrix is not in memory as it is multiplied, how it is brought there (`patches.copied`).
    """

    kind: str
    sizes: Mapping[str, int]
    stages: int
    products: int = 1
    scattered: str = ""

    def made(self, kind: type[Any], **others: int) -> Any:  # noqa: ANN401 - a strategy's sizes, of that type
        """The sizes of a strategy, a dataclass of that type, which checks them; `others` are what no schedule decides.

        Raises:
            ScheduleError: They do not fit together, or the strategy has no pipeline, or stages are too many.
        """
        given = {**self.sizes, **others}
        if self.stages > _MOST_STAGES:
            raise ScheduleError(f"a pipeline of {self.stages} stages", expected=f"at most {_MOST_STAGES}")
        if "stages" in {each.name for each in fields(kind)}:
            given["stages"] = self.stages
        elif self.stages > 1:
            raise ScheduleError(f"a pipeline of {self.stages} stages", expected="1: these threads have no pipeline")
        return kind(**given)


def check(schedule: ir.Module, name: str) -> ir.Operation:
    """The transform op by which a schedule called `name` decides how a block's tile is shared; nothing changes the payload behind it.

    Raises:
        ScheduleError: There is none, or something does; the error names the place.
    """
    main = culprit.main_sequence(schedule.operation)
    ops = [] if main is None else in_block(body(main))[:-1]
    first = next((number for number, op in enumerate(ops) if op.name in {*OPS.values(), _PIPELINE_OP}), len(ops))
    found = next((op for op in ops[first:] if op.name in OPS.values()), None)
    if found is None:
        raise run.located(_undecided(), ops[-1] if ops else None, name)
    for op in ops[first:]:
        if op.name not in _HARMLESS:
            what = f"{op.name} behind {ops[first].name}, which has decided what becomes of the loops"
            error = ScheduleError(what, remedy="Put what decides at the end of the schedule")
            raise run.located(error, op, name)
    return found


def place(function: ir.Operation) -> ir.Location:
    """The location of the loop that carries how a block's tile is shared: it has the line of the schedule that makes a thread's code."""
    return next(op for op in operations(function) if _SHARING in op.attributes).location


def _undecided() -> ScheduleError:
    return ScheduleError(
        "the schedule does not say how the tile of a block is shared among its threads",
        expected=f"one of {', '.join(sorted(set(OPS.values())))}, at its end",
    )


def of(function: ir.Operation, batch: int) -> Decisions:
    """The decisions that a bufferized function of so many axes of a batch carries.

    Raises:
        ScheduleError: It carries none of how a block's tile is shared.
        LoweringError: There is no loop over blocks, or no loop over a batch, or another one.
    """
    blocks, entries = threads.over_blocks(function), 0
    if inner := _ops(blocks, "scf.forall"):
        entries = len(body(blocks).arguments)
        (blocks,) = inner
    if entries != batch:
        raise LoweringError(
            f"a loop over {entries} axes around that over blocks",
            stage="threads",
            expected=f"{batch}: those of the batch",
        )
    if _SHARING not in blocks.attributes:
        raise _undecided()  # The op was applied to no loop.
    loops = _ops(blocks, "scf.for")
    contracts = [op for loop in loops for op in _ops(loop, "vector.contract")]
    if len(loops) != 1 or not contracts:
        raise LoweringError("no product of vectors in a block's loop over K", stage="threads", expected="one loop")
    rows, columns = ir.VectorType(contracts[0].results[0].type).shape
    depth = ir.VectorType(contracts[0].operands[0].type).shape[1]
    found = said(blocks.attributes[_SHARING])
    kind = found.pop("kind")
    names = _NAMES.get(kind, {})
    sizes = {"bm": rows, "bn": columns, "bk": depth} | {names.get(name, name): size for name, size in found.items()}
    stages = said(loops[0].attributes[_PIPELINE])["stages"] if _PIPELINE in loops[0].attributes else 1
    scattered = [
        patches.copied(each.patches, bits_of(ir.MemRefType(body(function).arguments[operand].type).element_type))
        for operand, each in patches.of(function).items()
    ]
    return Decisions(kind, sizes, stages, len(contracts), *scattered)


def _ops(loop: ir.Operation, name: str) -> list[ir.Operation]:
    """Those of a name in the body of a loop."""
    return [op.operation for op in body(loop).operations if op.operation.name == name]
