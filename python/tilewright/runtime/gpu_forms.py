# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of kernels for GPUs, through the disk cache: what is found there is run without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.emit.gpu_stages import Computed, GpuStages, as_json, from_json
from tilewright.runtime import cache_key
from tilewright.runtime.cache_key import Compilation
from tilewright.targets.gpu import GpuTarget

_TEXTS = ("llvmir", "ptx", "spirv")
"""What running a kernel takes: the emulator, an assembler, and a Vulkan device that is asked for f64."""


def cached(what: Compilation, spec: Computed, target: GpuTarget, build: Callable[[], GpuStages]) -> GpuStages:
    """A form of a kernel, from the disk cache, or from `build`, and then put there.

    Args:
        what: Decides the form.
        spec: What is computed.
        target: The GPU, and on what kernels run.
        build: Compiles it.
    """

    def made() -> tuple[GpuStages, dict[str, Any]]:
        stages = build()
        return stages, {"spec": str(spec)} | as_json(stages, _TEXTS)

    got = cache_key.fetch(what, made)
    return from_json(got.about, spec, target, got.record.object, cached=True) if got.cached else got.record
