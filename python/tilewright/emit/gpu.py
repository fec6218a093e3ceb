# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of a GPU kernel's compilation, from the payload to PTX, as text; and what NVIDIA's assembler says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from types import MappingProxyType

from tilewright.dims import Dim
from tilewright.emit import code, gpu_isolated, llvmir
from tilewright.emit.gpu_stages import GpuStages
from tilewright.emit.ptxas import Assembled, assemble, tool
from tilewright.entries import Epilogue
from tilewright.errors import LoweringError, ScheduleError, SpecError
from tilewright.expressions import trace
from tilewright.lowering import double_functions, driver, math_functions, pipelines, small_floats
from tilewright.lowering.gpu import decisions, gathered, grouped, kernel, nibbles, spirv, threads, whole_rows, words
from tilewright.lowering.gpu.stepping import ROW_MULTIPLE
from tilewright.lowering.gpu.strategies import STRATEGIES, able, decided
from tilewright.mlir import ir
from tilewright.payload import matmul
from tilewright.payload.abi import ENTRY
from tilewright.payload.row_pass import RowPass
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

__all__ = ["STRATEGIES", "Assembled", "GpuStages", "able", "assemble", "build", "check", "compiled", "tool"]


def check(spec: MatmulSpec, target: GpuTarget) -> None:
    """Raises `SpecError` for what this release does not do on a GPU."""
    types = {each.type.name for each in (*spec.operands, spec.result)}
    if target.types is not None and not types <= target.types:
        raise SpecError(
            f"elements of {', '.join(sorted(types - target.types))} on {target.name} are not supported yet",
            where=str(spec),
            expected=", ".join(sorted(target.types)),
        )
    if target.least_bits > 8 and double_functions.of(spec):
        expected = "those of f32, or a target with integers of 64 bits"
        raise SpecError(f"functions of f64 on {target.name} are not supported yet", where=str(spec), expected=expected)
    if spec.b_packed:
        remedy = "Let calls take B as it is stored: blocks bring tiles of it to shared memory in their own order"
        raise SpecError("b_packed on a GPU is not supported", where=str(spec), expected="b_packed=False", remedy=remedy)


def build(
    spec: MatmulSpec,
    target: GpuTarget,
    schedule: str | Plan,
    parameters: Mapping[str, int],
    *,
    aligned: bool = False,
    boxed: bool = True,
) -> GpuStages:
    """Compiles `spec` by a strategy, or under a schedule of the user's.

    The kernel takes operands of any extents, whatever `spec` says of them. `parameters` are sizes that override the strategy's, or, of
    a user's schedule, those of the strategy that would be chosen, which it is given. `aligned` says that rows of A and B start at
    multiples of 16 bytes, `boxed` that those of C do.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        ScheduleError: The strategy is unknown, does not do this product, or does not fit; or the schedule does not.
        LoweringError: A later stage failed.
    """
    check(spec, target)
    if spec.has_rows:
        stages = build(spec.inner, target, schedule, parameters, aligned=aligned, boxed=boxed)
        stages.rows = _rows(spec, target)
        stages.texts |= {f"rows_{name}": text for name, text in stages.rows.texts.items()}
        return stages
    done = able(spec, target)
    if isinstance(schedule, Plan):
        plan = replace(schedule, parameters=STRATEGIES[done[-1]].sizes(spec, target, parameters))
        return gpu_isolated.build(spec, target, plan, _Forms(spec, target).scheduled, aligned=aligned, boxed=boxed)
    if schedule not in done:
        raise ScheduleError(f"strategy {schedule!r} for {spec} on {target.name}", expected=f"one of {', '.join(done)}")
    row = STRATEGIES[schedule]
    sizes = row.sizes(spec, target, parameters)
    return compiled(spec, target, schedule, lambda given, _: row.schedule(given, sizes), aligned=aligned, boxed=boxed)


class _Forms:
    """What a product is on its way through the compiler.

    Attributes:
        finished: The product, of any extents, that ends in an op over its elements.
        read: The one that the payload is made of.
        scheduled: The one that the schedule is made for.
    """

    def __init__(self, spec: MatmulSpec, target: GpuTarget) -> None:
        """Makes them."""
        # Every block, also one that covers all of C, is then a slice that is padded to a tile.
        finished = spec if spec.fused else replace(spec, epilogue=(_sum(),))
        self.read = _with_open_extents(gathered.read_as_a(finished, target) if spec.gathers else finished)
        self.finished = _with_open_extents(finished)
        self.only_gathers = bool(spec.gathers) and len(spec.prologue_a) == 1
        self.scheduled = replace(self.read, prologue_a=()) if self.only_gathers else self.read


def compiled(
    spec: MatmulSpec,
    target: GpuTarget,
    name: str,
    make: Callable[[MatmulSpec, ir.Context], ir.Module | None],
    *,
    aligned: bool,
    boxed: bool,
    started: Callable[[str], object] = lambda stage: None,
) -> GpuStages:
    """Compiles `spec`, in this process, under the schedule called `name` that `make` makes. What it has decided is in `sizes`.

    `started` is told the name of each stage.

    Raises:
        ScheduleError: The schedule does not fit; the error names its file and line.
        LoweringError: A later stage failed.
    """
    forms = _Forms(spec, target)
    stages = GpuStages(spec, target, name, None)
    with ir.Context() as context, ir.Location.unknown():
        module = matmul.build(forms.read, context)
        stages.texts["payload"] = str(module)
        if grouped.of(forms.finished):
            grouped.read_one_by_one(module)
        if forms.only_gathers:
            gathered.drop_prologue(module)
        schedule = make(forms.scheduled, context)
        assert schedule is not None, "there is something to schedule on a GPU"
        stages.texts["schedule"] = str(schedule)
        started("scheduled")
        driver.apply_schedule(module, schedule, forms.finished, name=name)
        deciding = decisions.check(schedule, name)
        stages.texts["scheduled"] = str(module)
        started("bufferized")
        _bufferize(stages, module)
        started("threads")
        try:
            _lower(stages, module, forms.finished, aligned=aligned, boxed=boxed)
        except ScheduleError as error:
            raise driver.located(error, deciding, name) from None
    return stages


def _bufferize(stages: GpuStages, module: ir.Module) -> None:
    driver.run_own_script(module, pipelines.bufferize(), "bufferized")
    _payload_function(module).attributes["sym_visibility"] = ir.StringAttr.get("private")
    driver.run_passes(module, pipelines.DROP_RESULT, "bufferized")
    stages.texts["bufferized"] = str(module)


def _lower(stages: GpuStages, module: ir.Module, finished: MatmulSpec, *, aligned: bool, boxed: bool) -> None:
    """From a payload on buffers to code, as its loops say."""
    target, function = stages.target, _payload_function(module)
    row, stages.sizes = decided(function, stages.spec, target)
    with function.location:
        stages.boxes = tuple(row.share(threads.over_blocks(function), finished, target, stages.sizes, aligned, boxed))
    if ROW_MULTIPLE in function.attributes:
        stages.row_multiple = ir.IntegerAttr(function.attributes[ROW_MULTIPLE]).value
    _expand(stages, module)
    kernel.lower_vectors(module, row.lanes(stages.sizes))
    _BACK_ENDS[target.family](stages, module)


def _rows(spec: MatmulSpec, target: GpuTarget) -> GpuStages:
    """The kernel for the rows of a product, behind that of the product."""
    tile = whole_rows.sizes(spec)
    stages = GpuStages(RowPass(spec), target, "rows", tile)
    with ir.Context() as context, ir.Location.unknown():
        module = whole_rows.build(spec, tile, context)
        _expand(stages, module)
        _BACK_ENDS[target.family](stages, module)
    return stages


def _expand(stages: GpuStages, module: ir.Module) -> None:
    """Writes out what a thread computes that no instruction does.

    Raises:
        LoweringError: There is something that cannot be.
    """
    target, function = stages.target, _payload_function(module)
    driver.run_passes(module, "builtin.module(canonicalize, cse)", "threads")
    stages.texts["threads"] = str(module)
    small_floats.expand(function, target)
    if target.least_bits == 8 and nibbles.take_apart(function):
        # LLVM would make vectors of four bits of them again, and loads of those of parts.
        driver.run_passes(module, "builtin.module(canonicalize, cse)", "threads")
        words.settle(function)
    left = math_functions.expand(module.operation, target)
    if left and target.least_bits == 8:
        left = double_functions.expand(module.operation, target)
    if left:
        raise LoweringError(
            "functions of f64 elements", stage="threads", expected="those of f32", remedy="Compute in f32"
        )


def _with_open_extents(spec: MatmulSpec) -> MatmulSpec:
    """The same product of any extents.

    A spec promises no such thing where two elements share a byte: how long a row is in memory would not be known. Here calls
    tell where each row starts, so that its check of that is passed over. Of a batch, extents of zero are open: no loop has so many.
    """
    made = copy(spec)
    for axis in ("m", "n", "k"):
        object.__setattr__(made, axis, Dim())
    for batch in ("batch", "a_batch", "b_batch"):
        object.__setattr__(made, batch, tuple(size or Dim() for size in getattr(spec, batch)))
    return made


def _to_ptx(stages: GpuStages, module: ir.Module) -> None:
    """From a thread's function to PTX."""
    target = stages.target
    outlined = kernel.outline(module, stages.sizes.threads)
    driver.run_passes(outlined, kernel.TO_NVVM, "nvvm")
    kernel.hold_registers(outlined, getattr(stages.sizes, "blocks", 1), getattr(stages.sizes, "resident", 1))
    kernel.pass_by_value(outlined, len(stages.boxes))
    stages.shared_bytes = kernel.join_tiles(outlined)
    _check_shared(stages, stages.shared_bytes)
    stages.texts["nvvm"] = str(outlined)
    raw = llvmir.translated(outlined.body.operations[0].operation)
    stages.texts["llvmir"] = code.optimize(_with_functions(raw), target)
    stages.texts["ptx"] = code.assembly(stages.texts["llvmir"], target)
    stages.binary = stages.texts["ptx"].encode()


def _check_shared(stages: GpuStages, bytes_: int) -> None:
    """Raises `ScheduleError` if a block has less shared memory than its tiles take."""
    if bytes_ > stages.target.shared_bytes:
        raise ScheduleError(
            f"the tiles take {bytes_} bytes of shared memory",
            where=stages.strategy,
            expected=f"at most the {stages.target.shared_bytes} of {stages.target.name}",
            remedy="Make tiles smaller, or fewer stages",
        )


def _to_spirv(stages: GpuStages, module: ir.Module) -> None:
    """From a thread's function to a compute shader."""
    _check_shared(stages, kernel.tile_bytes(module))
    stages.texts["spirv"], stages.binary = spirv.shader(module, _payload_function(module), stages.sizes.threads)


def _to_code_object(stages: GpuStages, module: ir.Module) -> None:
    """From a thread's function to a code object of AMD's."""
    target = stages.target
    _check_shared(stages, kernel.tile_bytes(module))
    outlined = kernel.outline(module, stages.sizes.threads)
    kernel.order_shared_memory_only(outlined)
    driver.run_passes(outlined, kernel.TO_ROCDL.format(chip=target.cpu), "rocdl")
    stages.texts["rocdl"] = str(outlined)
    container = outlined.body.operations[0].operation
    del container.attributes["llvm.data_layout"]  # LLVM's own differs in how it is written.
    raw = llvmir.translated(container)
    stages.texts["llvmir"] = code.optimize(raw, target)
    stages.texts["asm"] = code.assembly(stages.texts["llvmir"], target)
    stages.binary = code.object_file(stages.texts["llvmir"], target)


_BACK_ENDS = MappingProxyType({"nvidia": _to_ptx, "vulkan": _to_spirv, "amd": _to_code_object})
"""By family of targets, what makes code of a thread's function."""


def _payload_function(module: ir.Module) -> ir.Operation:
    for op in module.body.operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.operation.attributes["sym_name"]).value == ENTRY:
            return op.operation
    raise LoweringError(
        f"no function @{ENTRY}", stage="bufferized", remedy="A schedule must keep the payload's function"
    )


_INTRINSICS = {"fabs": "fabs", "fma": "fma", "copysign": "copysign", "floor": "floor", "rint": "roundeven"}
"""What LLVM calls functions of NVIDIA's library of device functions, each of which is one instruction."""
_DECLARED = re.compile(r"^declare (float|double) @__nv_(\w+)\((.*)\).*$", re.MULTILINE)


def _with_functions(llvmir: str) -> str:
    """The module with a definition of each function of NVIDIA's library that MLIR's lowering has called: no such library is needed.

    Raises:
        LoweringError: There is one that is no single instruction.
    """

    def define(found: re.Match[str]) -> str:
        kind, called, parameters = found.groups()
        name = called.removesuffix("f") if kind == "float" else called
        if name not in _INTRINSICS:
            raise LoweringError(f"__nv_{called} is not known", stage="llvmir", expected=", ".join(_INTRINSICS))
        count = len(parameters.split(","))
        intrinsic = f"@llvm.{_INTRINSICS[name]}.{'f32' if kind == 'float' else 'f64'}"
        given = ", ".join(f"{kind} %{number}" for number in range(count))
        declaration = f"declare {kind} {intrinsic}({', '.join([kind] * count)})"
        body = f"  %r = call {kind} {intrinsic}({given})\n  ret {kind} %r"
        return f"{declaration}\ndefine private {kind} @__nv_{called}({given}) alwaysinline {{\n{body}\n}}"

    return _DECLARED.sub(define, llvmir)


def _sum() -> Epilogue:
    """An entry that leaves each sum as it is, so that every product ends in an op over its elements."""
    return Epilogue("sum()", (), trace(lambda c: c, 0))
