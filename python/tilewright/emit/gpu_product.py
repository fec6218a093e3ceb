# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernel of a product for a GPU, stage by stage, up to a thread's function."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.gpu import decisions, kernel, threads
from tilewright.codegen.gpu.stepping import ROW_MULTIPLE
from tilewright.codegen.gpu.strategies import decided
from tilewright.emit.gpu_kernel import GpuCode, expand
from tilewright.emit.gpu_payload import Forms
from tilewright.emit.gpu_stages import GpuStages
from tilewright.errors import ScheduleError
from tilewright.lowering import memrefs, pipelines, run
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec


class GpuProduct(GpuCode):
    """The kernel of a product on its way, with a method for each stage."""

    def __init__(
        self,
        stages: GpuStages,
        context: ir.Context,
        make: Callable[[MatmulSpec, ir.Context], ir.Module | None],
        *,
        aligned: bool,
        boxed: bool,
    ) -> None:
        """Takes what makes the schedule, and how rows are aligned."""
        super().__init__(stages)
        self._context, self._make = context, make
        self._aligned, self._boxed = aligned, boxed
        self._forms = Forms(stages.spec, stages.target, stages.operator)

    def payload(self) -> str:
        """The product, of any extents."""
        self.module, text = self._forms.payload(self._context)
        return text

    def schedule(self) -> str:
        """The schedule, which ends in what decides how a block's tile is shared."""
        made = self._make(self._forms.scheduled, self._context)
        assert made is not None, "there is something to schedule on a GPU"
        self._schedule = made
        return str(made)

    def scheduled(self) -> str:
        """Blocks, in vectors as large as a tile."""
        run.apply_schedule(self.module, self._schedule, self._forms.finished, name=self.stages.strategy)
        self.deciding = decisions.check(self._schedule, self.stages.strategy)
        return str(self.module)

    def bufferized(self) -> str:
        """Memrefs for tensors."""
        memrefs.to_memrefs(self.module)
        run.make_private(run.payload_function(self.module, "bufferized"))
        run.run_passes(self.module, pipelines.DROP_RESULT, "bufferized")
        return str(self.module)

    def threads(self) -> str:
        """The code of a thread, as the decisions on the loops say."""
        stages, finished = self.stages, self._forms.finished
        function = run.payload_function(self.module, "threads").operation
        try:
            row, stages.sizes = decided(function, stages.spec, stages.target)
            blocks = threads.over_blocks(function)
            with decisions.place(function):
                stages.boxes = tuple(
                    row.share(blocks, finished, stages.target, stages.sizes, self._aligned, self._boxed)
                )
        except ScheduleError as error:
            raise run.located(error, self.deciding, stages.strategy) from None
        if ROW_MULTIPLE in function.attributes:
            stages.row_multiple = ir.IntegerAttr(function.attributes[ROW_MULTIPLE]).value
        text = expand(stages, self.module)
        kernel.lower_vectors(self.module, row.lanes(stages.sizes))
        return text
