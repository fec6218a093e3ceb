# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of objects: linked into this process, or run by an emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright import _runtime
from tilewright.dtypes import to_numpy
from tilewright.payload.abi import ENTRY, PACK_SUFFIX, TENSORS_SUFFIX
from tilewright.payload.packing import PackedFormat
from tilewright.runtime.emulator import Emulator
from tilewright.runtime.kernel import Kernel, Metadata
from tilewright.runtime.linkable import Linkable
from tilewright.runtime.packed_b import Packing
from tilewright.spec import MatmulSpec
from tilewright.targets import Target


def load(
    object_: bytes,
    spec: MatmulSpec,
    target: Target,
    facts: Metadata,
    stages: Mapping[str, str | Callable[[], str]],
    packed: PackedFormat | None,
    emulator: Emulator | None,
    files: Linkable | None = None,
) -> Kernel:
    """The kernel of an object, linked into this process or run by an emulator; the rest is as for `Kernel`."""
    if emulator is not None:
        from tilewright.runtime.emulated import EmulatedKernel

        return EmulatedKernel(object_, spec, target, facts, stages, packed, emulator, files)
    code, packing = _link(object_, spec, packed)
    return Kernel(code, spec, target, facts, stages, packing, files)


def _link(object_: bytes, spec: MatmulSpec, packed: PackedFormat | None) -> tuple[_runtime.Code, Packing | None]:
    """Links an object, and with it what packs B in the format `packed`, when B comes packed."""
    further = [f"{ENTRY}{TENSORS_SUFFIX}"] if spec.takes_tensors else []
    if packed is None:
        return _runtime.Code(object_, ENTRY, further), None
    packer = f"{ENTRY}{PACK_SUFFIX}"
    code = _runtime.Code(object_, ENTRY, [packer, *further])
    call = _runtime.PackCall(code, packer, spec.n, spec.k, b=to_numpy(spec.b_stored), b_transposed=spec.b_transposed)
    return code, Packing(packed, call)
