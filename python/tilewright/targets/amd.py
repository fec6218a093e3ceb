# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AMD's GPUs, by LLVM's names of their architectures."""

from __future__ import annotations

from tilewright.targets.gpu import GpuTarget


def _row(name: str, warp: int, instructions: str, source: str, processors: int = 0) -> GpuTarget:
    """A row: all have 64 KiB of local data share for a group of at most 1024 threads."""
    return GpuTarget(
        name=name,
        family="amd",
        triple="amdgcn-amd-amdhsa",
        cpu=name,
        features=frozenset(),
        warp=warp,
        registers=256,
        block_threads=1024,
        shared_bytes=64 << 10,
        static_shared_bytes=64 << 10,
        instructions=frozenset({instructions}),
        source=source,
        processors=processors,
    )


ROWS = (
    # 304 compute units: AMD Instinct MI300X data sheet.
    _row("gfx942", 64, "mfma", "AMD Instinct MI300 Instruction Set Architecture, chapters 3, 7 and 11", processors=304),
    _row("gfx1100", 32, "wmma", "AMD RDNA3 Instruction Set Architecture, chapters 3, 7 and 12"),
)
"""The rows."""
