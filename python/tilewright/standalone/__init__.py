# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls the kernels of libraries that tilewright made, on arrays, without a compiler.

    lib = tilewright_runtime.load("libmykernels.so")
    c = lib.gemm_small(a, b)

This is all that the wheel ``tilewright-runtime`` has, where the package is called ``tilewright_runtime``: it imports nothing else of
tilewright's. The names below are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .errors import NotRunnableError, OperandError, TargetError, TilewrightError
    from .kernels import Kernel
    from .library import Library, load
    from .packed_b import PackedB

_ORIGINS = {
    **dict.fromkeys(("NotRunnableError", "OperandError", "TargetError", "TilewrightError"), "errors"),
    **dict.fromkeys(("Library", "load"), "library"),
    "Kernel": "kernels",
    "PackedB": "packed_b",
}
"""By name, the module that has it."""

__all__ = [
    "Kernel",
    "Library",
    "NotRunnableError",
    "OperandError",
    "PackedB",
    "TargetError",
    "TilewrightError",
    "load",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the module has
    """Imports the public name `name`."""
    if name == "__version__":
        return import_module(f"{__name__}.version").VERSION
    if name not in _ORIGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ORIGINS[name]}"), name)
