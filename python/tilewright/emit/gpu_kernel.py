# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages that all GPU kernels share: from a thread's function on, for NVIDIA, AMD and Vulkan."""

from __future__ import annotations

from tilewright.codegen.gpu import kernel, nibbles, spirv, whole_rows, words
from tilewright.emit import attribution, code, device_functions, llvmir
from tilewright.emit.gpu_stages import GpuStages
from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import line_tables, run
from tilewright.lowering.types import math_functions, small_floats
from tilewright.mlir import ir


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
        """There is none of a kernel that is written out, nor of the stages that come next."""

    schedule = scheduled = bufferized = payload

    def nvvm(self) -> str:
        """The LLVM dialect with NVIDIA's intrinsics."""
        stages = self.stages
        outlined = kernel.outline(self.module, stages.sizes.threads)
        line_tables.mark_loops(outlined, "nvvm")
        run.run_passes(outlined, kernel.TO_NVVM, "nvvm")
        kernel.hold_registers(outlined, getattr(stages.sizes, "blocks", 1), getattr(stages.sizes, "resident", 1))
        kernel.pass_by_value(outlined, len(stages.boxes))
        stages.shared_bytes = kernel.join_tiles(outlined)
        stages.follows = kernel.follows(outlined)
        self._check_shared(stages.shared_bytes)
        self.module = outlined
        return str(outlined)

    def rocdl(self) -> str:
        """The LLVM dialect with AMD's intrinsics."""
        stages = self.stages
        self._check_shared(kernel.tile_bytes(self.module))
        outlined = kernel.outline(self.module, stages.sizes.threads)
        kernel.order_shared_memory_only(outlined)
        line_tables.mark_loops(outlined, "rocdl")
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
        line_tables.add(self.module, directives=self.stages.target.family == "nvidia")
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
        """PTX, which is the object too; with line tables, it tells the lines of the schedule, as ``.loc``."""
        text = code.assembly(self.stages.texts["llvmir"], self.stages.target)
        self.stages.object = text.encode()
        return text

    def asm(self) -> str:
        """Assembly of AMD's GPUs."""
        llvm_ir = self.stages.texts["llvmir"]
        text = code.assembly(llvm_ir, self.stages.target)
        return attribution.annotated(text, llvm_ir, attribution.AMD) if line_tables.wanted() else text

    def obj(self) -> bytes:
        """An object, of which a linker makes a code object."""
        return code.object_file(self.stages.texts["llvmir"], self.stages.target)


class GpuRows(GpuCode):
    """The kernel for whole rows of a product, behind that of the product."""

    def __init__(self, stages: GpuStages, context: ir.Context) -> None:
        """Takes the record, of a `RowPass`."""
        super().__init__(stages)
        self._context = context

    def threads(self) -> str:
        """The code of a thread, which is written out."""
        self.module = whole_rows.build(self.stages.spec.whole, self.stages.sizes, self._context)
        return expand(self.stages, self.module)


def expand(stages: GpuStages, module: ir.Module) -> str:
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
    if math_functions.expand(module.operation, target):
        raise LoweringError(
            "functions of f64 elements", stage="threads", expected="those of f32", remedy="Compute in f32"
        )
    return text
