# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads the ops that are written in C++ into torch, and adds kernels to their registry."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import TilewrightError

_ROOM = 8192
"""Bytes for the text of an error."""

RESOLVER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
"""A function that compiles the kernel for a problem, and returns 0, or writes an error of so many bytes at most."""


def binary() -> Path:
    """The file of the ops, which torch and programs without Python load."""
    return Path(__file__).with_name("libtilewright_torch.so")


@cache
def library() -> ctypes.CDLL:
    """The ops, loaded into torch.

    Raises:
        TilewrightError: They were not built, or this torch does not load them.
    """
    path = binary()
    if not path.exists():
        raise TilewrightError(
            "the ops for torch are not built",
            where="tilewright.torch",
            expected=str(path),
            remedy="Run `make setup-frameworks` in a checkout of tilewright, or install a wheel that has them",
        )
    try:
        torch.ops.load_library(str(path))
    except OSError as problem:
        raise TilewrightError(
            f"torch {torch.__version__} does not load the ops: {problem}",
            where="tilewright.torch",
            expected="torch 2.10 or newer",
        ) from None
    loaded = ctypes.CDLL(str(path))
    loaded.tilewright_torch_set_resolver.argtypes = (RESOLVER,)
    loaded.tilewright_torch_set_resolver.restype = None
    return loaded


def add(name: str, form: str, packed: tuple[str, ...], entry: str, addresses: Mapping[str, int]) -> None:
    """Adds a kernel to the registry, whose code has to live from now on.

    Args:
        name: By which ops find it.
        form: What calls take and give, as `payload.call_forms` says, in JSON.
        packed: The operands that come packed.
        entry: The name of its C entry.
        addresses: Where functions of its code start, by name.

    Raises:
        TilewrightError: The registry refuses it.
    """
    names = (ctypes.c_char_p * len(addresses))(*(each.encode() for each in addresses))
    starts = (ctypes.c_void_p * len(addresses))(*addresses.values())
    texts = [each.encode() for each in (name, form, ",".join(packed), entry)]
    _checked(lambda *error: library().tilewright_torch_add(*texts, names, starts, ctypes.c_size_t(len(names)), *error))


def load(path: str) -> None:
    """Adds the kernels of a library that tilewright made, under their names.

    Raises:
        TilewrightError: It is no such library.
    """
    _checked(lambda *error: library().tilewright_torch_load(path.encode(), *error))


def _checked(call: Callable[..., int]) -> None:
    error: Any = ctypes.create_string_buffer(_ROOM)
    if call(error, ctypes.c_size_t(_ROOM)):
        raise TilewrightError(error.value.decode(errors="replace"), where="tilewright.torch")
