# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVIDIA's GPUs, by compute capability."""

from __future__ import annotations

from tilewright.targets.gpu import GpuTarget

_SOURCE = "CUDA C++ Programming Guide, table 'Technical Specifications per Compute Capability'"


def _row(name: str, ptx: str, shared_kib: int, *instructions: str, processors: int = 0) -> GpuTarget:
    """A row: all have warps of 32 threads, 255 registers a thread, and 48 KiB of shared memory for variables of fixed size."""
    return GpuTarget(
        name=name,
        family="nvidia",
        triple="nvptx64-nvidia-cuda",
        cpu=name,
        features=frozenset({ptx}),
        warp=32,
        registers=255,
        block_threads=1024,
        shared_bytes=shared_kib << 10,
        static_shared_bytes=48 << 10,
        instructions=frozenset(instructions),
        source=_SOURCE,
        processors=processors,
    )


ROWS = (
    _row("sm_80", "ptx80", 163, "mma.sync"),
    # 132 processors: NVIDIA H100 and H200 data sheets, SXM5.
    _row("sm_90a", "ptx84", 227, "mma.sync", "mma.sync.f8", "wgmma", processors=132),
    # 148 processors: NVIDIA's technical brief on the Blackwell architecture, B200.
    _row("sm_100a", "ptx86", 227, "mma.sync", "mma.sync.f8", "tcgen05", processors=148),
)
"""The rows, general before specific."""
