# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one GPU kernel, stage by stage, for NVIDIA, AMD and Vulkan."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from tilewright.codegen.gpu import decisions, gathered_rows, grouped, kernel, nibbles, spirv, threads, whole_rows, words
from tilewright.codegen.gpu.stepping import ROW_MULTIPLE
from tilewright.codegen.gpu.strategies import decided
from tilewright.dims import Dim
from tilewright.emit import code, device_functions, llvmir
from tilewright.emit.gpu_stages import GpuStages
from tilewright.entries import Epilogue
from tilewright.errors import LoweringError, ScheduleError
from tilewright.expressions import trace
from tilewright.lowering import driver, pipelines, run
from tilewright.lowering.types import double_functions, math_functions, small_floats
from tilewright.mlir import ir
from tilewright.payload import matmul
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


class Forms:
    """The forms of a product on its way through the compiler.

    Attributes:
        finished: The product, of any extents, that ends in an op over its elements.
        read: The one that the payload is made of.
        scheduled: The one that the schedule is made for.
    """

    def __init__(self, spec: MatmulSpec, target: GpuTarget) -> None:
        """Makes them."""
        # Every block, also one that covers all of C, is then a slice that is padded to a tile.
        finished = spec if spec.fused else replace(spec, epilogue=(_sum(),))
        self.read = _with_open_extents(gathered_rows.read_as_a(finished, target) if spec.gathers else finished)
        self.finished = _with_open_extents(finished)
        self.only_gathers = bool(spec.gathers) and len(spec.prologue_a) == 1
        self.scheduled = replace(self.read, prologue_a=()) if self.only_gathers else self.read


class GpuCode:
    """The stages behind a thread's function, which all kernels share.

    Attributes:
        module: The module, which each stage changes.
        deciding: The transform op that decided how a block's tile is shared, for errors; None where there is no schedule.
    """

    module: ir.Module
    deciding: ir.Operation | None = None

    def __init__(self, stages: GpuStages) -> None:
        """Takes the record, which says what is compiled for which target."""
        self.stages = stages

    def payload(self) -> str | None:
        """There is none."""

    def schedule(self) -> str | None:
        """There is none."""

    def scheduled(self) -> str | None:
        """There is none."""

    def bufferized(self) -> str | None:
        """There is none."""

    def nvvm(self) -> str:
        """The LLVM dialect with NVIDIA's intrinsics."""
        stages = self.stages
        outlined = kernel.outline(self.module, stages.sizes.threads)
        run.run_passes(outlined, kernel.TO_NVVM, "nvvm")
        kernel.hold_registers(outlined, getattr(stages.sizes, "blocks", 1), getattr(stages.sizes, "resident", 1))
        kernel.pass_by_value(outlined, len(stages.boxes))
        stages.shared_bytes = kernel.join_tiles(outlined)
        self._check_shared(stages.shared_bytes)
        self.module = outlined
        return str(outlined)

    def rocdl(self) -> str:
        """The LLVM dialect with AMD's intrinsics."""
        stages = self.stages
        self._check_shared(kernel.tile_bytes(self.module))
        outlined = kernel.outline(self.module, stages.sizes.threads)
        kernel.order_shared_memory_only(outlined)
        run.run_passes(outlined, kernel.TO_ROCDL.format(chip=stages.target.cpu), "rocdl")
        self.module = outlined
        return str(outlined)

    def spirv(self) -> str:
        """The SPIR-V dialect; the shader is the object."""
        stages = self.stages
        self._check_shared(kernel.tile_bytes(self.module))
        function = run.payload_function(self.module, "spirv").operation
        text, stages.object = spirv.shader(self.module, function, stages.sizes.threads)
        return text

    def llvmir(self) -> str:
        """LLVM IR, optimized for the target."""
        container = self.module.body.operations[0].operation
        if "llvm.data_layout" in container.attributes and self.stages.target.family == "amd":
            del container.attributes["llvm.data_layout"]  # LLVM's own differs in how it is written.
        raw = llvmir.translated(container)
        if self.stages.target.family == "nvidia":
            raw = device_functions.defined(raw)
        return code.optimize(raw, self.stages.target)

    def _check_shared(self, bytes_: int) -> None:
        """Raises `ScheduleError` if a block has less shared memory than its tiles take."""
        stages = self.stages
        if bytes_ > stages.target.shared_bytes:
            error = ScheduleError(
                f"the tiles take {bytes_} bytes of shared memory",
                where=stages.strategy,
                expected=f"at most the {stages.target.shared_bytes} of {stages.target.name}",
                remedy="Make tiles smaller, or fewer stages",
            )
            raise error if self.deciding is None else run.located(error, self.deciding, stages.strategy)

    def ptx(self) -> str:
        """PTX, which is the object too."""
        text = self.asm()
        self.stages.object = text.encode()
        return text

    def asm(self) -> str:
        """Assembly of the target."""
        return code.assembly(self.stages.texts["llvmir"], self.stages.target)

    def obj(self) -> bytes:
        """An object, of which a linker makes a code object."""
        return code.object_file(self.stages.texts["llvmir"], self.stages.target)


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
        self._forms = Forms(stages.spec, stages.target)

    def payload(self) -> str:
        """The product, of any extents."""
        self.module = matmul.build(self._forms.read, self._context)
        text = str(self.module)
        if grouped.of(self._forms.finished):
            grouped.read_one_by_one(self.module)
        if self._forms.only_gathers:
            gathered_rows.drop_prologue(self.module)
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
        driver.to_memrefs(self.module)
        run.make_private(run.payload_function(self.module, "bufferized"))
        run.run_passes(self.module, pipelines.DROP_RESULT, "bufferized")
        return str(self.module)

    def threads(self) -> str:
        """The code of a thread, as the decisions on the loops say."""
        stages, finished = self.stages, self._forms.finished
        function = run.payload_function(self.module, "threads").operation
        try:
            row, stages.sizes = decided(function, stages.spec, stages.target)
            with function.location:
                blocks = threads.over_blocks(function)
                stages.boxes = tuple(
                    row.share(blocks, finished, stages.target, stages.sizes, self._aligned, self._boxed)
                )
        except ScheduleError as error:
            raise run.located(error, self.deciding, stages.strategy) from None
        if ROW_MULTIPLE in function.attributes:
            stages.row_multiple = ir.IntegerAttr(function.attributes[ROW_MULTIPLE]).value
        text = _expand(stages, self.module)
        kernel.lower_vectors(self.module, row.lanes(stages.sizes))
        return text


class GpuRows(GpuCode):
    """The kernel for whole rows of a product, behind that of the product."""

    def __init__(self, stages: GpuStages, context: ir.Context) -> None:
        """Takes the record, of a `RowPass`."""
        super().__init__(stages)
        self._context = context

    def threads(self) -> str:
        """The code of a thread, which is written out."""
        self.module = whole_rows.build(self.stages.spec.whole, self.stages.sizes, self._context)
        return _expand(self.stages, self.module)


def _expand(stages: GpuStages, module: ir.Module) -> str:
    """Expands the computations of a thread that no instruction does. Returns the module's text before.

    Raises:
        LoweringError: There is something that cannot be.
    """
    target = stages.target
    run.run_passes(module, "builtin.module(canonicalize, cse)", "threads")
    text, function = str(module), run.payload_function(module, "threads").operation
    small_floats.expand(function, target)
    if target.least_bits == 8 and nibbles.take_apart(function):
        # LLVM would make vectors of four bits of them again, and loads of those of parts.
        run.run_passes(module, "builtin.module(canonicalize, cse)", "threads")
        words.settle(function)
    left = math_functions.expand(module.operation, target)
    if left and target.least_bits == 8:
        left = double_functions.expand(module.operation, target)
    if left:
        raise LoweringError(
            "functions of f64 elements", stage="threads", expected="those of f32", remedy="Compute in f32"
        )
    return text


def _with_open_extents(spec: MatmulSpec) -> MatmulSpec:
    """The same product with dynamic extents.

    A spec promises no such thing where two elements share a byte: the length of a row in memory would not be known. Here calls
    give the start of each row, so that check is skipped. Extents of zero in the batch are dynamic: no loop has zero iterations.
    """
    made = copy(spec)
    for axis in ("m", "n", "k"):
        object.__setattr__(made, axis, Dim())
    for batch in ("batch", "a_batch", "b_batch"):
        object.__setattr__(made, batch, tuple(size or Dim() for size in getattr(spec, batch)))
    return made


def _sum() -> Epilogue:
    """An entry that leaves each sum as it is, so that every product ends in an op over its elements."""
    return Epilogue("sum()", (), trace(lambda c: c, 0))
