# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The target for Vulkan's compute shaders on any device."""

from __future__ import annotations

from tilewright.targets.gpu import GpuTarget

ROWS = (
    GpuTarget(
        name="vulkan",
        family="vulkan",
        triple="spirv-unknown-vulkan",
        cpu="spirv1.3",
        features=frozenset(),
        warp=32,
        registers=255,
        block_threads=256,
        shared_bytes=32 << 10,
        static_shared_bytes=32 << 10,
        instructions=frozenset(),
        least_bits=32,
        source="Vulkan 1.1 specification, 'Required Limits', and what common devices offer beyond: 32 KiB and 256 threads",
    ),
)
"""The rows."""
