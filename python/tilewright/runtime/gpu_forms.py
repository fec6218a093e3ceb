# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of kernels for GPUs, through the disk cache: what is found there is run without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright import knobs
from tilewright.emit import versions
from tilewright.emit.gpu_stages import GpuStages, as_json, from_json
from tilewright.runtime.cache import KernelCache
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_TEXTS = ("llvmir", "ptx", "spirv")
"""What running a kernel takes: the emulator, an assembler, and a Vulkan device that is asked for f64."""


def cached(
    spec: MatmulSpec,
    target: GpuTarget,
    schedule: str,
    parameters: Mapping[str, int],
    form: tuple[bool, bool],
    build: Callable[[], GpuStages],
) -> GpuStages:
    """A form of a kernel, from the disk cache, or from `build`, and then put there.

    Args:
        spec: What is computed.
        target: The GPU.
        schedule: What says which one was asked for.
        parameters: The sizes that were.
        form: Whether rows of A and B, and of C, are aligned.
        build: Compiles it.
    """
    store = KernelCache.from_knobs(knobs.load())
    if store is None:
        return build()
    key = {
        "spec": repr(spec),
        "target": _of_target(target),
        "schedule": schedule,
        "parameters": repr(sorted(parameters.items())),
        "form": repr(form),
        "compiler": versions.fingerprint(),
    }
    found = store.get(key)
    if found is not None and versions.are_unchanged(found.header.get("libraries")):
        return from_json(found.header, spec, target, found.object, cached=True)
    stages = build()
    about = {"spec": str(spec), "target": target.name, "libraries": versions.libraries()}
    store.put(key, stages.binary, about | as_json(stages, _TEXTS))
    return stages


def _of_target(target: GpuTarget) -> str:
    """All of a target that decides its code, what is in sets in one order."""
    plain = replace(target, features=frozenset(), instructions=frozenset(), types=None, device="")
    return f"{plain!r} {target.feature_string} {sorted(target.instructions)} {sorted(target.types or ())}"
