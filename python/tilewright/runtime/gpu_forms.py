# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of kernels for GPUs, through the disk cache: what is found there is run without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

from tilewright import knobs
from tilewright.emit import versions
from tilewright.emit.gpu_stages import GpuStages
from tilewright.runtime.cache import Entry, KernelCache
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

_DERIVED = ("threads", "blocks")
"""What a launch takes of a strategy's sizes besides its fields."""
_TEXTS = ("llvmir", "ptx", "spirv")
"""What running a kernel takes: the emulator, an assembler, and a Vulkan device that is asked for f64."""


def cached(
    spec: MatmulSpec,
    target: GpuTarget,
    schedule: str | None,
    parameters: Mapping[str, int],
    form: tuple[bool, bool],
    build: Callable[[], GpuStages],
) -> GpuStages:
    """A form of a kernel, from the disk cache, or from `build`, and then put there.

    Args:
        spec: What is computed.
        target: The GPU.
        schedule: The strategy that was asked for, or None.
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
        "schedule": repr(schedule),
        "parameters": repr(sorted(parameters.items())),
        "form": repr(form),
        "compiler": versions.fingerprint(),
    }
    found = store.get(key)
    if found is not None and versions.are_unchanged(found.header.get("libraries")):
        return _read(found, spec, target)
    stages = build()
    about = {"spec": str(spec), "target": target.name, "libraries": versions.libraries()}
    store.put(key, stages.binary, about | _header(stages))
    return stages


def _of_target(target: GpuTarget) -> str:
    """All of a target that decides its code, what is in sets in one order."""
    plain = replace(target, features=frozenset(), instructions=frozenset(), types=None, device="")
    return f"{plain!r} {target.feature_string} {sorted(target.instructions)} {sorted(target.types or ())}"


def parameters_of(stages: GpuStages) -> dict[str, int]:
    """The fields of a strategy's sizes by name."""
    if isinstance(stages.sizes, SimpleNamespace):
        return {name: size for name, size in vars(stages.sizes).items() if name not in _DERIVED}
    return asdict(stages.sizes)


def _header(stages: GpuStages) -> dict[str, Any]:
    """What is stored beside the code."""
    sizes = asdict(stages.sizes)
    sizes |= {name: getattr(stages.sizes, name) for name in _DERIVED if hasattr(stages.sizes, name)}
    boxes = [{"operand": each.operand, "shape": list(each.shape), "swizzle": each.swizzle} for each in stages.boxes]
    texts = {name: stages.texts[name] for name in _TEXTS if name in stages.texts}
    return {
        "schedule": stages.strategy,
        "sizes": sizes,
        "boxes": boxes,
        "shared_bytes": stages.shared_bytes,
        "texts": texts,
    }


def _read(found: Entry, spec: MatmulSpec, target: GpuTarget) -> GpuStages:
    header = found.header
    boxes = tuple(SimpleNamespace(**(each | {"shape": tuple(each["shape"])})) for each in header["boxes"])
    return GpuStages(
        spec,
        target,
        header["schedule"],
        SimpleNamespace(**header["sizes"]),
        dict(header["texts"]),
        header["shared_bytes"],
        found.object,
        boxes,
        cached=True,
    )
