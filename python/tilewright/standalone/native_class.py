# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes classes whose calls are native: nanobind's classes take no second base."""

from __future__ import annotations

from abc import ABC
from typing import Any

_OWN = ("__call__", "__slots__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl")
"""What a class has for itself."""


def native(call: type, base: type[ABC]) -> Any:  # noqa: ANN401 - a class
    """A class whose calls are those of the native class `call`, with all else of `base`, whose subclass it passes for.

    Objects have an attribute `_about`.
    """
    members = {name: value for name, value in vars(base).items() if name not in _OWN}
    slots = {"__slots__": ("_about",), "__module__": base.__module__}
    return base.register(type(call)(call.__name__, (call,), {**members, **slots}))
