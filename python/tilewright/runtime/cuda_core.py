# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-core and cuda-bindings, of any release from 0.3 and 12.9 on: what differs between releases is here, and nowhere else.

Of cuda-core a device and code objects are taken, of the bindings the driver's functions. They are looked for when a kernel is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilewright.errors import TargetError

EMULATED = "Or run it thread by thread on this machine: target.emulated(), --device emulated"
"""What is left where there is no card."""
_PLACES = ("cuda.core", "cuda.core.experimental")
"""Where releases have their classes: from 0.5 on, and before."""


def packages(wanted: str) -> tuple[Any, Any]:
    """cuda-core, and the bindings of the driver on which it is built, for a kernel for the target `wanted`.

    Raises:
        TargetError: One is missing.
    """
    try:
        return _core(), import_module("cuda.bindings.driver")
    except ImportError as e:
        raise TargetError(
            f"the package cuda-core is missing, or too old: {e}",
            where=f"a kernel for {wanted}",
            expected="cuda-core and cuda-bindings, which launch kernels on NVIDIA's cards",
            remedy=f"pip install 'tilewright[cuda]'. {EMULATED}",
        ) from None


def _core() -> Any:  # noqa: ANN401 - a module of cuda-core
    for place in _PLACES:
        module = import_module(place)
        if hasattr(module, "Device") and hasattr(module, "ObjectCode"):
            return module
    raise ImportError("no Device in cuda.core")


def handle_of(kernel: Any) -> int:  # noqa: ANN401 - cuda-core's
    """The driver's handle of a kernel that cuda-core loaded; before 0.6 it has no public name."""
    return int(kernel.handle if hasattr(kernel, "handle") else kernel._handle)  # pyright: ignore[reportPrivateUsage]


def checked(result: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any of the driver's functions
    """What a function of the driver's gave.

    Raises:
        RuntimeError: It failed.
    """
    status, *values = result
    if int(status):
        raise RuntimeError(f"{status.name} ({int(status)})")
    return values[0] if values else None
