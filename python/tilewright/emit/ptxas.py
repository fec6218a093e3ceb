# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs NVIDIA's assembler: machine code of PTX, and its report of registers and spills."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilewright.emit.gpu_stages import GpuStages
from tilewright.errors import LoweringError, TargetError

_ASSEMBLER_SECONDS = 120
_PLACE = re.compile(r"^\s*\.loc\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What NVIDIA's assembler made of a kernel.

    Attributes:
        cubin: The code.
        registers: 32-bit registers of a thread.
        spill_bytes: Bytes of registers that had to be kept in memory.
        warnings: What it warned of, a line each.
    """

    cubin: bytes
    registers: int
    spill_bytes: int
    warnings: tuple[str, ...]


def assemble(stages: GpuStages) -> Assembled:
    """Assembles the PTX of a kernel.

    Raises:
        TargetError: There is no ptxas, or the kernel is for another maker's GPU.
        LoweringError: It refused the PTX.
    """
    if "ptx" not in stages.texts:
        raise TargetError(f"a kernel for {stages.target.name}", where="ptxas", expected="one for NVIDIA's GPUs")
    return assemble_text(stages.texts["ptx"], stages.target.cpu)


def assemble_text(ptx: str, architecture: str) -> Assembled:
    """Assembles PTX with ptxas for an architecture, such as "sm_90a"; the lines that it tells become those of the code.

    Raises:
        TargetError: There is no ptxas.
        LoweringError: It refused the PTX, or took too long.
    """
    program = tool("ptxas")
    if program is None:
        raise TargetError(
            "there is no ptxas",
            expected="NVIDIA's assembler on the path",
            remedy="make setup-gpu installs it, as does the CUDA toolkit",
        )
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        lines = ["-lineinfo"] if _PLACE.search(ptx) else []
        command = [program, f"-arch={architecture}", "-v", *lines, str(source), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_ASSEMBLER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise LoweringError(f"ptxas took more than {_ASSEMBLER_SECONDS} s", stage="cubin") from None
        if done.returncode:
            raise LoweringError(f"ptxas refused the kernel: {done.stderr.strip()}", stage="cubin")
        return Assembled(result.read_bytes(), *_resources(done.stderr), _warnings(done.stderr))


def tool(name: str) -> str | None:
    """One of NVIDIA's programs: on the path, or of its Python packages; None where there is none."""
    return shutil.which(name) or next(
        (str(file) for file in Path(sysconfig.get_path("purelib"), "nvidia").glob(f"*/bin/{name}")), None
    )


_ADVICE = re.compile(r"\(C\d+\)|performance loss|ignored|serialized", re.IGNORECASE)
"""Warnings that ptxas prints as information: it serializes products (C7510 and on), or ignores setmaxnreg (C7508)."""
_ORDINARY = re.compile(r"ptxas info|\s+\d+ bytes stack frame")


def _warnings(said: str) -> tuple[str, ...]:
    """The lines of what ``ptxas -v`` says that a kernel should not give rise to."""
    return tuple(
        line for line in said.splitlines() if line.strip() and (_ADVICE.search(line) or not _ORDINARY.match(line))
    )


def _resources(said: str) -> tuple[int, int]:
    """Registers and bytes spilled, from what ``ptxas -v`` says."""

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found else 0

    return number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores")
