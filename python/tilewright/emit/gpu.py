# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of a GPU kernel's compilation, from the payload to PTX, as text; and what NVIDIA's assembler says of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.dims import Dim
from tilewright.emit import code
from tilewright.entries import Epilogue
from tilewright.errors import LoweringError, SpecError, TargetError
from tilewright.expressions import trace
from tilewright.lowering import driver, math_functions, pipelines
from tilewright.lowering.gpu import kernel, threads
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.payload import matmul
from tilewright.schedules.simt import ThreadTile, simt
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

STAGES = ("payload", "schedule", "scheduled", "bufferized", "threads", "nvvm", "llvmir", "ptx")
"""The stages that have a text, in order."""
_ASSEMBLER_SECONDS = 120


@dataclass(slots=True)
class GpuStages:
    """The results of `build`.

    Attributes:
        spec: What is computed.
        target: For which target.
        sizes: The schedule's sizes.
        texts: The text of each stage, in order.
    """

    spec: MatmulSpec
    target: GpuTarget
    sizes: ThreadTile
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What NVIDIA's assembler made of a kernel.

    Attributes:
        cubin: The code.
        registers: 32-bit registers of a thread.
        spill_bytes: Bytes of registers that had to be kept in memory.
        shared_bytes: Bytes of static shared memory.
    """

    cubin: bytes
    registers: int
    spill_bytes: int
    shared_bytes: int


def check(spec: MatmulSpec) -> None:
    """Raises `SpecError` for what this release does not do on GPUs."""
    for wrong, what in (
        (spec.batch, "a batch"),
        (spec.b_packed, "b_packed"),
        (spec.prologue_a or spec.prologue_b, "a prologue"),
    ):
        if wrong:
            raise SpecError(f"{what} on a GPU is not supported yet", where=str(spec), expected="a plain product")


def build(spec: MatmulSpec, target: GpuTarget, sizes: ThreadTile) -> GpuStages:
    """Compiles `spec` by strategy `simt` to PTX.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed.
    """
    check(spec)
    stages = GpuStages(spec, target, sizes)
    # m and n are left to the call: then every block, also one that covers all of C, is a slice that is padded to a tile.
    finished = replace(spec, m=Dim(), n=Dim(), epilogue=spec.epilogue if spec.fused else (_sum(),))
    with ir.Context() as context, ir.Location.unknown():
        module = matmul.build(finished, context)
        stages.texts["payload"] = str(module)
        schedule = simt(finished, sizes)
        stages.texts["schedule"] = str(schedule)
        driver.apply_schedule(module, schedule, finished, name="simt")
        stages.texts["scheduled"] = str(module)
        driver.run_own_script(module, pipelines.bufferize(), "bufferized")
        function = module.body.operations[0]
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        driver.run_passes(module, pipelines.DROP_RESULT, "bufferized")
        stages.texts["bufferized"] = str(module)
        threads.share(module.body.operations[0].operation, sizes)
        driver.run_passes(module, "builtin.module(canonicalize, cse)", "threads")
        stages.texts["threads"] = str(module)
        if math_functions.expand(module.operation, target):
            raise LoweringError(
                "functions of f64 elements", stage="threads", expected="those of f32", remedy="Compute in f32"
            )
        kernel.lower_vectors(module, sizes.columns)
        outlined = kernel.outline(module, sizes.threads)
        driver.run_passes(outlined, kernel.TO_NVVM, "nvvm")
        stages.texts["nvvm"] = str(outlined)
        try:
            raw = _tilewright.translate_to_llvmir(outlined.body.operations[0].operation)
        except (RuntimeError, ValueError) as e:
            raise LoweringError(str(e), stage="llvmir") from None
    stages.texts["llvmir"] = code.optimize(_with_functions(raw), target)
    stages.texts["ptx"] = code.assembly(stages.texts["llvmir"], target)
    return stages


def assemble(stages: GpuStages) -> Assembled:
    """Assembles the PTX with ptxas.

    Raises:
        TargetError: There is no ptxas.
        LoweringError: It refused the PTX.
    """
    program = shutil.which("ptxas")
    if program is None:
        raise TargetError(
            "there is no ptxas", expected="NVIDIA's assembler on the path", remedy="Install the CUDA toolkit"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(stages.texts["ptx"])
        done = subprocess.run(
            [program, f"-arch={stages.target.cpu}", "-v", str(source), "-o", str(result)],
            capture_output=True,
            text=True,
            timeout=_ASSEMBLER_SECONDS,
            check=False,
        )
        if done.returncode:
            raise LoweringError(f"ptxas refused the kernel: {done.stderr.strip()}", stage="cubin")
        return Assembled(result.read_bytes(), *_resources(done.stderr))


def _resources(said: str) -> tuple[int, int, int]:
    """Registers, bytes spilled and bytes of shared memory, from what ``ptxas -v`` says."""

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found else 0

    return number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes smem")


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
