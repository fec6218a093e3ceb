# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the code of a GPU kernel says that it costs: registers, spills, shared memory, and instructions that multiply or copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.emit import gpu_code, ptxas
from tilewright.targets.gpu import GpuTarget

_PRODUCTS = (
    "UTCHMMA",
    "UTCQMMA",
    "UTCIMMA",
    "HGMMA",
    "QGMMA",
    "IGMMA",
    "HMMA",
    "IMMA",
    "DMMA",
    "QMMA",
    "FFMA2",
    "FFMA",
    "DFMA",
    "IDP",
    "IMAD",
)
"""What multiplies in NVIDIA's machine code; the last one also computes addresses."""
_COPIES = ("UTMALDG", "UTMASTG", "LDTM", "USETMAXREG", "LDGSTS", "LDSM", "STSM")
"""What copies tiles, or sums from tensor memory, and gives registers away."""
_MULTIPLIES = re.compile(r"^\s+(v_(?:mfma|wmma|smfmac|pk_fma|fma|fmac|dual_fmac|mad|dot)\w*)", re.MULTILINE)
_AMD = {
    "registers": r"\.vgpr_count: +(\d+)",
    "spills": r"\.vgpr_spill_count: +(\d+)",
    "shared": r"\.group_segment_fixed_size: +(\d+)",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel takes.

    Attributes:
        registers: 32-bit registers of a thread.
        spills: Registers, or bytes of them, kept in memory.
        shared_bytes: Bytes of shared memory of a block.
        mix: Instructions that multiply or copy, by kind.
    """

    registers: int
    spills: int
    shared_bytes: int
    mix: Mapping[str, int]


def nvidia(ptx: str, target: GpuTarget, shared_bytes: int) -> tuple[Cost, str]:
    """The cost of NVIDIA's kernels, from their PTX, and their machine code as text; a block has so many bytes of shared memory.

    Raises:
        TargetError: NVIDIA's assembler or disassembler is missing.
        LoweringError: The assembler refused the PTX.
    """
    made = ptxas.assemble_text(ptx, target.cpu)
    sass = gpu_code.disassembly(made.cubin)
    return Cost(made.registers, made.spill_bytes, shared_bytes, mix(sass)), sass


def amd(asm: str) -> Cost:
    """The cost of AMD's kernels, from their assembly."""
    said = {name: [int(each) for each in re.findall(pattern, asm)] for name, pattern in _AMD.items()}
    mix = Counter(_MULTIPLIES.findall(asm))
    return Cost(max(said["registers"]), sum(said["spills"]), max(said["shared"]), dict(mix))


def mix(sass: str) -> dict[str, int]:
    """The instructions of NVIDIA's machine code that multiply or copy."""
    found = gpu_code.opcodes(sass)
    products = [name for name in _PRODUCTS if found[name]]
    return {
        name: found[name]
        for name in (*([each for each in products if each != "IMAD"] or products), *_COPIES)
        if found[name]
    }
