# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of kernels for GPUs, through the disk cache: what is found there is run without a compiler."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import knobs
from tilewright.emit.gpu_stages import GpuStages, as_json, from_json
from tilewright.runtime import cache_key
from tilewright.runtime.cache import KernelCache
from tilewright.runtime.cache_key import Compilation
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_TEXTS = ("llvmir", "ptx", "spirv")
"""What running a kernel takes: the emulator, an assembler, and a Vulkan device that is asked for f64."""


def cached(what: Compilation, spec: MatmulSpec, target: GpuTarget, build: Callable[[], GpuStages]) -> GpuStages:
    """A form of a kernel, from the disk cache, or from `build`, and then put there.

    Args:
        what: Decides the form.
        spec: What is computed.
        target: The GPU, and on what kernels run.
        build: Compiles it.
    """
    store = KernelCache.from_knobs(knobs.load())
    found = cache_key.find(store, what)
    if found is not None:
        return from_json(found.header, spec, target, found.object, cached=True)
    stages = build()
    cache_key.keep(store, what, stages.object, {"spec": str(spec)} | as_json(stages, _TEXTS))
    return stages
