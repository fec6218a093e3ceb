# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a GPU's binary of a kernel's last stage: NVIDIA's machine code, shaders, AMD's code objects."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tilewright.emit import attribution, gpu, shared
from tilewright.emit.gpu import GpuStages
from tilewright.errors import LoweringError, SpecError, TargetError

FORMATS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"nvidia": ("cubin", "sass"), "vulkan": ("spv",), "amd": ("obj", "hsaco")}
)
"""By family of targets, the formats that are no stage's text."""
_CODE = ("ptx", "asm", "spirv")
"""The last stages."""
_OPCODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)


def made(stages: GpuStages, wanted: str) -> bytes:
    """A stage or a format of a kernel.

    Raises:
        SpecError: Kernels of its target have no such stage or format.
        TargetError: A program is missing.
        LoweringError: A program refused the kernel.
    """
    known = FORMATS[stages.target.family]
    if stages.rows is not None and wanted in (*known, *_CODE):
        raise SpecError(
            f"{wanted} of {stages.whole}, which takes two kernels, one behind the other",
            where="compile",
            expected="an epilogue without softmax and reductions of rows",
            remedy=f"Call it from Python; kernel.asm has the stages of both, {wanted} and rows_{wanted}",
        )
    if wanted in stages.texts:
        return stages.texts[wanted].encode()
    if wanted not in known:
        expected = ", ".join((*stages.texts, *known))
        raise SpecError(
            f"{wanted} of a kernel for {stages.target.name}", where="compile", expected=f"one of {expected}"
        )
    if wanted == "cubin":
        return gpu.assemble(stages).cubin
    if wanted == "sass":
        return disassembly(gpu.assemble(stages).cubin).encode()
    return shared.code_object(stages.object) if wanted == "hsaco" else stages.object


def disassembly(cubin: bytes) -> str:
    """NVIDIA's machine code as text, by nvdisasm; behind each instruction its line of the schedule, where the code tells it.

    Raises:
        TargetError: There is no nvdisasm.
        LoweringError: It refused the code.
    """
    program = gpu.tool("nvdisasm")
    if program is None:
        raise TargetError(
            "there is no nvdisasm",
            expected="NVIDIA's disassembler on the path",
            remedy="make setup-gpu installs it, as does the CUDA toolkit",
        )
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        done = subprocess.run([program, "-c", "-g", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoweringError(f"nvdisasm refused the code: {done.stderr.strip()}", stage="sass")
    return attribution.annotated_sass(done.stdout)


def opcodes(sass: str) -> Counter[str]:
    """How many instructions of each kind there are: "HGMMA", "LDGSTS"."""
    return Counter(_OPCODE.findall(sass))
